"""Read records from a JSONL file, plain or gzipped; a bad line is told, counted and passed over."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import typer
from pydantic import ValidationError

from monitor.errors import RecordError, own_words
from monitor.models import Interaction

_SHOWN_MISTAKES = 5
#: Columns of other tools for the same thing; the first that is there is taken.
_ALIASES = {
    "query": ("question", "user_input", "input"),
    "output": ("answer", "response", "actual_output"),
    "contexts": ("retrieved_contexts", "retrieval_context", "documents"),
    "expected": ("reference", "ground_truth", "expected_output"),
}
STDIN = Path("-")


def readable(path: Path) -> Path:
    """Check that *path* can be read: a file, a pipe, or ``-`` for the standard input."""
    if path != STDIN and (not path.exists() or path.is_dir()):
        what = "is a directory" if path.is_dir() else "does not exist"
        raise typer.BadParameter(f"file '{path}' {what}.")
    return path


class Record(NamedTuple):
    """One good line; ``size_bytes`` is its length, unpacked."""

    line: int
    interaction: Interaction
    size_bytes: int


@dataclass(slots=True)
class RecordFile:
    """
    The records of a file, read one at a time.

    ``unreadable`` counts the lines that are no records by what is wrong with them;
    ``tell`` gets one sentence for each of the first of them.
    """

    path: Path
    tell: Callable[[str], None]
    unreadable: Counter[str] = field(default_factory=Counter)
    name: str = ""  #: for people, where it is not that of the path
    lines: int = 0  #: that are not blank, once they are counted

    @classmethod
    @contextmanager
    def opened(cls, path: Path, tell: Callable[[str], None]) -> Iterator[Self]:
        """
        Open the records of *path* and count its lines; ``-`` is the standard input.

        A pipe can be read once only, and records are read twice: what it sends is copied
        to a file that is gone afterwards.

        Raises
        ------
        RecordError
            If it cannot be read, is damaged or holds nothing.
        """
        if path != STDIN and path.is_file():
            made = cls(path, tell)
            made.lines = made.count_lines()
            yield made
            return
        with tempfile.NamedTemporaryFile(prefix="groundwatch-") as copy:
            with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as pipe:
                shutil.copyfileobj(pipe, copy)
            copy.flush()
            made = cls(Path(copy.name), tell, name="stdin" if path == STDIN else str(path))
            made.lines = made.count_lines()
            yield made

    def __iter__(self) -> Iterator[Record]:
        for number, line in self._lines():
            record = self._read(number, line)
            if record is not None:
                yield record

    def count_lines(self) -> int:
        """
        Count the lines that are not blank, reading the file to its end.

        Raises
        ------
        RecordError
            If the file is damaged or holds nothing.
        """
        count = sum(1 for _ in self._lines())
        if count == 0:
            raise RecordError(f"{self._shown}: empty; it should have one JSON object a line")
        return count

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"  # gzipped, whatever its name
            opened = gzip.open(self.path, "rb") if packed else self.path.open("rb")  # noqa: SIM115  # closed below
        except OSError as error:
            raise RecordError(f"{self._shown}: {error.strerror or error}") from None
        with opened as lines:
            try:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield number, line
            except (OSError, EOFError, zlib.error) as error:
                raise RecordError(
                    f"{self._shown}: damaged ({error}); copy or compress it again"
                ) from None

    @property
    def _shown(self) -> str:
        return self.name or str(self.path)

    def _read(self, number: int, line: bytes) -> Record | None:
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                self._pass_over(number, "not_an_object", "a record is a JSON object")
                return None
            return Record(number, Interaction.model_validate(_plain(value, number)), len(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "record"
            if first["type"] == "missing":
                known = " or ".join((where, *_ALIASES.get(where, ())))
                first_mistake = "missing_field", f"column {where!r} is missing; expected {known}"
            else:
                first_mistake = "wrong_type", f"field {where!r}: {own_words(first['msg'])}"
            code, what = first_mistake
            self._pass_over(number, code, what)
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            self._pass_over(number, "not_json", f"no JSON: {what}")
        return None

    def _pass_over(self, number: int, code: str, what: str) -> None:
        self.unreadable[code] += 1
        total = self.unreadable.total()
        if total <= _SHOWN_MISTAKES:
            self.tell(f"line {number}: {what}; passed over")
        elif total == _SHOWN_MISTAKES + 1:
            self.tell("further bad lines are counted, not shown")


def _plain(value: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the record on line *number* in our own words: ids made, near misses understood."""
    record = dict(value)
    for ours, others in _ALIASES.items():
        there = next((name for name in others if name in record), None)
        if there is not None and ours not in record:
            record[ours] = record.pop(there)
    record["id"] = str(record.get("id") if record.get("id") is not None else number)
    contexts = record.get("contexts")
    if isinstance(contexts, str | dict):
        record["contexts"] = [contexts]
    if isinstance(record.get("contexts"), list):
        record["contexts"] = [_passage(item) for item in record["contexts"]]
    if isinstance(record.get("expected"), str):
        record["expected"] = {"answer": record["expected"]}
    if isinstance(record.get("tags"), list):
        record["tags"] = dict.fromkeys((str(tag) for tag in record["tags"]), "true")
    if isinstance(record.get("timestamp"), str):
        with suppress(ValueError):  # what is no time is named by the model
            at = datetime.fromisoformat(record["timestamp"])
            record["timestamp"] = at if at.tzinfo else at.replace(tzinfo=UTC)
    return record


def _passage(item: object) -> object:
    """Return a document of LangChain or LlamaIndex, as a dictionary, with its text named so."""
    if isinstance(item, dict) and "text" not in item:
        named = next((name for name in ("page_content", "content") if name in item), None)
        if named is not None:
            return {"text": item[named]} | {k: v for k, v in item.items() if k != named}
    return item
