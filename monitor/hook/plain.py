"""Plain, bounded copies of whatever the host hands over; no code of the host runs if avoidable."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

DEPTH = 6
BREADTH = 200
VALUES = 1_000
_LONGEST_INT_BITS = 4_096
_SAFE_INT_BITS = 63
#: Types of the standard library whose text form is short and safe.
_STANDARD = frozenset({"datetime", "decimal", "fractions", "pathlib", "uuid"})

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


class Room:
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


def plain(value: object, room: Room, depth: int = DEPTH) -> Plain:
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


def scalar(value: object, room: Room) -> int | float | str:
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


def _of_library(value: Any, module: str, room: Room) -> int | float | str:
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


def _array(value: Iterable[object], room: Room, depth: int) -> Plain:
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


def _object(value: dict[object, object], room: Room, depth: int) -> Plain:
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


def _key(key: object, room: Room) -> str:
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
