"""The caller's half of recording: copy one interaction, plain and bounded, and nothing more."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple

from .options import Mask

#: What a sample is found by; kept apart, so that a long text cannot push it out.
_NAMES = ("id", "trace_id", "session_id", "user_id", "release", "environment")
_NAMES_CHARS = 2_000
#: Characters kept beyond the limit until the mask has seen them, so that no secret is cut in half.
MARGIN = 1_000
#: Passages kept of one sample.
PASSAGES = 500
#: The latest turns of a conversation that are kept whole, and the most characters of them.
TURNS, TURNS_CHARS = 20, 20_000
#: Where an answer, a passage or the passages are looked for in what an app returns.
OUTPUT_NAMES = ("output", "answer", "text", "content")
TEXT_NAMES = ("text", "content", "page_content")
CONTEXTS_NAMES = ("contexts", "documents", "passages")
#: What metrics read of a passage beside its text, id and score: its own, or in its metadata.
DETAILS = (
    *("source", "title", "url", "file", "file_name", "filename", "name"),
    *("author", "year", "published"),
)
#: Where libraries keep the metadata of a passage.
METADATA_NAMES = ("metadata", "meta")
#: What is said of a field whose form is not known; it is left out, and counted.
UNREADABLE = {
    "query": "query could not be read: expected text",
    "contexts": 'contexts could not be read: expected text or {"text": ...}',
    "history": 'history could not be read: expected a list of {"role": ..., "content": ...}',
}
#: A longer detail is left out: half a text may end in half a secret.
_DETAIL_CHARS = 500

#: Who may have written a message, as libraries call them.
USERS = frozenset({"user", "human"})
ASSISTANTS = frozenset({"assistant", "ai", "model"})
ROLES = USERS | ASSISTANTS | {"system", "developer", "tool", "function", "placeholder"}

_COLLECTIONS = (list, tuple, set, frozenset, deque)
_TEXTS = (str, bytes, bytearray)
#: Fields with a treatment of their own; every other one is copied as it is.
_OWN = frozenset({"query", "contexts", "output", "history", "mask"})
#: Shared by all samples that are texts and nothing else; nobody changes them.
NO_REST: dict[str, Plain] = {}
NOTHING_CUT: frozenset[str] = frozenset()


# --- plain, bounded copies of whatever the host hands over; its code runs only if unavoidable ---

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
    if issubclass(kind, (list, tuple, set, frozenset, deque, dict)):
        return _collection(value, room, depth)
    return scalar(value, room)


def scalar(value: object, room: SizeLimit) -> int | float | str:
    """Copy a number, bytes or a date; name the type of anything else."""
    kind = type(value)
    if issubclass(kind, int):
        number = int.__index__(value)  # type: ignore[arg-type]
        bits = number.bit_length()
        shown = number if bits <= _SAFE_INT_BITS else f"<int of {bits} bits>"
        return str(number) if _SAFE_INT_BITS < bits <= _LONGEST_INT_BITS else shown
    if issubclass(kind, float):
        real = float.__add__(value, 0.0)  # type: ignore[operator]
        return real if math.isfinite(real) else float.__repr__(real)
    if issubclass(kind, (bytes, bytearray)):
        raw = room.start(value, bytes if issubclass(kind, bytes) else bytearray)
        return room.text(raw.decode("utf-8", "replace"))
    with contextlib.suppress(Exception):  # a time zone or a metaclass of the host's may raise
        if kind.__module__ in _STANDARD:
            return room.text(str(value))
        if kind.__module__ == "numpy" and not hasattr(value, "__len__"):
            item = value.item()  # type: ignore[attr-defined]
            if type(item) in {bool, int, float}:
                return scalar(item, room)
    return placeholder(value)


def placeholder(value: object) -> str:
    """Return the name of the type of a value that cannot be recorded."""
    return f"<{type(value).__name__}>"


def _collection(value: Any, room: SizeLimit, depth: int) -> Plain:
    if depth <= 0:
        room.cut.add(room.field)
        return placeholder(value)
    if not issubclass(type(value), dict):
        items: list[Plain] = []
        for item in members(value, BREADTH + 1):
            if len(items) >= BREADTH or not room.value():
                room.cut.add(room.field)
                break
            items.append(plain(item, room, depth - 1))
        return items
    named: dict[str, Plain] = {}
    # One step in C, so that another thread cannot change it meanwhile.
    for key, item in list(itertools.islice(dict.items(value), BREADTH + 1)):
        if len(named) >= BREADTH or room.chars <= 0 or not room.value():
            room.cut.add(room.field)
            break
        name = room.text(key) if type(key) is str else str(plain(key, room, 0))
        named[name] = plain(item, room, depth - 1)
    return named


def members(value: Iterable[object], most: int, *, latest: bool = False) -> list[object]:
    """List what a built-in collection holds first or last, past any method of a subclass."""
    for base in (list, tuple, set, frozenset, deque):
        if issubclass(type(value), base):
            # One step in C as well; of a list with a million items only the first are copied.
            skipped = max(0, base.__len__(value) - most) if latest else 0  # type: ignore[arg-type]
            return list(itertools.islice(base.__iter__(value), skipped, skipped + most))  # type: ignore[arg-type]
    return []


class Draft(NamedTuple):
    """One sampled interaction as it waits in the app's memory: plain values only."""

    at_ns: int
    sequence: int
    rate: float  #: the probability with which it was chosen
    query: Plain
    contexts: tuple[str | dict[str, Plain], ...]
    output: Plain
    rest: dict[str, Plain]
    mask: Mask | None
    cut: frozenset[str]
    chars: int


def capture(
    given: Mapping[str, object],
    limit: int,
    at_ns: int,
    sequence: int,
    rate: float = 1.0,
    unreadable: dict[str, Plain] | None = None,
) -> Draft | None:
    """
    Copy what was handed over, at most *limit* characters and a margin; None without an output.

    Iterators and generators are never consumed: a placeholder in *unreadable* and in
    ``metadata["unreadable"]`` says that there was one, or something else that cannot be read.
    """
    unreadable = {} if unreadable is None else unreadable
    names, names_room = {}, SizeLimit(_NAMES_CHARS)
    for name in _NAMES:
        if given.get(name) is not None:
            names_room.field = name
            names[name] = plain(given[name], names_room)
    room = SizeLimit(limit + MARGIN)
    output, query, passages = _texts(given, room, unreadable)
    if output is None:
        return None
    rest = _history(given.get("history"), query, room, unreadable)
    for name, value in given.items():
        if value is not None and name not in _OWN and name not in _NAMES:
            room.field = name
            rest[name] = plain(value, room)
    if unreadable:
        metadata = rest.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        rest["metadata"] = {**known, "unreadable": unreadable}
    # Kept even if it is not a function: then the sample is dropped, and never sent unmasked.
    mask: Any = given.get("mask")
    return Draft(
        at_ns, sequence, rate, query, passages, output, names | rest, mask,
        frozenset(room.cut | names_room.cut),
        limit + MARGIN - room.chars + _NAMES_CHARS - names_room.chars,
    )  # fmt: skip


def _texts(
    given: Mapping[str, object], room: SizeLimit, unreadable: dict[str, Plain]
) -> tuple[Plain, Plain, tuple[str | dict[str, Plain], ...]]:
    """Copy answer, question and passages; if they do not fit together, cut the longest first."""
    most = room.chars
    room.field = "output"
    answer = given.get("output")
    if type(answer) is not str:
        found = answer_in(answer)
        answer = answer if found is None else found
    output, size = _whole(answer, room)
    # A placeholder is not an answer: it would be judged as if the app had said it.
    if output is None or (type(answer) is not str and output == placeholder(answer)):
        return None, None, ()
    sizes = [size]
    room.field = "query"
    asked = given.get("query")
    query, size = _whole(asked, room)
    sizes.append(size)
    if query is not None and type(asked) is not str and query == placeholder(asked):
        unreadable["query"], query = query, None
    room.field = "contexts"
    passages = _passages(given.get("contexts"), room, unreadable)
    sizes.append(most - room.chars)
    room.chars = most - sum(sizes)
    if room.chars < 0:
        own = shares(sizes, most)
        output = plain(output, SizeLimit(own[0]))
        query = plain(query, SizeLimit(own[1]))
        passages = _passages(passages, SizeLimit(own[2]), {})
        named = zip(SHARING, sizes, own, strict=True)
        room.cut.update(field for field, size, share in named if share < size)
        room.chars = 0
    return output, query, passages


def _whole(value: object, room: SizeLimit) -> tuple[Plain, int]:
    """Copy a value as if it had *room* to itself; return how many characters it takes as well."""
    if type(value) is str:  # is cut once, when its share is known
        return value, len(value)
    most = room.chars
    copied = plain(value, room)
    size, room.chars = most - room.chars, most
    return copied, size


#: The fields that share the limit; others get what these leave.
SHARING = ("output", "query", "contexts")


def shares(sizes: Sequence[int], most: int) -> list[int]:
    """
    Return how much of *most* each size gets: the longest gives way first.

    Examples
    --------
    >>> shares([208, 1, 20], 100), shares([80, 1, 90], 100)
    ([79, 1, 20], [49, 1, 50])
    """
    found = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for rank, place in enumerate(smallest_first):
        found[place] = min(sizes[place], most // (len(sizes) - rank))
        most -= found[place]
    return found


def _passages(
    value: object, room: SizeLimit, unreadable: dict[str, Plain]
) -> tuple[str | dict[str, Plain], ...]:
    """Copy the passages; one that cannot be read is named in *unreadable*."""
    if value is None:
        return ()
    if issubclass(type(value), _COLLECTIONS):
        items = members(value, PASSAGES + 1)  # type: ignore[arg-type]
    elif is_text(value) or lookup(value, TEXT_NAMES) is not None:
        items = [value]
    else:
        unreadable["contexts"] = placeholder(value)
        return ()
    if len(items) > PASSAGES:
        room.cut.add("contexts")
    passages: list[str | dict[str, Plain]] = []
    for item in items[:PASSAGES]:
        text = item if is_text(item) else lookup(item, TEXT_NAMES)
        if not is_text(text):
            unreadable["contexts"] = placeholder(item)
            continue
        copied = str(plain(text, room))
        if is_text(item):
            passages.append(copied)
            continue
        passage: dict[str, Plain] = {"text": copied}
        found_id, score = lookup(item, ("id",)), plain(lookup(item, ("score",)), room, 0)
        if found_id is not None:
            passage["id"] = str(plain(found_id, room, 0))
        if isinstance(score, (int, float)):
            passage["score"] = float(score)
        passages.append(passage | _details(item, room))
    return tuple(passages)


def _details(item: object, room: SizeLimit) -> dict[str, Plain]:
    """Copy what metrics read of a passage beside its text, each short and whole, or not at all."""
    found: dict[str, Plain] = {}
    own: Any = item
    if not issubclass(type(item), dict):
        described = inspect.getattr_static(item, "__dict__", None)
        # Any other kind may be code of the host's.
        is_plain = type(described) in {GetSetDescriptorType, MemberDescriptorType}
        own = described.__get__(item, type(item)) if is_plain else None
    about = lookup(own, METADATA_NAMES)
    if about is None and own is not item:  # a property, which takes longer to find
        about = lookup(item, METADATA_NAMES)
    holder: Any
    for holder in (own, about):
        if not issubclass(type(holder), dict):
            continue
        with contextlib.suppress(Exception):  # a key of the host's may raise when compared
            for name in DETAILS:
                value = dict.get(holder, name)
                if value is None or name in found:
                    continue
                short = SizeLimit(min(room.chars, _DETAIL_CHARS))
                allowed = short.chars
                copied = short.text(value) if type(value) is str else scalar(value, short)
                if not short.cut and copied != placeholder(value):
                    found[name] = copied
                    room.chars -= allowed - short.chars
    return found


def _history(
    value: object, query: Plain, room: SizeLimit, unreadable: dict[str, Plain]
) -> dict[str, Plain]:
    """Copy the latest turns, each whole: half a text may end in half a secret."""
    if value is None:
        return {}
    room.field = "history"
    if not issubclass(type(value), (list, tuple, deque)):
        unreadable["history"] = placeholder(value)
        return {}
    own = SizeLimit(min(room.chars, TURNS_CHARS))
    turns: list[Plain] = []
    for item in reversed(members(value, BREADTH, latest=True)):  # type: ignore[arg-type]
        role, content = turn_of(item)
        if not content:
            if role is None:
                unreadable["history"] = placeholder(item)
            continue  # a message that only calls a tool
        copied = plain(role, own, 0)
        text = str(plain(content, own))
        # Some hand over the question as the last turn. Masked, it may no longer be the same text.
        if not turns and text == query and str(copied).lower() in USERS:
            continue
        if own.cut or len(turns) == TURNS:
            room.cut.add("history")
            break
        turns.append({"role": copied if isinstance(copied, str) else "user", "content": text})
    room.chars -= min(room.chars, TURNS_CHARS) - own.chars
    return {"history": turns[::-1]} if turns else {}


def turn_of(item: object) -> tuple[object, object]:
    """Return the role and the text of a message in any library's form; None for what it lacks."""
    if issubclass(type(item), (list, tuple)):  # ("human", "How long?"), as LangChain takes it
        role, *said = members(item, 3) or [None]  # type: ignore[arg-type]
        if len(said) == 1 and type(role) is str and role.lower() in ROLES:
            return role, said[0] if is_text(said[0]) else None
    content: Any = item if is_text(item) else lookup(item, (*TEXT_NAMES, "parts"))
    if type(content) is list:  # of parts, as the clients of OpenAI and Gemini send them
        parts = (
            part if type(part) is str else lookup(part, TEXT_NAMES) for part in content[:BREADTH]
        )
        content = "\n".join(part for part in parts if type(part) is str)
    return lookup(item, ("role", "type")), content if is_text(content) else None


def lookup(holder: object, names: tuple[str, ...], *, named: bool = False) -> object:
    """
    Find the first key or attribute of *holder* that is there and not None; never raises.

    Attributes are those it has: no code of the host's runs, unless the user has *named* it.
    """
    is_dict = issubclass(type(holder), dict)
    for name in names:
        with contextlib.suppress(Exception):  # a property of the host's may raise anything
            found: Any = dict.get(holder, name) if is_dict else attribute(holder, name, named=named)  # type: ignore[call-overload]
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
    """Return whether it is a text or bytes; ``isinstance`` would ask the object's ``__class__``."""
    return issubclass(type(value), _TEXTS)


# --- read what an object just has: a property, or any other code of the host's, does not run ---

#: What slots and the fields of named tuples are kept behind; in C, and without effect.
_HARMLESS = {MemberDescriptorType, type(Draft.__dict__["rest"])}
#: Libraries whose documents and answers show their text by a property that only reads.
_KNOWN = frozenset({"langchain", "langchain_core", "llama_index"})


def attribute(holder: object, name: str, *, named: bool = False) -> Any:
    """
    Read an attribute of an instance, a slot, a named tuple or a class; None if it has none.

    A property may read a stream to its end, ask a database, or wait. It is called only if the
    user has *named* it, or if its class is of a library that is known for harmless ones.
    """
    if named:
        return object.__getattribute__(holder, name)
    found = inspect.getattr_static(holder, name, None)
    how = type(found)
    if how is property:
        bases = (vars(base) for base in type(holder).__mro__)
        module = next((own.get("__module__") for own in bases if name in own), None)
        is_known = type(module) is str and module.partition(".")[0] in _KNOWN
        return found.__get__(holder, type(holder)) if is_known else None
    if how in _HARMLESS:
        return found.__get__(holder, type(holder))
    return None if any("__get__" in vars(base) for base in how.__mro__) else found
