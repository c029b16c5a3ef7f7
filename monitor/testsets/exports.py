"""What other tools export: rows that hold a record each, and traces of several rows each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from monitor.hook.capture import ASSISTANTS
from monitor.integrations.messages import (
    ChatReader,
    ResponsesReader,
    as_list,
    earlier_turns,
    last_text,
    part_of,
    since_last_user,
    text_of,
)
from monitor.integrations.spans import kind_of, read
from monitor.integrations.traces import Trace
from monitor.testsets import Source


class RawRecord(NamedTuple):
    """One object of a file with its line, or its place in an array; ``size_bytes``, unpacked."""

    line: int
    value: dict[str, Any]
    size_bytes: int


#: Columns by which a tool's rows are known, where they were read without its name.
_MARKS = {
    Source.PHOENIX: ("context.trace_id", "attributes.output.value"),
    Source.LANGFUSE: ("observations", "traceId"),
    Source.LANGSMITH: ("run_type", "child_runs"),
    Source.OPENAI: ("custom_id", "choices", "request"),
}


def hint(columns: Iterable[str]) -> str:
    """Return what to add to a command whose file has these columns; empty if nothing is known."""
    there = {*columns}
    tool = next((tool for tool, marks in _MARKS.items() if there.intersection(marks)), None)
    return f"; add --from {tool}" if tool else ""


def from_tool(rows: Iterable[RawRecord], source: Source) -> Iterator[RawRecord]:
    """
    Yield the records of a tool's *rows* under our names; what cannot be read stays missing.

    The rows of a trace are joined; their order does not matter.
    """
    layout = _TRACES.get(source)
    if layout is None:
        for line, value, size in rows:
            plain = {name: item for name, item in value.items() if item is not None}
            yield RawRecord(line, _ROWS[source](plain), size)
        return
    traces: dict[str, Trace] = {}
    first: dict[str, tuple[int, int, object]] = {}

    def add(row: Mapping[str, Any], line: int, size: int, above: str | None) -> None:
        trace_id = above or str(part_of(row, *layout.trace_id) or line)
        is_root = above is None and part_of(row, *layout.parent) is None
        attributes = dict(_attributes(row, layout))
        kind = kind_of(attributes, is_root=is_root) or ("flow" if is_root else None)
        trace = traces.setdefault(trace_id, Trace(trace_id, 0.0, rate=1.0))
        line, so_far, started = first.get(trace_id, (line, 0, None))
        started = part_of(row, *layout.started) if is_root else started
        first[trace_id] = line, so_far + size, started
        for each in as_list(row.get(layout.below)):  # before the whole, whose answer counts
            if isinstance(each, dict):
                add(each, line, 0, trace_id)
        if kind is not None:
            fields = read(kind, attributes, name=str(row.get("name") or ""))
            trace.add(kind, lambda: fields, lambda: 0)

    for line, value, size in rows:
        add(value, line, size, None)
    for trace_id, trace in traces.items():
        line, size, started = first[trace_id]
        found = {name: item for name, item in trace.given().items() if item is not None}
        found |= {"id": trace_id} | ({"timestamp": started} if started else {})
        yield RawRecord(line, found, size)


# --- a record a row ---


def _with_reference(row: dict[str, Any], turns: str, contexts: str, answer: str) -> dict[str, Any]:
    """Read a row under the tool's names of turns, and of what to retrieve and to answer."""
    if isinstance(row.get(turns), list):  # a sample of several turns
        row |= _said(row.pop(turns))
    if "tools_called" in row:
        names = {"name": "name", "arguments": "input_parameters", "result": "output"}
        row["tool_calls"] = [
            {ours: part_of(call, theirs) for ours, theirs in names.items()}
            for call in as_list(row.pop("tools_called"))
        ]
    if contexts in row:
        parts = {"contexts": row.pop(contexts), "answer": row.pop(answer, None)}
        row["expected"] = {name: part for name, part in parts.items() if part is not None}
    return row


def _from_hf(row: dict[str, Any]) -> dict[str, Any]:
    names = {
        "contexts": ("context", "ctxs", "passages"),
        "expected": ("answers", "ground_truths", "golden_answers"),
    }
    for ours, theirs in names.items():
        name = next((name for name in theirs if name in row), None)
        if name is not None and ours not in row:
            row[ours] = row.pop(name)
    expected = row.get("expected")
    if isinstance(expected, dict) and "text" in expected:  # as SQuAD has them
        expected = expected["text"]
    if isinstance(expected, list):
        expected = next(iter(expected), None)
    if expected is None:
        row.pop("expected", None)
    else:
        row["expected"] = expected
    return row


def _from_openai(row: dict[str, Any]) -> dict[str, Any]:
    """Read chats, stored completions and responses, and the rows of batches and of evals."""
    request = row.pop("request", None) or row
    request = part_of(request, "body") or request
    reply = row.pop("response", None) or row
    reply = part_of(reply, "body") or reply
    asked = part_of(request, "messages", "input", "prompt")
    found: dict[str, Any] = {"query": asked} if isinstance(asked, str) else _said(as_list(asked))
    answer = ChatReader().answer(reply) or ResponsesReader().answer(reply)
    answer = answer or text_of(part_of(reply, "output", "output_text"))
    if answer:
        found["output"] = answer
    if "ideal" in row:
        ideal = row.pop("ideal")
        found["expected"] = str(ideal[0] if isinstance(ideal, list) and ideal else ideal)
    if "custom_id" in row:
        found["id"] = row.pop("custom_id")
    model = part_of(reply, "model")
    used = ("messages", "input", "prompt", "choices", "output", "body", "model", "object", "usage")
    kept = {name: item for name, item in row.items() if name not in used}
    return {**kept, **({"model": model} if model else {}), **found}


def _said(messages: Any) -> dict[str, Any]:
    """Return question, answer and earlier turns of a conversation."""
    found = {
        "query": last_text(messages),
        "output": last_text(since_last_user(messages), ASSISTANTS),
        "history": earlier_turns(messages),
    }
    return {name: value for name, value in found.items() if value}


_ROWS: dict[Source, Callable[[dict[str, Any]], dict[str, Any]]] = {
    Source.RAGAS: partial(
        _with_reference, turns="user_input", contexts="reference_contexts", answer="reference"
    ),
    Source.DEEPEVAL: partial(
        _with_reference, turns="turns", contexts="context", answer="expected_output"
    ),
    Source.HF: _from_hf,
    Source.OPENAI: _from_openai,
}

# --- a trace of several rows, which are read as spans ---


class _Layout(NamedTuple):
    """Where a tool's rows have what; attributes are those of the tool's own spans."""

    trace_id: tuple[str, ...]
    parent: tuple[str, ...]
    below: str  #: rows within a row
    attributes: Mapping[str, str]
    started: tuple[str, ...]


_TRACES = {
    Source.LANGFUSE: _Layout(
        trace_id=("traceId", "trace_id", "id"),
        parent=("parentObservationId", "parent_observation_id", "traceId", "trace_id"),
        below="observations",
        attributes={
            "type": "langfuse.observation.type", "input": "langfuse.observation.input",
            "output": "langfuse.observation.output", "model": "langfuse.observation.model.name",
            "sessionId": "session.id", "session_id": "session.id", "userId": "user.id",
            "user_id": "user.id", "release": "langfuse.release",
            "environment": "langfuse.environment",
        },
        started=("timestamp", "startTime", "start_time"),
    ),
    Source.LANGSMITH: _Layout(
        trace_id=("trace_id", "id"),
        parent=("parent_run_id",),
        below="child_runs",
        attributes={
            "run_type": "langsmith.span.kind", "inputs": "gen_ai.prompt",
            "outputs": "gen_ai.completion", "metadata.session_id": "session.id",
            "metadata.thread_id": "langsmith.metadata.thread_id", "metadata.user_id": "user.id",
            "metadata.ls_model_name": "gen_ai.request.model",
        },
        started=("start_time",),
    ),
    Source.PHOENIX: _Layout(
        trace_id=("context.trace_id", "trace_id"),
        parent=("parent_id",),
        below="children",
        attributes={"span_kind": "openinference.span.kind"},
        started=("start_time",),
    ),
}  # fmt: skip


def _attributes(row: Mapping[str, Any], layout: _Layout) -> Iterator[tuple[str, Any]]:
    """Yield a row as the attributes of a span: texts, or JSON where there is more."""
    extra = part_of(row.get("extra"), "metadata")
    items = extra.items() if isinstance(extra, dict) else ()
    for name, value in [*row.items(), *((f"metadata.{key}", item) for key, item in items)]:
        known = layout.attributes.get(name)
        if value is None:
            continue
        if known is not None:
            is_text = isinstance(value, str)
            yield known, value if is_text else json.dumps(value, ensure_ascii=False, default=str)
        elif name.startswith("attributes"):
            yield from _flat(name.removeprefix("attributes").removeprefix("."), value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield nested attributes under numbered names, as spans have them."""
    if name.endswith(".value"):
        yield name, value if isinstance(value, str) else json.dumps(value, default=str)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _flat(f"{name}.{number}", item)
    elif value is not None:
        yield name, value
