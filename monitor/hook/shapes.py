"""The forms that the models know: passages, tool calls, tags and names, from plain values."""

from __future__ import annotations

from collections.abc import Callable

from monitor.hook.capture import Passage
from monitor.hook.plain import Plain
from monitor.queue import wire

#: As the models allow.
LONGEST_NAME = 200
_NO_CONTROLS = dict.fromkeys(range(32), " ")

Texts = Callable[[str], str]


def as_text(value: Plain) -> str:
    """Give a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else wire.as_json(value)


def passage(value: str | Passage) -> Plain:
    """Shape one passage."""
    if isinstance(value, str):
        return {"text": value}
    kept = {"text": value.text, "id": value.id, "score": value.score}
    return {key: item for key, item in kept.items() if item is not None}


def mapping(value: Plain) -> Plain:
    """Shape what should be a mapping."""
    return value if isinstance(value, dict) else {"value": value}


def tool_calls(value: Plain) -> Plain:
    """Shape tool calls, also those in the form of OpenAI."""
    return [_tool_call(call) for call in (value if isinstance(value, list) else [value])]


def tags(value: Plain, texts: Texts | None) -> dict[str, object]:
    """Shape tags, whose values are texts that *texts* has seen."""
    if value is None:
        return {}
    pairs = value if isinstance(value, dict) else {"value": value}
    kept = {key: as_text(item) for key, item in pairs.items() if item is not None}
    return {"tags": {key: texts(item) if texts else item for key, item in kept.items()}}


def name(value: Plain) -> str:
    """Shape a short text."""
    return as_text(value)[:LONGEST_NAME]


def identity(value: Plain) -> dict[str, object]:
    """Shape the record's own id, where there is one."""
    shown = "" if value is None else name(value).translate(_NO_CONTROLS)
    return {"id": shown} if shown else {}


def label(value: Plain) -> dict[str, object]:
    """Shape a person's verdict, where there is one."""
    return {"label": int(value)} if value in (0, 1) and not isinstance(value, str) else {}


def _tool_call(call: Plain) -> Plain:
    if not isinstance(call, dict):
        return {"name": as_text(call)}
    function = call.get("function")
    shaped = {**call, **function} if isinstance(function, dict) else dict(call)
    shaped["name"] = as_text(shaped.get("name") or "<unnamed>")
    duration_ms = shaped.get("duration_ms")
    if not isinstance(duration_ms, (int, float)) or duration_ms < 0:
        shaped.pop("duration_ms", None)
    if shaped.get("error") is not None:
        shaped["error"] = as_text(shaped["error"])
    return shaped


#: The free structures and their shapes.
STRUCTURES: dict[str, Callable[[Plain], Plain]] = {
    "tool_calls": tool_calls,
    "expected": mapping,
    "metadata": mapping,
}
