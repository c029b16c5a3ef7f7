"""
Patterns of labels, matched in time that grows with pattern and text: `re` may take 2**n steps.

Anyone who may preview a silence writes patterns, and any app chooses the names they meet. So all
ways through a pattern are followed at once (Thompson 1968), as in Alertmanager's RE2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

_parser: Any = import_module("re._parser")  # the syntax tree of a pattern
_compiler: Any = import_module("re._compiler")
_MOST_GROUPS = 50  # each within the last, they need three frames of the stack apiece

#: Takes a text and places in it, and returns where matches that begin there end.
_Ends = Callable[[str, set[int]], set[int]]


def full_match(pattern: str) -> Callable[[str], bool]:
    """
    Return what decides whether *pattern* matches a whole text.

    Raise `re.error` if it is not a pattern, refers back to a group, or has more than 50.
    """
    if pattern.count("(") > _MOST_GROUPS:
        raise re.error(f"more than {_MOST_GROUPS} groups")
    tree = _parser.parse(pattern, re.DOTALL)
    ends = _sequence(tree, tree.state.flags)
    return lambda text: len(text) in ends(text, {0})


def _sequence(parts: Iterable[Any], flags: int) -> _Ends:
    steps = [_step(kind, about, flags) for kind, about in parts]

    def ends(text: str, at: set[int]) -> set[int]:
        for step in steps:
            at = step(text, at)
        return at

    return ends


def _step(kind: Any, about: Any, flags: int) -> _Ends:
    match str(kind):
        case "BRANCH":
            ways = [_sequence(way, flags) for way in about[1]]
            return lambda text, at: set[int]().union(*(way(text, at) for way in ways))
        case "SUBPATTERN":
            flags = _compiler._combine_flags(flags, *about[1:3])  # noqa: SLF001  # as it does itself
            return _sequence(about[3], flags)
        case "ATOMIC_GROUP":
            return _sequence(about, flags)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _repeat(_sequence(about[2], flags), *about[:2])
        case "ASSERT" | "ASSERT_NOT":
            part, behind = _sequence(about[1], flags), about[0] < 0
            back = about[1].getwidth()[0] if behind else 0

            def holds(text: str, place: int) -> bool:
                found = part(text, {place - back}) if place >= back else set[int]()
                return place in found if behind else bool(found)

            wanted = str(kind) == "ASSERT"
            return lambda text, at: {place for place in at if holds(text, place) is wanted}
        case "GROUPREF" | "GROUPREF_EXISTS":
            raise re.error("references to groups are not supported")
    # One character, or a place between two.
    state = _parser.State()
    state.flags = flags
    one = _compiler.compile(_parser.SubPattern(state, [(kind, about)]), flags)
    return lambda text, at: {found.end() for place in at if (found := one.match(text, place))}


def _repeat(part: _Ends, least: int, most: int) -> _Ends:
    def ends(text: str, at: set[int]) -> set[int]:
        found, times = set[int]() if least else at, 0
        while at and times < most:
            after, times = part(text, at), times + 1
            # From the least number on, or where more rounds change nothing, only new places count.
            if times >= least or after == at:
                after = after - found
                found = found | after
            at = after
        return found

    return ends
