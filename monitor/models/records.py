"""Read a record of a file or of Python as an interaction, under anybody's names of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..errors import own_words
from .interaction import Interaction, Turn

#: Columns of other tools for the same thing; the first that is there is taken.
ALIASES = {
    "query": ("question", "user_input", "input"),
    "output": ("answer", "response", "actual_output"),
    "contexts": ("retrieved_contexts", "retrieval_context", "documents"),
    "expected": ("reference", "ground_truth", "expected_output"),
}


def read_interaction(
    value: Mapping[str, Any], number: int, *, needs_output: bool = True
) -> Interaction:
    """
    Return the record in place *number*, from 1, as an interaction.

    An output that is there and empty is "", and so is one that is missing unless *needs_output*:
    what reads it is then skipped. Raise pydantic's ValidationError if a field is wrong.
    """
    record = renamed(value, number)
    try:
        return Interaction.model_validate(record)
    except ValidationError as error:
        others = [each for each in error.errors() if each["loc"] != ("output",)]
        may_be_empty = "output" in record or not needs_output
        if others or record.get("output") is not None or not may_be_empty:
            raise
        return Interaction.model_validate(record | {"output": ""})


class Mistake(NamedTuple):
    """What is wrong with a record, by a code and in words without its content."""

    code: str
    what: str
    is_column: bool = False  #: a whole column is missing


_MISSING = "missing_field"
_TURN = ("turn", '{"role": "user", "content": "..."}')
#: What is listed in a field, and what one of it looks like.
_LISTED = {
    "history": _TURN,
    "messages": _TURN,
    "contexts": ("passage", 'a text, or {"id": "...", "text": "..."}'),
    "tool_calls": ("tool call", '{"name": "...", "arguments": {...}}'),
}


def mistake(error: ValidationError) -> Mistake:
    """Return the first mistake in a record."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = [str(part) for part in first["loc"]] or ["record"]
    code = _MISSING if first["type"] == "missing" else "wrong_type"
    what, (field, *inner) = own_words(first["msg"]), where
    if field in Turn.model_fields:  # of a message, which is read before the record has fields
        field, inner = "messages", ["", field]
    if field in _LISTED:
        return Mistake(
            code, _in_list(field, inner, " is missing" if code == _MISSING else f": {what}")
        )
    if code == _MISSING:
        known = " or ".join((field, *ALIASES.get(field, ())))
        return Mistake(code, f"column {field!r} is missing; expected {known}", is_column=True)
    if field == "timestamp":
        what = "expected a time such as 2026-01-31T12:00:00Z"
    return Mistake(code, f"field {'.'.join(where)!r}: {what}")


def _in_list(field: str, inner: Sequence[str], what: str) -> str:
    """Say *what* is wrong in a list, or at a place and a key *inner* of it, and what is right."""
    one, form = _LISTED[field]
    if not inner:
        return f"field {field!r}: expected a list of {one}s, each {form}"
    place, *keys = inner
    said = f"{one} {int(place) + 1}" if place else f"a {one}"
    key = f"{'.'.join(keys)!r}{what}; " if keys else ""
    return f"{said} of {field!r}: {key}expected {form}"


def renamed(value: Mapping[str, Any], number: int) -> dict[str, Any]:
    """
    Return the record on line *number* with our names.

    Ids are made, and near misses understood: columns of other tools, a lone passage, documents
    of LangChain and LlamaIndex, an expected answer as text, tags in a list, times without a zone.
    """
    record = dict(value)
    take_names(record, ALIASES)
    record["id"] = str(record.get("id") if record.get("id") is not None else number)
    if "contexts" in record:
        record["contexts"] = passages(record["contexts"])
    if isinstance(record.get("expected"), str):
        record["expected"] = {"answer": record["expected"]}
    if isinstance(record.get("tags"), list):
        record["tags"] = dict.fromkeys((str(tag) for tag in record["tags"]), "true")
    at = record.get("timestamp")
    if isinstance(at, str):
        with suppress(ValueError):  # what is not a time is named by the model
            at = datetime.fromisoformat(at)
    if isinstance(at, datetime):
        record["timestamp"] = at if at.tzinfo else at.replace(tzinfo=UTC)
    return record


def take_names(record: dict[str, Any], names: Iterable[str]) -> None:
    """Rename columns of other tools to *names* of ours, where a column of ours is not there."""
    for ours in names:
        there = next((name for name in columns_of(ours) if name in record), None)
        if there is not None:
            record[ours] = record.pop(there)


def passages(value: object) -> object:
    """Return passages as a list, also a lone one; of LangChain and LlamaIndex in our form."""
    if isinstance(value, str | dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    found = []
    for item in value:
        named = None
        if isinstance(item, dict) and "text" not in item:
            named = next((name for name in ("page_content", "content") if name in item), None)
        if named is None:
            found.append(item)
        else:
            found.append({"text": item[named]} | {k: v for k, v in item.items() if k != named})
    return found


def columns_of(ours: str) -> tuple[str, ...]:
    """Return all names of a column; whether ``answer`` is an output depends on the record."""
    return (ours, *ALIASES[ours])
