"""
Records of files, JSONL, JSON, CSV or Parquet, and the columns of ours and of other tools.

A bad line is reported, counted by its reason and passed over.
"""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import io
import json
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Self, cast

from pydantic import ValidationError

from monitor.errors import MissingExtraError, RecordError
from monitor.models import Interaction
from monitor.models.records import columns_of, mistake, passages, read_interaction, take_names
from monitor.queue.wire import mended
from monitor.testsets import STDIN, Source
from monitor.testsets.exports import RawRecord, from_tool, hint

_SHOWN_MISTAKES = 5
_SHOWN_COLUMNS = 8
#: A cell of CSV with a whole document in it is longer than the reader's own limit.
_LONGEST_CELL = 2**24
#: An object with one of these is a record, though one list is all that it holds.
_OF_A_RECORD = {"output", "outputs", "messages", "query", "input", "inputs", "question"}
Form = Literal["groundwatch", "golden", "ragas", "deepeval", "huggingface"]

#: How a reference answer says that there is none.
UNANSWERABLE = "UNANSWERABLE"
NO_CASE = "a test case needs a query (or question, user_input, input)"
EXPECTED_COLUMNS = (
    *("expected", "ground_truth", "ground_truths", "reference", "expected_output", "answers"),
)
_HASH_CHARS = 12
#: Parts of a reference under the names of other tools.
_PARTS = {"relevant_docs": "relevant", "reference_contexts": "contexts"}
_THEIRS: dict[str, dict[str, str]] = {
    "ragas": {
        "query": "user_input", "contexts": "retrieved_contexts",
        "expected.contexts": "reference_contexts", "output": "response",
        "expected.answer": "reference",
    },
    "deepeval": {
        "query": "input", "output": "actual_output", "expected.answer": "expected_output",
        "contexts": "retrieval_context", "expected.contexts": "context",
    },
    "huggingface": {
        "query": "question", "contexts": "contexts", "output": "answer",
        "expected.answer": "ground_truth",
    },
}  # fmt: skip


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
    ``tell`` gets one sentence for each of the first of them. A name that ends with ``.json``
    is an array, ``.csv`` a table with a header, ``.parquet`` one of Parquet; everything else is
    JSONL. Lone surrogates are replaced, as the hook does. *source* names the tool that wrote it;
    unset: our columns, or anybody's aliases. Unless it *needs_output*, a record without one is read
    as well.
    """

    path: Path
    tell: Callable[[str], None]
    source: Source | None = None
    needs_output: bool = True
    unreadable: Counter[str] = field(default_factory=Counter)
    name: str = ""  #: for people, where it is not that of the path
    lines: int = 0  #: that are not blank, once they are counted

    @classmethod
    @contextmanager
    def opened(
        cls,
        path: Path,
        tell: Callable[[str], None],
        source: Source | None = None,
        *,
        needs_output: bool = True,
    ) -> Iterator[Self]:
        """
        Open the records of *path* and count its lines; ``-`` is the standard input.

        A pipe can be read once only, and records are read twice: what it sends is copied to a file
        that is gone afterwards. Raise RecordError if it cannot be read, is damaged or holds
        nothing.
        """
        if path != STDIN and path.is_file():
            made = cls(path, tell, source, needs_output)
            made.lines = made.count_lines()
            yield made
            return
        with tempfile.NamedTemporaryFile(prefix="groundwatch-") as copy:
            with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as pipe:
                shutil.copyfileobj(pipe, copy)
            copy.flush()
            name = "stdin" if path == STDIN else str(path)
            made = cls(Path(copy.name), tell, source, needs_output, name=name)
            made.lines = made.count_lines()
            yield made

    def __iter__(self) -> Iterator[Record]:
        for number, value, size_bytes in self.raw():
            with self.passing_over(number, value):
                found = read_interaction(value, number, needs_output=self.needs_output)
                yield Record(number, found, size_bytes)

    def raw(self) -> Iterator[RawRecord]:
        """Read the objects of the file as they are, or under our names if their tool is known."""

        def objects() -> Iterator[RawRecord]:
            for number, item, size_bytes in self._items():
                with self.passing_over(number):
                    value = mended(json.loads(item) if isinstance(item, bytes) else item)
                    if isinstance(value, dict):
                        yield RawRecord(number, value, size_bytes)
                    else:
                        self.pass_over(number, "not_an_object", "a record is a JSON object")

        return from_tool(objects(), self.source) if self.source else objects()

    def count_lines(self) -> int:
        """
        Count the records, good or bad, reading the file to its end.

        Raise RecordError if the file is damaged or holds nothing.
        """
        count = sum(1 for _ in self._items())
        if count == 0:
            raise RecordError(f"{self._shown}: empty; it should have one JSON object a line")
        return count

    @contextmanager
    def passing_over(self, number: int, columns: Iterable[str] = ()) -> Iterator[None]:
        """Count a record that cannot be read within, with its reason, and go on."""
        try:
            yield
        except ValidationError as error:
            code, what, is_column = mistake(error)
            if is_column and columns and not self.source:
                shown = ", ".join(str(name)[:40] for name in [*columns][:_SHOWN_COLUMNS])
                what += f"; there are: {shown}{hint(columns)}"
            self.pass_over(number, code, what)
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            self.pass_over(number, "not_json", f"not JSON: {what}")

    def pass_over(self, number: int, code: str, what: str) -> None:
        """Count the record on line *number* as unreadable for the reason *code*."""
        self.unreadable[code] += 1
        total = self.unreadable.total()
        if total <= _SHOWN_MISTAKES:
            self.tell(f"line {number}: {what}; passed over")
        elif total == _SHOWN_MISTAKES + 1:
            self.tell("further bad lines are counted, not shown")

    @property
    def _shown(self) -> str:
        return self.name or str(self.path)

    def _items(self) -> Iterator[tuple[int, bytes | object, int]]:
        """Read lines of JSON still unread, or the items of an array or a table."""
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"  # gzipped, whatever its name
            opened = gzip.open(self.path, "rb") if packed else self.path.open("rb")  # noqa: SIM115  # closed below
        except OSError as error:
            raise RecordError(f"{self._shown}: {error.strerror or error}") from None
        form = self._shown.removesuffix(".gz").rpartition(".")[2].lower()
        with opened as lines:
            try:
                if form == "json":
                    yield from self._array(cast("IO[bytes]", lines))
                elif form == "csv":
                    yield from _table(cast("IO[bytes]", lines))
                elif form == "parquet":
                    yield from _parquet(self.path, self._shown)
                else:
                    for number, line in enumerate(lines, start=1):
                        if line.strip():
                            yield number, line, len(line)
            except (OSError, EOFError, zlib.error) as error:
                raise RecordError(
                    f"{self._shown}: damaged ({error}); copy or compress it again"
                ) from None
            except csv.Error as error:
                raise RecordError(f"{self._shown}: Invalid CSV: {error}") from None

    def _array(self, file: IO[bytes]) -> Iterator[tuple[int, object, int]]:
        """Read a JSON array, or an object that holds one, such as ``{"goldens": [...]}``."""
        text = file.read()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{self._shown}: Invalid JSON: {error}") from None
        if isinstance(value, dict):
            lists = [each for each in value.values() if isinstance(each, list)]
            is_record = value.keys() & _OF_A_RECORD
            value = lists[0] if len(lists) == 1 and not is_record else [value]
        if not isinstance(value, list):
            raise RecordError(f"{self._shown}: expected a JSON array of objects")
        for place, item in enumerate(value, start=1):
            yield place, item, len(text) // len(value)


def _table(file: IO[bytes]) -> Iterator[tuple[int, object, int]]:
    """Read CSV with a header; a cell that looks like a list or an object is read as one."""

    def parsed(text: str) -> object:
        if text[:1] in {"[", "{"}:
            for read in (json.loads, ast.literal_eval):  # pandas writes lists as Python does
                with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                    return read(text)
        return text

    csv.field_size_limit(_LONGEST_CELL)
    with io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="") as text:
        rows = csv.DictReader(text)
        for row in rows:
            cells = {name: cell for name, cell in row.items() if isinstance(cell, str) and name}
            values = {name: parsed(cell) for name, cell in cells.items() if cell != ""}
            if values:
                yield rows.line_num, values, sum(map(len, cells.values()))


def _parquet(path: Path, shown: str) -> Iterator[tuple[int, object, int]]:
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415  # large, and seldom wanted
    except ModuleNotFoundError:
        raise MissingExtraError("reading Parquet", "parquet") from None
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(1_000):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row, batch.nbytes // batch.num_rows
    except ArrowException as error:
        reason = str(error).splitlines()[0]
        raise RecordError(f"{shown}: Invalid Parquet: {reason}") from None


def is_case(value: Mapping[str, Any]) -> bool:
    """Return whether a record asks something."""
    return any(value.get(name) for name in (*columns_of("query"), "history"))


def fields_of(value: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """
    Return the fields of a test case out of a record with anybody's columns.

    ``answer`` is a recorded answer beside a reference or passages, and else the reference.
    ``context`` is a passage that is given; in a list it is what should be retrieved. Columns
    that are not *known* go into ``metadata``.
    """
    record = {name: item for name, item in value.items() if item is not None}
    metadata = record.pop("metadata", {})
    expected = _reference(record)
    is_recorded = bool(expected) or any(name in record for name in columns_of("contexts"))
    if "answer" in record and not is_recorded:
        expected["answer"] = record.pop("answer")
    take_names(record, ("query", "output", "contexts"))
    if isinstance(record.get("context"), str) and "contexts" not in record:
        record["contexts"] = record.pop("context")
    elif "context" in record:
        expected.setdefault("contexts", record.pop("context"))
    if "contexts" in record:
        record["contexts"] = passages(record["contexts"])
    if expected.get("answer") == UNANSWERABLE:
        expected["unanswerable"] = True
    record["id"] = str(record.get("id", record.pop("sample_id", ""))) or made_id(record)
    fields = {key: item for key, item in record.items() if key in known} | {"expected": expected}
    unknown = {key: item for key, item in record.items() if key not in known}
    if not isinstance(metadata, dict):
        return fields | {"metadata": metadata}  # which is refused, with what is wrong with it
    return fields | {"metadata": {**unknown, **metadata}}


def _reference(record: dict[str, Any]) -> dict[str, Any]:
    """Take what is expected out of *record*, under our names."""
    found: dict[str, Any] = {}
    for column in EXPECTED_COLUMNS:
        value = record.pop(column, None)
        if isinstance(value, dict) and column == "answers":  # {"text": [...]} of SQuAD
            value = value.get("text")
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, dict):
            found |= {_PARTS.get(str(key), str(key)): item for key, item in value.items()}
        elif value is not None:
            found.setdefault("answer", str(value))
    if "reference_contexts" in record:
        found["contexts"] = record.pop("reference_contexts")
    cited = found.get("citations")
    if isinstance(cited, list) and any(isinstance(each, dict) for each in cited):
        pairs = [each if isinstance(each, dict) else {"source": each} for each in cited]
        found["citations"] = [str(each.get("source", "")) for each in pairs]
        found["cited_claims"] = [str(each.get("claim", "")) for each in pairs]
    return found


def made_id(record: Mapping[str, Any]) -> str:
    """Return the id of a case that has none: the same for the same question."""
    return f"case-{content_hash([record.get('query'), record.get('history')])}"


def row_of(case: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """
    Return a case in the columns of *form*, and under our names what those do not hold.

    *case* is a dump of a `TestCase` without its defaults.
    """
    row = dict(case)
    metadata: dict[str, Any] = row.pop("metadata", {})
    if row["id"] == made_id(row):
        del row["id"]
    row["contexts"] = [
        each["text"] if each.keys() == {"text"} else each for each in row.get("contexts", ())
    ]
    if not row["contexts"]:
        del row["contexts"]
    if form == "groundwatch":
        return row | ({"metadata": metadata} if metadata else {})
    expected = row.pop("expected", {})
    if expected.get("answer") == UNANSWERABLE:
        expected.pop("unanswerable", None)
    order: tuple[str, ...] = ("query", "ground_truth", "category", "difficulty")
    if form == "golden":
        truth = {"relevant_docs" if k == "relevant" else k: v for k, v in expected.items()}
        if "cited_claims" in truth:
            pairs = zip(truth.pop("cited_claims"), truth["citations"], strict=True)
            truth["citations"] = [{"claim": claim, "source": source} for claim, source in pairs]
        row["ground_truth"] = truth
    else:
        theirs = _THEIRS[form]
        row = {theirs.get(name, name): value for name, value in row.items()}
        for name in ("answer", "contexts"):
            column = theirs.get(f"expected.{name}")
            if column is not None and name in expected:
                row[column] = expected.pop(name)
        if expected:
            row["expected"] = expected
        order = tuple(theirs.values())
    first = {name: row[name] for name in order if name in row}
    return first | {name: value for name, value in row.items() if name not in first} | metadata


def to_json(value: object) -> str:
    """Return *value* as JSON on one line, in readable characters."""
    return json.dumps(value, ensure_ascii=False)


def content_hash(value: object) -> str:
    """Return a short hash of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_HASH_CHARS]
