"""The built-in masks, and how they join with a user's own: what leaves the app has been through."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from monitor.hook.finders import FINDERS, Finder

Mask = Callable[[str], str]
#: A name and a pattern, what is found becoming ``[NAME]``; or a function; or a built-in's name.
Part = str | tuple[str, str | re.Pattern[str]] | Mask

BUILTIN = tuple(FINDERS)
#: A text that still changes after this many rounds is given up: it was made to slip through.
_ROUNDS = 8
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class Unsettled(Exception):
    """Masking did not come to an end; the sample must not leave."""


def build(spec: object) -> Mask:
    """
    Make one mask of what a user gave: a function, ``"builtin"``, names, or a list of parts.

    Raises
    ------
    ValueError
        If a part is none of these, or a pattern cannot be compiled.
    """
    if callable(spec):
        return spec
    if isinstance(spec, str):
        spec = [name.strip() for name in spec.split(",")]
    if not isinstance(spec, (list, tuple)) or not spec:
        raise ValueError
    return _chained([mask for part in _joined(spec) for mask in [_part(part)]])


def _joined(parts: Sequence[object]) -> list[object]:
    """Gather the built-in names into one part, at the place of the first of them."""
    names: set[str] = set()
    joined: list[object] = []
    for part in parts:
        if not isinstance(part, str):
            joined.append(part)
            continue
        if not names:
            joined.append(names)
        names |= set(BUILTIN) if part == "builtin" else {part}
    return joined


def _part(part: object) -> Mask:
    if isinstance(part, set):
        return _builtin(part)
    if callable(part):
        return part
    if isinstance(part, tuple) and len(part) == 2:  # noqa: PLR2004
        return _own(*part)
    raise ValueError


def _builtin(names: set[str]) -> Mask:
    if not names <= set(BUILTIN):
        raise ValueError
    finders = [finder for name, finder in FINDERS.items() if name in names]

    def masked(text: str) -> str:
        for _ in range(_ROUNDS):
            found = _once(text, finders)
            if found == text:
                return found
            text = found
        raise Unsettled

    return masked


def _once(text: str, finders: Sequence[Finder]) -> str:
    for finder in finders:
        text = finder(text)
    return text


def _own(name: object, pattern: object) -> Mask:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError
    try:
        compiled = re.compile(pattern)  # type: ignore[call-overload]  # that is the check
    except (re.error, TypeError):
        raise ValueError from None
    shown = f"[{name.upper()}]"
    return lambda text: str(compiled.sub(lambda _: shown, text))


def _chained(masks: Sequence[Mask]) -> Mask:
    if len(masks) == 1:
        return masks[0]

    def masked(text: str) -> str:
        for mask in masks:
            text = mask(text)
        return text

    return masked
