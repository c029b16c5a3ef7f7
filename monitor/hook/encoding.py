"""The sender's half of recording: mask, cut and shape one draft into a stream entry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from ..queue import wire
from .capture import MARGIN, NO_REST, SHARING, Draft, Plain, SizeLimit, shares
from .options import Mask, Options
from .recorder import FeedbackDraft

#: Names that an app makes up, and names that may tell who somebody is.
_NAMES, _PERSONAL = ("trace_id", "release", "environment"), ("session_id", "user_id")
#: What the limit is spent on, and how many levels below have keys of ours: the first three share
#: it, as in `capture`, and the others get in this order what these leave.
_FIELDS = {
    "output": 0, "query": 0, "contexts": 2, "history": 2, "tool_calls": 2, "expected": 0,
    "metadata": 0,
}  # fmt: skip
#: Half a secret at the place of a cut is no longer recognised; nothing this close to it leaves.
_BORDER = 100
#: Numbers from here on may be a card's or a phone's.
_LONG_NUMBER = 10_000_000
#: As the models allow.
_LONGEST_NAME = 200
_NO_CONTROLS = dict.fromkeys(range(32), " ")

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
        return sum(map(len, self.entry.values()))


def encode(
    draft: Draft, options: Options, *, hook_id: str, sample_rate: float, randomness: int
) -> Encoded:
    """
    Shape a draft into a stream entry that a worker can always read.

    *randomness* is 74 random bits, for an id that nobody else makes. In the id 12 of them give way
    to the sequence: what one process samples within a millisecond keeps its order (RFC 9562, 6.2).

    Raises
    ------
    MaskFailed
        If the mask failed on any of its texts.
    """
    ordered = (draft.sequence & 0xFFF) << 62 | randomness & (1 << 62) - 1
    sample_id = wire.sample_id(draft.at_ns // 1_000_000, ordered)
    interaction: dict[str, object]
    if (
        draft.rest is NO_REST  # texts that fit, and nothing else
        and draft.chars <= options.max_text_chars
        and options.capture == "full"
        and options.mask is None
        and options.release is options.environment is None
    ):
        # Nothing to do but to write the texts down: as `_interaction`, at a fifth of the price.
        interaction = {
            "app": options.app, "output": draft.output, "query": draft.query,
            "contexts": [{"text": text} for text in draft.contexts],
        }  # fmt: skip
        cut = draft.cut
    else:
        interaction, cut_here = _interaction(draft, options)
        cut = draft.cut | cut_here
    interaction.setdefault("id", sample_id)
    entry = wire.encode(
        {
            "schema_version": wire.SCHEMA_VERSION,
            "sample_id": sample_id,
            "sampled_at": datetime.fromtimestamp(draft.at_ns / 1e9, UTC),
            "sample_rate": sample_rate,
            "hook_id": hook_id,
            "sequence": draft.sequence,
            "truncated": sorted(cut),
            "interaction": interaction,
        }
    )
    return Encoded(entry, draft.chars)


def encode_feedback(draft: FeedbackDraft, options: Options, randomness: int) -> dict[bytes, bytes]:
    """
    Shape what a user said into a stream entry; the comment is masked, as all texts are.

    Raises
    ------
    MaskFailed
        If the mask failed on the comment.
    """
    texts = _masked(options.mask)
    comment = texts(draft.comment) if texts and draft.comment else draft.comment
    body = {
        "feedback_id": wire.sample_id(draft.at_ns // 1_000_000, randomness),
        "app": options.app,
        "trace_id": draft.trace_id,
        "good": draft.good,
        "comment": "" if options.capture == "metadata" else comment,
        "given_at": datetime.fromtimestamp(draft.at_ns / 1e9, UTC),
    }
    return wire.encode_feedback(body)


def _interaction(draft: Draft, options: Options) -> tuple[dict[str, object], frozenset[str]]:
    """Make the interaction; say which of its fields were cut here."""
    texts = _masked(draft.mask or options.mask)
    rest = draft.rest
    if options.release is not None or options.environment is not None:
        rest = {"release": options.release, "environment": options.environment} | rest
    room = SizeLimit(options.max_text_chars)
    interaction: dict[str, object] = {"app": options.app}
    if options.capture == "metadata":  # how much there was, and no text
        calls = draft.rest.get("tool_calls")
        contexts = [item if isinstance(item, str) else item["text"] for item in draft.contexts]
        counted = {
            "output_chars": len(as_text(draft.output)),
            "query_chars": None if draft.query is None else len(as_text(draft.query)),
            "contexts_chars": [len(as_text(text)) for text in contexts],
            "history": len(turns) if isinstance(turns := draft.rest.get("history"), list) else 0,
            "tool_calls": len(calls) if isinstance(calls, list) else int(calls is not None),
        }
        interaction |= {"output": "", "metadata": {**wire.TEXTS_STAYED, **counted}}
    else:
        values: dict[str, Plain] = {
            "output": as_text(draft.output),
            "query": None if draft.query is None else as_text(draft.query),
            "contexts": [
                {"text": item} if isinstance(item, str) else item for item in draft.contexts
            ],
        }
        for field in ("history", "tool_calls", "expected", "metadata"):
            value = rest.get(field)
            if field == "tool_calls" and value is not None:
                values[field] = tool_calls(value)
            elif value is not None:
                is_shaped = field == "history" or isinstance(value, dict)
                values[field] = value if is_shaped else {"value": value}
        if texts is not None or draft.chars > room.chars:
            _mask_and_cut(values, draft, texts, room)
        interaction |= values
    return interaction | _attributes(rest, texts), frozenset(room.cut)


def _mask_and_cut(
    values: dict[str, Plain], draft: Draft, texts: Texts | None, room: SizeLimit
) -> None:
    """Mask every text, then keep what there is room for."""
    ran_out = draft.chars >= room.chars + MARGIN
    for field, levels in _FIELDS.items():
        if texts is not None and values.get(field):
            values[field] = _hidden(values[field], texts, levels)
            # Of a conversation only whole turns were copied.
            if ran_out and field in draft.cut and field != "history":
                values[field], _ = _without_border(values[field])
    left = room.chars
    own = shares([_size(values[field]) for field in SHARING], left)
    for field, share in zip(SHARING, own, strict=True):
        room.field, room.chars = field, share
        values[field] = _fitted(values[field], room)
        left -= share
    room.chars = left
    for field in _FIELDS:
        if field in SHARING or not values.get(field):
            continue
        room.field, value = field, values[field]
        latest_first = field == "history" and isinstance(value, list)
        fitted = _fitted(value[::-1] if latest_first else value, room)  # type: ignore[index]
        values[field] = fitted[::-1] if latest_first else fitted  # type: ignore[index]
    for field, text in (("contexts", "text"), ("history", "content")):
        items = values.get(field)
        if field in room.cut and isinstance(items, list):
            values[field] = [each for each in items if isinstance(each, dict) and each[text]]


def _attributes(rest: Mapping[str, Plain], texts: Texts | None) -> dict[str, object]:
    """Shape what is not text: names, tags and label."""
    if not rest:
        return {}
    found: dict[str, object] = {}
    for field in (*_NAMES, *_PERSONAL):
        value = rest.get(field)
        if value is not None:
            text = as_text(value)
            found[field] = (texts(text) if texts and field in _PERSONAL else text)[:_LONGEST_NAME]
    given = rest.get("tags")
    if given is not None:
        pairs = given if isinstance(given, dict) else {"value": given}
        kept = {key: as_text(item) for key, item in pairs.items() if item is not None}
        found["tags"] = {key: texts(item) if texts else item for key, item in kept.items()}
    own_id = rest.get("id")
    if own_id is not None and (shown := as_text(own_id)[:_LONGEST_NAME]):
        found["id"] = shown.translate(_NO_CONTROLS)
    label = rest.get("label")
    if label in (0, 1) and not isinstance(label, str):
        found["label"] = int(label)
    return found


def _hidden(value: Plain, texts: Texts, levels: int) -> Plain:
    """Mask every text of a value, and every key that is not ours."""
    if isinstance(value, str):
        return texts(value)
    if isinstance(value, list):
        return [_hidden(item, texts, levels - 1) for item in value]
    if isinstance(value, dict):
        return {
            key if levels > 0 else texts(key): _hidden(item, texts, levels - 1)
            for key, item in value.items()
        }
    if type(value) in {int, float} and abs(value) >= _LONG_NUMBER:  # type: ignore[arg-type]
        shown = str(value)
        hidden = texts(shown)
        return value if hidden == shown else hidden
    return value


def _without_border(value: Plain) -> tuple[Plain, bool]:
    """Take the end off the last text of a value; say whether there was one."""
    if isinstance(value, str):
        return value[:-_BORDER], bool(value)
    if not isinstance(value, (list, dict)):
        return value, False
    keys: list[int | str] = [*value] if isinstance(value, dict) else [*range(len(value))]
    for key in reversed(keys):
        value[key], found = _without_border(value[key])  # type: ignore[index]
        if found:
            return value, True
    return value, False


def _fitted(value: Plain, room: SizeLimit) -> Plain:
    """Keep what there is room for."""
    if isinstance(value, str):
        return room.text(value)
    if isinstance(value, list):
        return [_fitted(item, room) for item in value]
    if isinstance(value, dict):
        return {key: _fitted(item, room) for key, item in value.items()}
    return value


def _size(value: Plain) -> int:
    """Return how many characters `_fitted` spends on all of a value."""
    whole = SizeLimit(sys.maxsize)
    _fitted(value, whole)
    return sys.maxsize - whole.chars


def _masked(mask: Mask | None) -> Texts | None:
    if mask is None:
        return None

    def masked(text: str) -> str:
        try:
            result = mask(text)
        except BaseException:  # noqa: BLE001  # a panic of Rust code is one; it may quote the text
            raise MaskFailed from None
        if not isinstance(result, str):
            raise MaskFailed
        return str.__str__(result)

    return masked


# --- the forms that the models know: passages, tool calls, tags and names, from plain values ---


def as_text(value: Plain) -> str:
    """Return a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else wire.as_json(value)


def tool_calls(value: Plain) -> Plain:
    """Shape tool calls, also those in the form of OpenAI."""
    shaped: list[Plain] = []
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict):
            shaped.append({"name": as_text(call)})
            continue
        function = call.get("function")
        one = {**call, **function} if isinstance(function, dict) else dict(call)
        one["name"] = as_text(one.get("name") or "<unnamed>")
        duration_ms = one.get("duration_ms")
        if not isinstance(duration_ms, (int, float)) or duration_ms < 0:
            one.pop("duration_ms", None)
        if one.get("error") is not None:
            one["error"] = as_text(one["error"])
        shaped.append(one)
    return shaped
