"""The caller's half of recording: copy one interaction, plain and bounded, and nothing more."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from monitor.hook.options import Mask
from monitor.hook.plain import Plain, Room, members, placeholder, plain

#: Characters kept beyond the limit until the mask has seen them, so that no secret is cut in half.
MARGIN = 1_000
#: Passages kept of one sample.
PASSAGES = 500
#: Where an answer, a passage or the passages are looked for in what an app returns.
OUTPUT_NAMES = ("output", "answer", "text", "content")
TEXT_NAMES = ("text", "content", "page_content")
CONTEXTS_NAMES = ("contexts", "documents", "passages")

_COLLECTIONS = (list, tuple, set, frozenset, deque)
_TEXTS = (str, bytes, bytearray)
#: Fields with a treatment of their own; every other one is copied as it is.
_OWN = frozenset({"query", "contexts", "output", "mask"})


class Passage(NamedTuple):
    """One retrieved passage, copied."""

    text: str
    id: str | None = None
    score: float | None = None


class Draft(NamedTuple):
    """One sampled interaction as it waits in the app's memory: plain values only."""

    at_ns: int
    sequence: int
    query: Plain
    contexts: tuple[str | Passage, ...]
    output: Plain
    rest: dict[str, Plain]
    mask: Mask | None
    cut: frozenset[str]
    chars: int


def capture(given: Mapping[str, object], limit: int, at_ns: int, sequence: int) -> Draft | None:
    """
    Copy what was handed over, at most *limit* characters and a margin; None without an output.

    Iterators and generators are never consumed: a placeholder in
    ``metadata["unreadable"]`` says that there was one.
    """
    room = Room(limit + MARGIN)
    room.field = "output"
    output = _output(given.get("output"), room)
    if output is None:
        return None
    unreadable: dict[str, Plain] = {}
    room.field = "query"
    query = _query(given.get("query"), room, unreadable)
    room.field = "contexts"
    contexts = _contexts(given.get("contexts"), room, unreadable)
    rest: dict[str, Plain] = {}
    for name, value in given.items():
        if value is not None and name not in _OWN:
            room.field = name
            rest[name] = plain(value, room)
    if unreadable:
        metadata = rest.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        rest["metadata"] = {**known, "unreadable": unreadable}
    mask = given.get("mask")
    return Draft(
        at_ns, sequence, query, contexts, output, rest,
        mask if callable(mask) else None, frozenset(room.cut), limit + MARGIN - room.chars,
    )  # fmt: skip


def lookup(holder: object, names: tuple[str, ...]) -> object:
    """Find the first key or attribute of *holder* that is there and not None; never raises."""
    for name in names:
        try:
            found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        except Exception:  # noqa: BLE001, S112  # a property of the host's may raise anything
            continue
        if found is not None and not callable(found):
            return found
    return None


def answer_in(result: object) -> object:
    """Find the answer in what a function returned: the text itself, or a key or attribute."""
    if isinstance(result, _TEXTS):
        return result
    found = lookup(result, OUTPUT_NAMES)
    return found if isinstance(found, _TEXTS) else None


def _output(value: object, room: Room) -> Plain:
    if type(value) is str:
        return room.text(value)
    if value is None:
        return None
    found = answer_in(value)
    if found is not None:
        return plain(found, room)
    copied = plain(value, room)
    # A placeholder is no answer: it would be judged as if the app had said it.
    return None if copied == placeholder(value) else copied


def _query(value: object, room: Room, unreadable: dict[str, Plain]) -> Plain:
    if value is None:
        return None
    if type(value) is str:
        return room.text(value)
    copied = plain(value, room)
    if copied != placeholder(value):
        return copied
    unreadable["query"] = copied
    return None


def _contexts(value: object, room: Room, unreadable: dict[str, Plain]) -> tuple[str | Passage, ...]:
    if value is None:
        return ()
    usual = _texts(tuple(value), room) if type(value) is list else None
    if usual is not None:
        return usual
    items = _items(value)
    if items is None:
        unreadable["contexts"] = placeholder(value)
        return ()
    if len(items) > PASSAGES:
        room.cut.add("contexts")
    passages: list[str | Passage] = []
    for item in items[:PASSAGES]:
        passage = _passage(item, room)
        if passage is None:
            unreadable["contexts"] = placeholder(item)
        else:
            passages.append(passage)
    return tuple(passages)


def _items(value: object) -> list[object] | None:
    if isinstance(value, _COLLECTIONS):
        return members(value)
    single = isinstance(value, _TEXTS) or lookup(value, TEXT_NAMES) is not None
    return [value] if single else None


def _texts(value: tuple[object, ...], room: Room) -> tuple[str, ...] | None:
    """Take the usual case, texts that fit, at a third of the price; None for any other."""
    chars = 0
    for text in value:
        if type(text) is not str:
            return None
        chars += len(text)
    if chars > room.chars or len(value) > PASSAGES:
        return None
    room.chars -= chars
    return value  # type: ignore[return-value]  # each one was looked at


def _passage(item: object, room: Room) -> str | Passage | None:
    if isinstance(item, _TEXTS):
        return str(plain(item, room))
    text = lookup(item, TEXT_NAMES)
    if not isinstance(text, _TEXTS):
        return None
    return Passage(str(plain(text, room)), _id(item, room), _score(item, room))


def _id(item: object, room: Room) -> str | None:
    found = lookup(item, ("id",))
    return None if found is None else str(plain(found, room, 0))


def _score(item: object, room: Room) -> float | None:
    found = plain(lookup(item, ("score",)), room, 0)
    return float(found) if isinstance(found, (int, float)) else None
