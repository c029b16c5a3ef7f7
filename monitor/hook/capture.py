"""The caller's half of recording: copy one interaction, plain and bounded, and nothing more."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from monitor.hook.attributes import attribute
from monitor.hook.options import Mask
from monitor.hook.plain import Plain, Room, members, placeholder, plain

#: What a sample is found by; kept apart, so that a long text cannot push it out.
_NAMES = ("id", "trace_id", "session_id", "user_id", "release", "environment")
_NAMES_CHARS = 2_000
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
#: Shared by all samples that are texts and nothing else; nobody changes them.
NO_REST: dict[str, Plain] = {}
NOTHING_CUT: frozenset[str] = frozenset()


class Passage(NamedTuple):
    """One retrieved passage, copied."""

    text: str
    id: str | None = None
    score: float | None = None


class Draft(NamedTuple):
    """One sampled interaction as it waits in the app's memory: plain values only."""

    at_ns: int
    sequence: int
    rate: float  #: the probability with which it was chosen
    query: Plain
    contexts: tuple[str | Passage, ...]
    output: Plain
    rest: dict[str, Plain]
    mask: Mask | None
    cut: frozenset[str]
    chars: int

    @property
    def texts_only(self) -> bool:
        """Say whether it is texts that fit, and nothing else."""
        return self.rest is NO_REST


def capture(
    given: Mapping[str, object], limit: int, at_ns: int, sequence: int, rate: float = 1.0
) -> Draft | None:
    """
    Copy what was handed over, at most *limit* characters and a margin; None without an output.

    Iterators and generators are never consumed: a placeholder in
    ``metadata["unreadable"]`` says that there was one.
    """
    query, contexts, output = given.get("query"), given.get("contexts"), given.get("output")
    names_room = Room(_NAMES_CHARS)
    names = {name: _named(name, given[name], names_room) for name in _NAMES if _has(given, name)}
    room = Room(limit + MARGIN)
    room.field = "output"
    output = _output(output, room)
    if output is None:
        return None
    unreadable: dict[str, Plain] = {}
    room.field = "query"
    query = _query(query, room, unreadable)
    room.field = "contexts"
    passages = _contexts(contexts, room, unreadable)
    rest = names | _rest(given, room, unreadable)
    # Kept even if it is no function: then the sample is dropped, and never sent unmasked.
    mask: Any = given.get("mask")
    return Draft(
        at_ns, sequence, rate, query, passages, output, rest, mask,
        frozenset(room.cut | names_room.cut),
        limit + MARGIN - room.chars + _NAMES_CHARS - names_room.chars,
    )  # fmt: skip


def _has(given: Mapping[str, object], name: str) -> bool:
    return given.get(name) is not None


def _named(name: str, value: object, room: Room) -> Plain:
    room.field = name
    return plain(value, room)


def _rest(
    given: Mapping[str, object], room: Room, unreadable: dict[str, Plain]
) -> dict[str, Plain]:
    rest: dict[str, Plain] = {}
    for name, value in given.items():
        if value is not None and name not in _OWN and name not in _NAMES:
            room.field = name
            rest[name] = plain(value, room)
    if unreadable:
        metadata = rest.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        rest["metadata"] = {**known, "unreadable": unreadable}
    return rest


def lookup(holder: object, names: tuple[str, ...], *, named: bool = False) -> object:
    """
    Find the first key or attribute of *holder* that is there and not None; never raises.

    Attributes are those it has: no code of the host's runs, unless the user has *named* it.
    """
    is_dict = issubclass(type(holder), dict)
    for name in names:
        try:
            found: Any = (
                dict.get(holder, name)  # type: ignore[call-overload]  # as the line above says
                if is_dict
                else attribute(holder, name, named=named)
            )
        except Exception:  # noqa: BLE001, S112  # a property of the host's may raise anything
            continue
        if found is not None and not callable(found):
            return found
    return None


def answer_in(result: object) -> object:
    """Find the answer in what a function returned: the text itself, or a key or attribute."""
    if is_text(result):
        return result
    found = lookup(result, OUTPUT_NAMES)
    return found if is_text(found) else None


def is_text(value: object) -> bool:
    """Say whether it is a text or bytes; ``isinstance`` would ask the object's ``__class__``."""
    return issubclass(type(value), _TEXTS)


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
    if issubclass(type(value), _COLLECTIONS):
        return members(value, PASSAGES + 1)  # type: ignore[arg-type]
    single = is_text(value) or lookup(value, TEXT_NAMES) is not None
    return [value] if single else None


def _passage(item: object, room: Room) -> str | Passage | None:
    if is_text(item):
        return str(plain(item, room))
    text = lookup(item, TEXT_NAMES)
    if not is_text(text):
        return None
    return Passage(str(plain(text, room)), _id(item, room), _score(item, room))


def _id(item: object, room: Room) -> str | None:
    found = lookup(item, ("id",))
    return None if found is None else str(plain(found, room, 0))


def _score(item: object, room: Room) -> float | None:
    found = plain(lookup(item, ("score",)), room, 0)
    return float(found) if isinstance(found, (int, float)) else None
