"""The sender's half of recording: mask, cut and shape one draft into a stream entry."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from monitor.hook.capture import Draft, Passage
from monitor.hook.options import Mask, Options
from monitor.hook.plain import Plain, Room
from monitor.queue import wire

#: As the models allow.
_LONGEST_NAME = 200
_RANDOM_BYTES = 10
_NAMES = ("trace_id", "session_id", "user_id", "release", "environment")
#: Free structures, which the mask sees as well.
_STRUCTURES = ("tool_calls", "expected", "metadata")
_NO_CONTROLS = dict.fromkeys(range(32), " ")
#: What the limit is spent on, in this order.
_FIELDS = ("output", "query", "contexts", *_STRUCTURES)

Texts = Callable[[str], str]


class MaskFailed(Exception):
    """The mask raised or returned something else than a text; the sample must not leave."""


class Encoded(NamedTuple):
    """A sample ready to send."""

    entry: dict[bytes, bytes]
    chars: int

    @property
    def size_bytes(self) -> int:
        """The size of the entry in Redis, without its frame."""
        return sum(len(value) for value in self.entry.values())


def encode(draft: Draft, options: Options, *, hook_id: str, sample_rate: float) -> Encoded:
    """
    Shape a draft into a stream entry that a worker can always read.

    Raises
    ------
    MaskFailed
        If the mask failed on any of its texts.
    """
    sample_id = wire.sample_id(draft.at_ns // 1_000_000, _randomness())
    room = Room(options.max_text_chars)
    interaction = _interaction(draft, options, room)
    interaction.setdefault("id", sample_id)
    entry = wire.encode(
        {
            "schema_version": wire.SCHEMA_VERSION,
            "sample_id": sample_id,
            "sampled_at": datetime.fromtimestamp(draft.at_ns / 1e9, UTC),
            "sample_rate": sample_rate,
            "hook_id": hook_id,
            "sequence": draft.sequence,
            "truncated": sorted(draft.cut | room.cut),
            "interaction": interaction,
        }
    )
    return Encoded(entry, draft.chars)


def _randomness() -> int:
    return int.from_bytes(os.urandom(_RANDOM_BYTES), "big") >> 6


def _interaction(draft: Draft, options: Options, room: Room) -> dict[str, object]:
    rest = {"release": options.release, "environment": options.environment} | draft.rest
    texts = _masked(draft.mask or options.mask)
    values: dict[str, Plain] = {
        "output": _as_text(draft.output),
        "query": None if draft.query is None else _as_text(draft.query),
        "contexts": [_passage(passage) for passage in draft.contexts],
        **{
            name: shape(rest[name]) for name, shape in _SHAPES.items() if rest.get(name) is not None
        },
    }
    for name in _FIELDS:
        if values.get(name):
            room.field = name
            values[name] = _fitted(values[name], texts, room)
    if "contexts" in room.cut:
        values["contexts"] = [passage for passage in _dicts(values["contexts"]) if passage["text"]]
    interaction: dict[str, object] = {"app": options.app, **values}
    interaction |= {name: _name(rest[name]) for name in _NAMES if rest.get(name) is not None}
    interaction |= _tags(rest.get("tags"))
    interaction |= _identity(rest.get("id"))
    return interaction | _label(rest.get("label"))


def _fitted(value: Plain, texts: Texts | None, room: Room) -> Plain:
    """Mask every text of a value, then keep what there is room for."""
    if isinstance(value, str):
        return room.text(texts(value) if texts else value)
    if isinstance(value, list):
        return [_fitted(item, texts, room) for item in value]
    if isinstance(value, dict):
        return {key: _fitted(item, texts, room) for key, item in value.items()}
    return value


def _masked(mask: Mask | None) -> Texts | None:
    if mask is None:
        return None

    def masked(text: str) -> str:
        try:
            result = mask(text)
        except Exception:  # noqa: BLE001  # its message may quote the text
            raise MaskFailed from None
        if not isinstance(result, str):
            raise MaskFailed
        return str.__str__(result)

    return masked


def _as_text(value: Plain) -> str:
    return value if isinstance(value, str) else wire.as_json(value)


def _passage(passage: str | Passage) -> Plain:
    if isinstance(passage, str):
        return {"text": passage}
    kept = {"text": passage.text, "id": passage.id, "score": passage.score}
    return {key: value for key, value in kept.items() if value is not None}


def _dicts(value: Plain) -> list[dict[str, Plain]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _name(value: Plain) -> str:
    return _as_text(value)[:_LONGEST_NAME]


def _tags(value: Plain) -> dict[str, object]:
    if not isinstance(value, dict):
        return {} if value is None else {"tags": {"value": _as_text(value)}}
    return {"tags": {key: _as_text(item) for key, item in value.items() if item is not None}}


def _identity(value: Plain) -> dict[str, object]:
    name = "" if value is None else _name(value).translate(_NO_CONTROLS)
    return {"id": name} if name else {}


def _label(value: Plain) -> dict[str, object]:
    return {"label": int(value)} if value in (0, 1) and not isinstance(value, str) else {}


def _mapping(value: Plain) -> Plain:
    return value if isinstance(value, dict) else {"value": value}


def _tool_calls(value: Plain) -> Plain:
    return [_tool_call(call) for call in (value if isinstance(value, list) else [value])]


def _tool_call(call: Plain) -> Plain:
    if not isinstance(call, dict):
        return {"name": _as_text(call)}
    function = call.get("function")
    shaped = {**call, **function} if isinstance(function, dict) else dict(call)
    shaped["name"] = _as_text(shaped.get("name") or "<unnamed>")
    duration_ms = shaped.get("duration_ms")
    if not isinstance(duration_ms, (int, float)) or duration_ms < 0:
        shaped.pop("duration_ms", None)
    if shaped.get("error") is not None:
        shaped["error"] = _as_text(shaped["error"])
    return shaped


_SHAPES: dict[str, Callable[[Plain], Plain]] = {
    "tool_calls": _tool_calls,
    "expected": _mapping,
    "metadata": _mapping,
}
