"""The caller's half of recording: copy one interaction, plain and bounded, and nothing more."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple

from monitor.hook.options import Mask

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


# --- plain ---
# Plain, bounded copies of whatever the host hands over; no code of the host runs if avoidable.


DEPTH = 6
BREADTH = 200
VALUES = 1_000
_LONGEST_INT_BITS = 4_096
_SAFE_INT_BITS = 63
#: Types of the standard library whose text form is short and safe.
_STANDARD = frozenset({"datetime", "decimal", "fractions", "pathlib", "uuid"})

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


class SizeLimit:
    """What one sample may still keep: characters, and values inside structures."""

    __slots__ = ("chars", "cut", "field", "values")

    def __init__(self, chars: int) -> None:
        self.chars = chars
        self.values = VALUES
        self.field = ""  #: the field that is being copied
        self.cut: set[str] = set()  #: the fields that did not fit

    def text(self, value: str) -> str:
        """Keep as much of a text as there is room for."""
        room = self.chars
        if len(value) <= room:
            self.chars = room - len(value)
            return value
        self.chars = 0
        self.cut.add(self.field)
        return value[:room]

    def start(self, value: object, base: Any) -> Any:
        """Copy no more of a long text than there is room for, past any method of its own."""
        if base.__len__(value) > self.chars:
            self.cut.add(self.field)
        return base.__getitem__(value, slice(0, self.chars))

    def value(self) -> bool:
        """Take room for one more value."""
        if self.values <= 0:
            self.cut.add(self.field)
            return False
        self.values -= 1
        return True


def plain(value: object, room: SizeLimit, depth: int = DEPTH) -> Plain:
    """
    Copy *value* as JSON could hold it: bounded in depth, breadth, values and characters.

    What JSON does not know becomes a placeholder with its type's name; host
    objects are never shown by ``repr``, walked or iterated.
    """
    kind = type(value)
    if kind is str:
        return room.text(value)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return room.text(room.start(value, str))
    if value is None or kind is bool:
        return value  # type: ignore[return-value]
    if kind is MappingProxyType:
        value, kind = dict(value), dict  # type: ignore[call-overload]
    if issubclass(kind, (list, tuple, set, frozenset, deque)):
        return _array(value, room, depth)  # type: ignore[arg-type]
    if issubclass(kind, dict):
        return _object(value, room, depth)  # type: ignore[arg-type]
    return scalar(value, room)


def scalar(value: object, room: SizeLimit) -> int | float | str:
    """Copy a number, bytes or a date; name the type of anything else."""
    kind = type(value)
    if issubclass(kind, int):
        return _integer(int.__index__(value))  # type: ignore[arg-type]
    if issubclass(kind, float):
        number = float.__add__(value, 0.0)  # type: ignore[operator]
        return number if math.isfinite(number) else float.__repr__(number)
    if issubclass(kind, (bytes, bytearray)):
        raw = room.start(value, bytes if issubclass(kind, bytes) else bytearray)
        return room.text(raw.decode("utf-8", "replace"))
    try:
        return _of_library(value, kind.__module__, room)
    except Exception:  # noqa: BLE001  # a time zone or a metaclass of the host's may raise
        return placeholder(value)


def _of_library(value: Any, module: str, room: SizeLimit) -> int | float | str:
    if module in _STANDARD:
        return room.text(str(value))
    if module == "numpy" and not hasattr(value, "__len__") and hasattr(value, "item"):
        number = value.item()
        if type(number) in {bool, int, float}:
            return scalar(number, room)
    return placeholder(value)


def placeholder(value: object) -> str:
    """Name the type of a value that cannot be recorded."""
    return f"<{type(value).__name__}>"


def _integer(number: int) -> int | str:
    bits = number.bit_length()
    if bits <= _SAFE_INT_BITS:
        return number
    return str(number) if bits <= _LONGEST_INT_BITS else f"<int of {bits} bits>"


def _array(value: Iterable[object], room: SizeLimit, depth: int) -> Plain:
    if depth <= 0:
        room.cut.add(room.field)
        return placeholder(value)
    copied: list[Plain] = []
    for item in members(value, BREADTH + 1):
        if len(copied) >= BREADTH or not room.value():
            room.cut.add(room.field)
            break
        copied.append(plain(item, room, depth - 1))
    return copied


def _object(value: dict[object, object], room: SizeLimit, depth: int) -> Plain:
    if depth <= 0:
        room.cut.add(room.field)
        return placeholder(value)
    copied: dict[str, Plain] = {}
    # One step in C, so that another thread cannot change it meanwhile.
    for key, item in list(itertools.islice(dict.items(value), BREADTH + 1)):
        if len(copied) >= BREADTH or room.chars <= 0 or not room.value():
            room.cut.add(room.field)
            break
        name = _key(key, room)
        copied[name] = plain(item, room, depth - 1)
    return copied


def _key(key: object, room: SizeLimit) -> str:
    if type(key) is str:
        return room.text(key)
    return str(plain(key, room, 0))


def members(value: Iterable[object], most: int) -> list[object]:
    """List what a built-in collection holds first, past any method that a subclass overrides."""
    for base in (list, tuple, set, frozenset, deque):
        if issubclass(type(value), base):
            # One step in C as well; of a list with a million items only the first are copied.
            return list(itertools.islice(base.__iter__(value), most))  # type: ignore[arg-type]
    return []


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
    names_room = SizeLimit(_NAMES_CHARS)
    names = {name: _named(name, given[name], names_room) for name in _NAMES if _has(given, name)}
    room = SizeLimit(limit + MARGIN)
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


def _named(name: str, value: object, room: SizeLimit) -> Plain:
    room.field = name
    return plain(value, room)


def _rest(
    given: Mapping[str, object], room: SizeLimit, unreadable: dict[str, Plain]
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


def _output(value: object, room: SizeLimit) -> Plain:
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


def _query(value: object, room: SizeLimit, unreadable: dict[str, Plain]) -> Plain:
    if value is None:
        return None
    if type(value) is str:
        return room.text(value)
    copied = plain(value, room)
    if copied != placeholder(value):
        return copied
    unreadable["query"] = copied
    return None


def _contexts(
    value: object, room: SizeLimit, unreadable: dict[str, Plain]
) -> tuple[str | Passage, ...]:
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


def _passage(item: object, room: SizeLimit) -> str | Passage | None:
    if is_text(item):
        return str(plain(item, room))
    text = lookup(item, TEXT_NAMES)
    if not is_text(text):
        return None
    return Passage(str(plain(text, room)), _id(item, room), _score(item, room))


def _id(item: object, room: SizeLimit) -> str | None:
    found = lookup(item, ("id",))
    return None if found is None else str(plain(found, room, 0))


def _score(item: object, room: SizeLimit) -> float | None:
    found = plain(lookup(item, ("score",)), room, 0)
    return float(found) if isinstance(found, (int, float)) else None


# --- attributes ---
# Read what an object just has; a property, or any other code of the host's, does not run.


_MISSING = object()
_BASES = type.__dict__["__mro__"].__get__
_MEMBERS = type.__dict__["__dict__"].__get__


class _Pair(NamedTuple):
    first: object


#: What slots and the fields of named tuples are kept behind; in C, and without effect.
_HARMLESS = {MemberDescriptorType, type(_Pair.__dict__["first"])}
#: Libraries whose documents and answers show their text by a property that only reads.
_KNOWN = frozenset({"langchain", "langchain_core", "llama_index"})


def attribute(holder: object, name: str, *, named: bool = False) -> Any:
    """
    Read an attribute of an instance, a slot, a named tuple or a class; None if it has none.

    A property may read a stream to its end, ask a database, or wait. It is called only if the
    user has *named* it, or if its class is of a library that is known for harmless ones.
    """
    kind = type(holder)
    if named:
        return object.__getattribute__(holder, name)
    own, _ = _in_class(kind, "__dict__")
    if type(own) in {GetSetDescriptorType, MemberDescriptorType}:
        values = own.__get__(holder)
        if dict.__contains__(values, name):
            return dict.__getitem__(values, name)
    found, base = _in_class(kind, name)
    how = type(found)
    if how in _HARMLESS or (how is property and _is_known(base)):
        return found.__get__(holder, kind)
    plain = found is not _MISSING and _in_class(how, "__get__")[0] is _MISSING
    return found if plain else None


def _in_class(kind: type, name: str) -> tuple[Any, type]:
    for base in _BASES(kind):
        found = _MEMBERS(base).get(name, _MISSING)
        if found is not _MISSING:
            return found, base
    return _MISSING, kind


def _is_known(kind: type) -> bool:
    module = _MEMBERS(kind).get("__module__")
    return type(module) is str and module.partition(".")[0] in _KNOWN
