"""Chat messages in span attributes and events: as JSON, as numbered attributes, one an event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.integrations.messages import as_list, from_json

#: What instrumentations write in place of a text that they must not show.
REDACTED = "__REDACTED__"
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

Attributes = Mapping[str, Any]


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
    """List what the model answered; one without a role is the assistant's."""
    found = (
        _as_json(attributes, "gen_ai.output.messages", "assistant")
        or nested(attributes, "llm.output_messages")
        or nested(attributes, "gen_ai.completion")
        or _as_json(attributes, "gen_ai.completion", "assistant")
    )
    return [_with_role(message, "assistant") for message in found]


def messages_in_events(events: Iterable[tuple[str, Attributes]]) -> tuple[list[Any], list[Any]]:
    """List the messages that a span's events hold: what was asked, and what was said."""
    asked: list[Any] = []
    said: list[Any] = []
    for name, attributes in events:
        if name in _ASKED_EVENTS:
            asked.append({"role": _ASKED_EVENTS[name], "content": _content(attributes)})
        elif name == "gen_ai.choice":
            choice = from_json(attributes.get("message"))
            content = choice.get("content") if isinstance(choice, Mapping) else choice
            said.append({"role": "assistant", "content": _shown(content) or _content(attributes)})
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
        _put(tree, key[len(start) :].split("."), attributes[key])
    items = _listed(tree)
    return items if isinstance(items, list) else []


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    if len(path) > _DEEPEST or _shown(value) is None:
        return
    for step in path[:-1]:
        if step not in _HOLDERS:
            below = tree.setdefault(step, {})
            if not isinstance(below, dict):
                return
            tree = below
    tree[path[-1]] = value


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() for key in tree):
        return [_listed(tree[key]) for key in sorted(tree, key=int)]
    return {key: _listed(value) for key, value in tree.items()}


def _as_json(attributes: Attributes, name: str, role: str) -> list[Any]:
    value = _shown(attributes.get(name))
    found = from_json(value)
    if isinstance(found, Mapping):
        found = found.get("messages", [found])
    if isinstance(found, str):
        found = [{"content": found}]
    return [_with_role(message, role) for message in as_list(found)]


def _with_role(message: Any, role: str) -> Any:
    if isinstance(message, str):
        return {"role": role, "content": _shown(message)}
    if not isinstance(message, Mapping):
        return {}
    plain = {key: _shown(value) for key, value in message.items()}
    if "parts" in plain:  # an empty list would hide an answer in ``contents``
        plain["parts"] = [part for part in as_list(plain["parts"]) if not _is_redacted(part)]
    return {"role": role, **plain}


def _content(attributes: Attributes) -> Any:
    return from_json(_shown(attributes.get("content")))


def _shown(value: Any) -> Any:
    return None if value == REDACTED else value


def _is_redacted(part: Any) -> bool:
    return isinstance(part, Mapping) and REDACTED in {part.get("content"), part.get("text")}
