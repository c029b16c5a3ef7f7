"""Read span attributes of OpenTelemetry's GenAI conventions, old and new, and of OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from monitor.integrations.genai_messages import (
    REDACTED,
    input_messages,
    messages_in_events,
    nested,
    output_messages,
)
from monitor.integrations.messages import (
    ASSISTANTS,
    answer_in,
    as_list,
    from_json,
    last_text,
    part_of,
    question_in,
    text_of,
    tool_call,
)

#: *flow*: a chain or an agent as a whole; *model*: one call of a model.
Kind = Literal["flow", "model", "retrieval", "reranking", "tool"]
Attributes = Mapping[str, Any]
#: Name and attributes of what happened during a span.
Event = tuple[str, Attributes]

_OPERATIONS: dict[str, Kind] = {
    "chat": "model",
    "text_completion": "model",
    "completion": "model",
    "generate_content": "model",
    "invoke_agent": "flow",
    "invoke_workflow": "flow",
    "retrieval": "retrieval",
    "execute_tool": "tool",
}
_SPAN_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "CHAIN": "flow",
    "AGENT": "flow",
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
    "TOOL": "tool",
}
#: Fields of a record, and the attributes that may hold them, the newest name first.
_FIELDS = {
    "session_id": ("gen_ai.conversation.id", "session.id"),
    "user_id": ("user.id", "enduser.id"),
}
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_RESOURCE = {
    "release": ("service.version",),
    "environment": ("deployment.environment.name", "deployment.environment"),
}


def kind_of(attributes: Attributes) -> Kind | None:
    """Say what a span tells of; None when it is none of ours."""
    span_kind = attributes.get("openinference.span.kind")
    if isinstance(span_kind, str):
        return _SPAN_KINDS.get(span_kind.upper())
    operation = attributes.get("gen_ai.operation.name", attributes.get("llm.request.type"))
    if isinstance(operation, str):
        return _OPERATIONS.get(operation.lower())
    # Before there were operations, the conventions knew only calls of models.
    return "model" if "gen_ai.system" in attributes else None


def read(kind: Kind, attributes: Attributes, events: Iterable[Event] = ()) -> dict[str, Any]:
    """
    Read one span as fields of a record; what is missing or redacted is left out.

    A retrieval gives ``query`` and ``contexts``, a tool one of ``tool_calls``, a model or a flow
    ``query``, ``output``, ``session_id``, ``user_id`` and ``metadata`` with the model's name.
    """
    found: dict[str, Any]
    if kind in {"retrieval", "reranking"}:
        found = {"query": _retrieval_query(attributes), "contexts": _documents(attributes)}
    elif kind == "tool":
        found = {"tool_calls": [_tool(attributes)]}
    else:
        asked, said = messages_in_events(events)
        found = {
            "query": last_text([*input_messages(attributes), *asked])
            or question_in(_value(attributes, "input")),
            "output": last_text([*output_messages(attributes), *said], ASSISTANTS)
            or answer_in(_value(attributes, "output")),
            **{field: _first(attributes, names) for field, names in _FIELDS.items()},
        }
        model = _first(attributes, _MODEL)
        found["metadata"] = {"model": model} if model else None
    return {name: value for name, value in found.items() if value}


def read_resource(attributes: Attributes) -> dict[str, str]:
    """Read which release answered, and where."""
    found = {field: _first(attributes, names) for field, names in _RESOURCE.items()}
    return {field: value for field, value in found.items() if value}


def size_of(attributes: Attributes | None) -> int:
    """Count the characters that a span's attributes hold."""
    values = (attributes or {}).values()
    return sum(len(value) for value in values if isinstance(value, str))


def _first(attributes: Attributes, names: Sequence[str]) -> str | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str) and value not in {"", REDACTED}:
            return value
    return None


def _value(attributes: Attributes, side: str) -> Any:
    """Read OpenInference's ``input.value`` or ``output.value``, which may be JSON in a text."""
    text = _first(attributes, (f"{side}.value",))
    if text is None or not text.lstrip().startswith(("{", "[")):
        return text
    return from_json(text)


def _retrieval_query(attributes: Attributes) -> str | None:
    direct = _first(attributes, ("gen_ai.retrieval.query.text", "reranker.query"))
    return direct or question_in(_value(attributes, "input"))


def _documents(attributes: Attributes) -> list[dict[str, Any]]:
    structured = as_list(from_json(attributes.get("gen_ai.retrieval.documents")))
    items = [
        *structured,
        *nested(attributes, "retrieval.documents"),
        *nested(attributes, "reranker.output_documents"),
    ]
    return [document for document in map(_document, items) if document]


def _document(item: object) -> dict[str, Any] | None:
    text = text_of(part_of(item, "content", "text", "page_content"))
    if text is None or text == REDACTED:
        return None
    found = {"text": text, "id": part_of(item, "id"), "score": part_of(item, "score")}
    return {name: value for name, value in found.items() if value is not None}


def _tool(attributes: Attributes) -> dict[str, Any]:
    name = _first(attributes, ("gen_ai.tool.name", "tool.name"))
    arguments = _first(attributes, ("gen_ai.tool.call.arguments", "tool.parameters", "input.value"))
    result = _first(attributes, ("gen_ai.tool.call.result", "output.value"))
    return tool_call(name, arguments, from_json(result))
