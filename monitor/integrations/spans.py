"""
Read spans: what the attributes of each tracing convention say, as fields of a record.

Known are OpenTelemetry's GenAI conventions, old and new, OpenInference, and what the SDKs of
Langfuse, MLflow, LangSmith, Traceloop and Vercel's AI SDK write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..hook.capture import ASSISTANTS, DETAILS, METADATA_NAMES
from .messages import (
    ChatReader,
    answer_in,
    as_list,
    cost_of,
    earlier_turns,
    from_json,
    last_text,
    part_of,
    question_in,
    text_of,
    tool_call,
    turns_in,
    unwrapped,
)

#: *flow*: a chain or an agent as a whole; *model*: one call of a model.
Kind = Literal["flow", "model", "retrieval", "reranking", "tool"]
Attributes = Mapping[str, Any]
#: Name and attributes of what happened during a span.
Event = tuple[str, Attributes]

#: What instrumentations write in place of a text that they must not show.
REDACTED = "__REDACTED__"

#: Attributes that say what a span is; the first one with a known word decides.
_KIND_ATTRIBUTES = (
    "openinference.span.kind",
    "langfuse.observation.type",
    "mlflow.spanType",
    "ai.operationId",
    "langsmith.span.kind",  # its retrievers say "embeddings" in the next one
    "gen_ai.operation.name",
    "llm.request.type",
    "traceloop.span.kind",
)
_KINDS: dict[str, Kind | None] = {
    **dict.fromkeys(
        ("llm", "chat_model", "generation", "chat", "text_completion", "completion",
         "generate_content"), "model",
    ),
    **dict.fromkeys(
        (f"ai.{what}.{how}" for what in ("generatetext", "streamtext", "generateobject",
         "streamobject") for how in ("dogenerate", "dostream")), "model",
    ),
    **dict.fromkeys(
        ("chain", "agent", "workflow", "invoke_agent", "invoke_workflow", "ai.generatetext",
         "ai.streamtext", "ai.generateobject", "ai.streamobject"), "flow",
    ),
    **dict.fromkeys(("retriever", "retrieval", "vector_db_retrieve"), "retrieval"),
    **dict.fromkeys(("reranker", "rerank"), "reranking"),
    **dict.fromkeys(("tool", "execute_tool", "ai.toolcall"), "tool"),
    **dict.fromkeys(
        ("embedding", "embeddings", "ai.embed", "ai.embed.doembed", "ai.embedmany",
         "ai.embedmany.doembed", "create_agent", "agent_step", "parser", "prompt",
         "guardrail", "evaluator", "event", "memory"), None,
    ),
}  # fmt: skip
#: A function that was traced without saying what it is: the whole flow if nothing is above it.
_STEPS = frozenset({"span", "task", "unknown", "custom"})
#: Attributes of spans of language models.
_PREFIXES = (
    *("gen_ai.", "llm.", "openinference.", "langfuse.", "mlflow.", "ai.", "traceloop."),
    "langsmith.",
)

#: Fields of a record, and the attributes that may hold them, the first that is there counts.
_FIELDS = {
    "session_id": (
        *("gen_ai.conversation.id", "session.id", "langfuse.session.id", "mlflow.trace.session"),
        *("ai.telemetry.metadata.sessionId", "langsmith.metadata.session_id"),
        *("langsmith.metadata.thread_id", "traceloop.association.properties.session_id"),
    ),
    "user_id": (
        *("user.id", "enduser.id", "langfuse.user.id", "mlflow.trace.user"),
        *("ai.telemetry.metadata.userId", "traceloop.association.properties.user_id"),
    ),
    "release": ("langfuse.release",),
    "environment": ("langfuse.environment",),
}
_MODEL = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    *("langfuse.observation.model.name", "mlflow.llm.model", "ai.response.model", "ai.model.id"),
)
#: Tokens in and out, as numbers, or as JSON with the names that providers use.
_TOKENS = {
    "input_tokens": (
        *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        *("ai.usage.promptTokens", "ai.usage.inputTokens", "llm.usage.prompt_tokens"),
    ),
    "output_tokens": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        *("llm.token_count.completion", "ai.usage.completionTokens", "ai.usage.outputTokens"),
        "llm.usage.completion_tokens",
    ),
}
_USAGE = ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage")
_RESOURCE = {
    "release": ("service.version",),
    "environment": ("deployment.environment.name", "deployment.environment"),
}
#: What went in and came out, as a text or as JSON.
_INPUTS = (
    *("input.value", "langfuse.observation.input", "mlflow.spanInputs", "traceloop.entity.input"),
    *("ai.prompt", "ai.prompt.messages", "gen_ai.prompt", "langfuse.trace.input"),
)
_OUTPUTS = (
    *("output.value", "langfuse.observation.output", "mlflow.spanOutputs"),
    *("traceloop.entity.output", "ai.response.text", "ai.result.text", "gen_ai.completion"),
    "langfuse.trace.output",
)
#: These write a text as JSON as well, in quotation marks.
_ALWAYS_JSON = ("mlflow.", "traceloop.")
_TOOL_NAME = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TOOL_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input"),
    *_INPUTS,
    "tool.parameters",  # mostly their schema
)
_TOOL_RESULT = (
    *("gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output"),
    *_OUTPUTS,
)


class Span(NamedTuple):
    """One span, from whichever side it came; the events are read once at most."""

    trace_id: str  #: 32 hexadecimal digits
    is_root: bool  #: nothing of this process, or of the trace, is above it
    name: str
    attributes: Attributes
    events: Iterable[Event]
    resource: Attributes
    latency_ms: float | None = None
    error: str | None = None  #: what the span's status says went wrong; None if nothing did


def _words(attributes: Attributes) -> list[str]:
    """Return what a span says of its kind, in the conventions that are known."""
    kinds = (attributes.get(name) for name in _KIND_ATTRIBUTES)
    return [value.strip('"').lower() for value in kinds if isinstance(value, str)]


def kind_of(attributes: Attributes, *, is_root: bool = False) -> Kind | None:
    """Return the kind of a span, None where it is not part of an interaction."""
    words = _words(attributes)
    for word in words:
        if word in _KINDS:
            return _KINDS[word]
        if word in _STEPS:
            return "flow" if is_root else None
    # Before there were operations, the conventions knew only calls of models.
    return "model" if "gen_ai.system" in attributes and not words else None


def ignored_because(attributes: Attributes) -> str:
    """
    Return why a span without a kind is left out.

    ``span_unknown_kind``: it names a language model in attributes that are not known here;
    ``span_no_answer``: known work that is not part of an interaction, such as an embedding;
    ``span_other``: nothing of a language model.
    """
    if {*_words(attributes)} & {*_KINDS, *_STEPS}:
        return "span_no_answer"
    is_model = any(name.startswith(_PREFIXES) for name in attributes)
    return "span_unknown_kind" if is_model else "span_other"


def read(
    kind: Kind, attributes: Attributes, events: Iterable[Event] = (), name: str = ""
) -> dict[str, Any]:
    """
    Read one span as fields of a record; what is missing or redacted is left out.

    A retrieval gives ``query`` and ``contexts``, a tool one of ``tool_calls``, a model or a flow
    ``query``, ``output``, ``session_id``, ``user_id``, ``release``, ``environment`` and
    ``metadata`` with the model's name; a flow also the ``contexts`` that it was given, a model
    tokens, and the tools called before. *name* is the span's own, for tools that have no other.
    """
    found: dict[str, Any]
    if kind in {"retrieval", "reranking"}:
        direct = _first(attributes, ("gen_ai.retrieval.query.text", "reranker.query"))
        query = direct or _question(attributes)
        found = {"query": query, "contexts": _documents(attributes)}
    elif kind == "tool":
        result = _first(attributes, _TOOL_RESULT)
        arguments = from_json(_first(attributes, _TOOL_ARGUMENTS))
        if isinstance(arguments, Mapping) and arguments.get("args") == []:  # of a traced function
            arguments = arguments.get("kwargs", arguments)
        shown = unwrapped(from_json(result))
        content = part_of(shown, "content") if isinstance(shown, Mapping) else None
        tool = _first(attributes, _TOOL_NAME) or name
        found = {"tool_calls": [tool_call(tool, arguments, content or shown)]}
    else:
        asked, said = messages_in_events(events)
        asked = [*input_messages(attributes), *asked]
        turns = (turns_in(value) for value in _values(attributes, _INPUTS))
        found = {
            "query": last_text(asked) or _question(attributes),
            "history": earlier_turns(asked) or next(filter(None, turns), None),
            "output": last_text([*output_messages(attributes), *said], ASSISTANTS)
            or next(filter(None, map(answer_in, _values(attributes, _OUTPUTS))), None)
            or _first(attributes, ("ai.response.object",)),
            **{field: _name(attributes, names) for field, names in _FIELDS.items()},
        }
        model = _name(attributes, _MODEL)
        found["metadata"] = {"model": model} if model else {}
        if kind == "flow":
            # Passages given as texts: who calls the flow may have retrieved them.
            given = (
                part_of(value, "context", "contexts") for value in _values(attributes, _INPUTS)
            )
            texts = next(filter(None, map(as_list, given)), ())
            found["contexts"] = [{"text": t} for t in texts if isinstance(t, str) and text_of(t)]
        else:
            usage = next(filter(None, (from_json(attributes.get(name)) for name in _USAGE)), None)
            tokens = {
                field: next((attributes[name] for name in names if name in attributes), None)
                for field, names in _TOKENS.items()
            }
            found["metadata"] |= cost_of({"usage": usage})
            found["metadata"] |= {k: v for k, v in tokens.items() if isinstance(v, int)}
            found["tool_calls"] = ChatReader().calls_before(asked)
    return {field: value for field, value in found.items() if value}


def read_resource(attributes: Attributes) -> dict[str, str]:
    """Read which release answered, and where."""
    found = {field: _first(attributes, names) for field, names in _RESOURCE.items()}
    return {field: value for field, value in found.items() if value}


def error_of(failed: bool, attributes: Attributes, events: Iterable[Event]) -> str | None:
    """Return the type of error of a span that *failed*, ``error`` without one; None of others."""
    if not failed:
        return None
    named = [attributes.get("error.type")]
    named += [said.get("exception.type") for name, said in events if name == "exception"]
    found = next((each for each in named if isinstance(each, str) and each), "error")
    return found.rpartition(".")[2]


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


def _name(attributes: Attributes, names: Sequence[str]) -> str | None:
    """Return the first name; MLflow quotes its."""
    return (_first(attributes, names) or "").strip('"') or None


def _values(attributes: Attributes, names: Sequence[str]) -> Iterator[Any]:
    """Yield what these attributes hold; JSON is read where it is an object, a list, or the rule."""
    for name in names:
        text = _first(attributes, (name,))
        if text is None:
            continue
        is_json = text.lstrip().startswith(("{", "[")) or name.startswith(_ALWAYS_JSON)
        yield from_json(text) if is_json else text


def _question(attributes: Attributes) -> str | None:
    for value in _values(attributes, _INPUTS):
        found = question_in(value) or _argument(value)
        if found:
            return found
    return None


def _argument(called_with: Any) -> str | None:
    """Find the question among the arguments of a traced function."""
    if not isinstance(called_with, Mapping):
        return None
    for name in ("inputs", "kwargs"):
        found = question_in(called_with.get(name)) or _argument(called_with.get(name))
        if found:
            return found
    data = called_with.get("data")  # of Haystack's pipelines: arguments by component
    if isinstance(data, Mapping):
        parts = [part for part in (data, *data.values()) if isinstance(part, Mapping)]
        questions = (read(part) for read in (question_in, _only_text) for part in parts)
        return next(filter(None, questions), None)
    if "args" in called_with:
        return next(filter(None, map(text_of, as_list(called_with["args"]))), None)
    return _only_text(called_with)


def _only_text(arguments: Mapping[str, Any]) -> str | None:
    """Return the only text among arguments; of several, none is known to be the question."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return text_of(texts[0]) if len(texts) == 1 else None


def _documents(attributes: Attributes) -> list[dict[str, Any]]:
    items = [
        *as_list(from_json(attributes.get("gen_ai.retrieval.documents"))),
        *nested(attributes, "retrieval.documents"),
        *nested(attributes, "reranker.output_documents"),
    ]
    if not items:
        for value in _values(attributes, _OUTPUTS):
            held = part_of(value, "documents", "outputs", "output", "contexts", "results")
            items += as_list(value if held is None else held)
    found: list[dict[str, Any]] = []
    for item in items:
        held = part_of(item, "kwargs") or item  # as LangChain writes its objects
        text = text_of(
            held if isinstance(held, str) else part_of(held, "content", "text", "page_content")
        )
        if text is not None and text != REDACTED:
            about = from_json(part_of(held, *METADATA_NAMES))
            details = {
                name: value
                for each in (about, held)
                if isinstance(each, dict)
                for name in DETAILS
                if isinstance(value := each.get(name), (str, int, float)) and value != REDACTED
            }
            fields = {"text": text, "id": part_of(held, "id"), "score": part_of(held, "score")}
            fields |= details
            found.append({name: value for name, value in fields.items() if value is not None})
    return found


# --- messages in attributes and events: as JSON, as numbered attributes, one an event ---

#: Numbered attributes that are read; hostile ones could be nested without end.
_MOST_ATTRIBUTES = 5_000
_DEEPEST = 12
#: OpenInference puts each item of a list into a holder of this name.
_HOLDERS = frozenset({"message", "message_content", "tool_call", "document"})
_ASKED_EVENTS = {
    "gen_ai.user.message": "user",
    "gen_ai.system.message": "system",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def input_messages(attributes: Attributes) -> list[Any]:
    """List what the model was sent; the newest convention that is there counts."""
    return (
        _as_json(attributes, "gen_ai.input.messages", "user")
        or nested(attributes, "llm.input_messages")
        or nested(attributes, "gen_ai.prompt")
        or _as_json(attributes, "gen_ai.prompt", "user")
        or nested(attributes, "llm.prompts")
    )


def output_messages(attributes: Attributes) -> list[Any]:
    """List what the model answered; without a known role it is the assistant's."""
    found = (
        _as_json(attributes, "gen_ai.output.messages", "assistant")
        or nested(attributes, "llm.output_messages")
        or nested(attributes, "gen_ai.completion")
        or _as_json(attributes, "gen_ai.completion", "assistant")
    )
    said = [_with_role(message, "assistant") for message in found]
    return [
        {**each, "role": "assistant"} if each.get("role") == "unknown" else each for each in said
    ]


def messages_in_events(events: Iterable[Event]) -> tuple[list[Any], list[Any]]:
    """List the messages that a span's events hold: what was asked, and what was said."""
    asked: list[Any] = []
    said: list[Any] = []
    for name, attributes in events:
        content = from_json(_shown(attributes.get("content")))
        if name in _ASKED_EVENTS:
            asked.append({"role": _ASKED_EVENTS[name], "content": content})
        elif name == "gen_ai.choice":
            choice = from_json(attributes.get("message"))
            choice = choice.get("content") if isinstance(choice, Mapping) else choice
            said.append({"role": "assistant", "content": _shown(choice) or content})
        elif name.startswith("gen_ai."):
            asked += input_messages(attributes)
            said += output_messages(attributes)
    return asked, said


def nested(attributes: Attributes, prefix: str) -> list[Any]:
    """Put numbered attributes such as ``prefix.0.message.content`` back into a list."""
    start = f"{prefix}."
    tree: dict[str, Any] = {}
    keys = [key for key in attributes if key.startswith(start)]
    for key in keys[:_MOST_ATTRIBUTES]:
        path = key[len(start) :].split(".")
        if len(path) > _DEEPEST or _shown(attributes[key]) is None:
            continue
        branch: Any = tree
        for step in path[:-1]:
            if step not in _HOLDERS and isinstance(branch, dict):
                branch = branch.setdefault(step, {})
        if isinstance(branch, dict):
            branch[path[-1]] = attributes[key]
    items = _listed(tree)
    return items if isinstance(items, list) else []


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() for key in tree):
        return [_listed(tree[key]) for key in sorted(tree, key=int)]
    return {key: _listed(value) for key, value in tree.items()}


def _as_json(attributes: Attributes, name: str, role: str) -> list[Any]:
    found = from_json(_shown(attributes.get(name)))
    if isinstance(found, Mapping):
        found = found.get("messages", [found])
    if isinstance(found, str):
        found = [{"content": found}]
    return [_with_role(message, role) for message in as_list(found)]


def _with_role(message: Any, role: str) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": role, "content": _shown(message)}
    if not isinstance(message, Mapping):
        return {}
    plain = {key: _shown(value) for key, value in message.items()}
    if "parts" in plain:  # an empty list would hide an answer in ``contents``
        plain["parts"] = [
            part
            for part in as_list(plain["parts"])
            if not (
                isinstance(part, Mapping) and REDACTED in {part.get("content"), part.get("text")}
            )
        ]
    return {"role": role, **plain}


def _shown(value: Any) -> Any:
    return None if value == REDACTED else value
