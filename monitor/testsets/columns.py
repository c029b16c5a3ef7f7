"""The columns of test cases: ours and those of other tools, read and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from monitor.testsets.records import ALIASES, passage

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


def is_case(value: Mapping[str, Any]) -> bool:
    """Return whether a record asks something."""
    return any(value.get(name) for name in (*columns_of("query"), "history"))


def columns_of(ours: str) -> tuple[str, ...]:
    """Return all names of a column; whether ``answer`` is an output depends on the record."""
    return (ours, *ALIASES[ours])


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
    for ours in ("query", "output", "contexts"):
        there = next((name for name in columns_of(ours) if name in record), None)
        if there is not None:
            record[ours] = record.pop(there)
    if isinstance(record.get("context"), str) and "contexts" not in record:
        record["contexts"] = record.pop("context")
    elif "context" in record:
        expected.setdefault("contexts", record.pop("context"))
    passages = record.get("contexts", ())
    if isinstance(passages, str | dict):
        passages = [passages]
    if isinstance(passages, list | tuple):
        record["contexts"] = [passage(each) for each in passages]
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


_THEIRS: dict[str, dict[str, str]] = {
    "ragas": {
        "query": "user_input",
        "contexts": "retrieved_contexts",
        "expected.contexts": "reference_contexts",
        "output": "response",
        "expected.answer": "reference",
    },
    "deepeval": {
        "query": "input",
        "output": "actual_output",
        "expected.answer": "expected_output",
        "contexts": "retrieval_context",
        "expected.contexts": "context",
    },
    "huggingface": {
        "query": "question",
        "contexts": "contexts",
        "output": "answer",
        "expected.answer": "ground_truth",
    },
}


def to_json(value: object) -> str:
    """Return *value* as JSON on one line, in readable characters."""
    return json.dumps(value, ensure_ascii=False)


def content_hash(value: object) -> str:
    """Return a short hash of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_HASH_CHARS]
