"""Write a passage that is JSON as sentences, so that it can be compared like any text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_json(context: str) -> Any:
    """Read a passage that is a JSON object or list; None when it is not."""
    text = context.strip()
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def flatten(context: str) -> str:
    """Write a passage that is JSON as a line for every object in it; leave others alone."""
    value = read_json(context)
    if value is None:
        return context
    try:
        return "\n".join(_lines(value, ""))
    except RecursionError:
        return context


def spaced_key(key: str) -> str:
    """Take camelCase and snake_case keys apart."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(value: Any, path: str) -> Iterator[str]:
    """Write the plain values of an object beside each other, then what is nested in it."""
    items = value.items() if isinstance(value, dict) else (("", inner) for inner in _list(value))
    nested: list[tuple[str, Any]] = []
    plain: list[str] = []
    for key, inner in items:
        name = spaced_key(str(key))
        if isinstance(inner, dict | list):
            nested.append((f"{path} {name}".strip()[-_LONGEST_PATH:], inner))
        elif isinstance(inner, str) and len(inner) > _LONG_VALUE:
            yield f"{path} {name}: {inner}".strip()
        else:
            plain.append(f"{name}: {_plain(inner)}" if name else _plain(inner))
    if plain:
        yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
    for name, inner in nested:
        yield from _lines(inner, name)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    if value is None:
        return "not known"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
