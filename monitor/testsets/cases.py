"""Test cases and sets of them: read from files of several tools, filtered, written, versioned."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from monitor.errors import RecordError, first_mistake
from monitor.models import Interaction
from monitor.models.interaction import Name, Passage
from monitor.models.records import ALIASES, columns_of
from monitor.testsets import Source
from monitor.testsets.records import (
    EXPECTED_COLUMNS,
    NO_CASE,
    Form,
    RecordFile,
    content_hash,
    fields_of,
    is_case,
    row_of,
    to_json,
)

#: What a run makes, and what is not part of the test.
_NOT_IN_VERSION = {"id", "output", "metadata"}


class TestCase(BaseModel, frozen=True, extra="forbid"):
    """
    One question of a test set, with what a good answer is like.

    Any columns that `TestSet.read` knows are taken, unknown ones are kept in ``metadata``.
    A case also reads like a dictionary: ``case["input"]``, ``case.get("complexity", "medium")``;
    what was not given is not there.

    Parameters
    ----------
    id
        Pairs the case with itself in other runs; by default made from its question.
    query, history, contexts
        What the app gets: the question, earlier turns (``{"role", "content"}``, oldest first),
        and passages where the app does not retrieve its own.
    expected
        ``answer``, ``relevant``, ``citations``, ``unanswerable``, ``aspects`` and so on, as the
        metrics need them.
    output
        A recorded answer, for runs that call no app.
    tags, category, complexity, difficulty, question_type
        What to filter and to break results down by.
    critical
        Whether a gate tolerates no failure of this case.
    """

    __test__: ClassVar[bool] = False  # no class of tests, whatever pytest makes of its name
    id: Name
    query: str | None = None
    history: tuple[dict[str, Any], ...] = ()
    contexts: tuple[Passage, ...] = ()
    expected: dict[str, Any] = Field(default_factory=dict)
    output: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    complexity: str | None = None
    difficulty: str | None = None
    question_type: str | None = None
    critical: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_any_columns(cls, value: object) -> object:
        return fields_of(value, cls.model_fields) if isinstance(value, dict) else value

    @field_validator("tags", mode="before")
    @classmethod
    def _read_tags(cls, value: object) -> object:
        """Read a list, an object of keys and values, or one text with commas."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, Mapping):
            return [key if item == "true" else f"{key}={item}" for key, item in value.items()]
        return () if value is None else value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field by its name or another tool's, or a key of ``metadata``."""
        name = next((ours for ours in ALIASES if key in columns_of(ours)), key)
        name = "expected" if key in EXPECTED_COLUMNS else name
        if name not in type(self).model_fields:
            return self.metadata.get(key, default)
        value = getattr(self, name)
        if value is None or value in ((), {}):
            return default
        return list(value) if isinstance(value, tuple) else value

    def __getitem__(self, key: str) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __contains__(self, key: str) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    @property
    def version(self) -> str:
        """A hash of what the case asks and expects; a recorded answer does not change it."""
        left_out = _NOT_IN_VERSION | ({"contexts"} if self.output is not None else set())
        return content_hash(self.model_dump(mode="json", exclude=left_out, exclude_defaults=True))

    def interaction(self, output: str, **fields: Any) -> Interaction:
        """Return the exchange in which an app answered *output*; *fields* replace ours."""
        mine: dict[str, Any] = {
            "id": self.id,
            "query": self.query,
            "contexts": self.contexts,
            "expected": self.expected or None,
            "metadata": self.metadata,
            "tags": {
                key: value or "true" for key, _, value in (t.partition("=") for t in self.tags)
            },
        }
        if self.history:
            mine["history"] = self.history
        return Interaction.model_validate(mine | {"output": output} | fields)


_MISSING = object()


class TestSet:
    """
    Named test cases, in order, indexed by their tags.

    ``tests`` lists the cases, ``tags`` their places by tag, ``unreadable`` counts what `read`
    passed over by reason.

    Parameters
    ----------
    name
        What reports call it.
    tests
        Cases, or objects with their fields.
    """

    __test__: ClassVar[bool] = False

    def __init__(self, name: str, tests: Iterable[TestCase | Mapping[str, Any]] = ()) -> None:
        self.name = name
        self.tests: list[TestCase] = []
        self.tags: dict[str, list[int]] = {}
        self.unreadable: Counter[str] = Counter()
        self._ids: Counter[str] = Counter()
        for each in tests:
            self.add_test(each)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        tell: Callable[[str], None] = lambda _: None,
        source: Source | None = None,
    ) -> Self:
        """
        Read a set from JSONL, JSON, CSV or Parquet.

        Columns: our own; ``ground_truth`` as an object with ``answer``, ``relevant_docs`` and
        ``citations``; those of RAGAS, DeepEval and Hugging Face data sets. ``answer`` is a recorded
        answer beside a reference or passages, and else the reference.

        Parameters
        ----------
        path
            The file; the set is called as it is, without the ending.
        tell
            Gets one sentence for each of the first lines that are passed over.
        source
            The tool that exported the file, such as ``"langsmith"``.

        Raises
        ------
        RecordError
            If the file cannot be read or holds no test case.
        """
        path = Path(path)
        made = cls(path.name.removesuffix(".gz").rsplit(".", 1)[0])
        file = RecordFile(path, tell, Source(source) if source else None)
        for line, value, _ in file.raw():
            if not is_case(value):
                file.pass_over(line, "missing_field", NO_CASE)
                continue
            with file.passing_over(line):
                case = TestCase.model_validate(value)
                if ("id" in value or "sample_id" in value) and case.id in made._ids:
                    file.pass_over(line, "duplicate_id", f"another case has the id {case.id!r}")
                else:
                    made._append(case, is_named=False)
        made.unreadable = file.unreadable
        if not made.tests:
            raise RecordError(f"{path}: no test case; expected one JSON object a line with a query")
        return made

    def write(self, path: str | Path, form: Form = "groundwatch") -> None:
        """
        Write the set, whole or not at all; the ending chooses JSONL, ``.json`` or ``.csv``.

        What a form has no column for is written under our names beside, so that reading it
        again loses nothing.

        Parameters
        ----------
        path
            The file; it is readable by its owner alone.
        form
            Whose columns: ours, those of golden sets with ``ground_truth``, RAGAS', DeepEval's or
            Hugging Face's.
        """
        path = Path(path)
        rows = [
            row_of(case.model_dump(mode="json", exclude_defaults=True), form) for case in self.tests
        ]
        if path.suffix == ".json":
            text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        elif path.suffix == ".csv":
            columns = list(dict.fromkeys(name for row in rows for name in row))
            table = io.StringIO()
            writer = csv.DictWriter(table, columns, lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow(
                    {k: v if isinstance(v, str) else to_json(v) for k, v in row.items()}
                )
            text = table.getvalue()
        else:
            text = "".join(f"{to_json(row)}\n" for row in rows)
        write_whole(path, text)

    def add_test(self, test_case: TestCase | Mapping[str, Any]) -> None:
        """
        Add a case and index its tags.

        Raise RecordError if it has no question, a wrong field, or the id of another case.
        """
        if isinstance(test_case, TestCase):
            self._append(test_case, is_named=True)
            return
        if not is_case(test_case):
            raise RecordError(f"Invalid test case: {NO_CASE}")
        try:
            made = TestCase.model_validate(dict(test_case))
        except ValidationError as error:
            raise RecordError(f"Invalid test case: {': '.join(first_mistake(error))}") from None
        self._append(made, is_named="id" in test_case)

    def _append(self, case: TestCase, *, is_named: bool) -> None:
        """Add a case; an id that was made from its question is distinguished from an equal one."""
        self._ids[case.id] += 1
        if self._ids[case.id] > 1:
            if is_named:
                raise RecordError(f"two cases have the id {case.id!r}; ids pair cases between runs")
            case = case.model_copy(update={"id": f"{case.id}-{self._ids[case.id]}"})
        self.tests.append(case)
        for tag in case.tags:
            self.tags.setdefault(tag, []).append(len(self.tests) - 1)

    def filter(self, **criteria: Any) -> list[TestCase]:
        """Return the cases whose fields have these values: ``filter(category="legal")``."""
        return [
            case
            for case in self.tests
            if all(case.get(key) == value for key, value in criteria.items())
        ]

    def with_tag(self, tag: str) -> list[TestCase]:
        """Return the cases that have *tag*, in order."""
        return [self.tests[place] for place in self.tags.get(tag, ())]

    def get_complexity_distribution(self) -> dict[str, int]:
        """Count the cases by complexity; ``medium`` where a case names none."""
        return dict(Counter(case.get("complexity", "medium") for case in self.tests))

    @property
    def version(self) -> str:
        """A hash of ids and content of the cases, whatever their order and the set's name."""
        return content_hash(sorted([case.id, case.version] for case in self.tests))

    def __len__(self) -> int:
        return len(self.tests)

    def __iter__(self) -> Iterator[TestCase]:
        return iter(self.tests)


def write_whole(path: Path, text: str) -> None:
    """Write *text* to *path*, readable by its owner alone, so that no reader sees a part."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
