"""What the hook can be told, by arguments or environment, read without loading pydantic."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

Mask = Callable[[str], str]
#: A mask, ``"builtin"``, names of built-in masks with commas, or a list of all these and of pairs
#: of a name and a pattern.
MaskSpec = Mask | str | Sequence[str | tuple[str, str] | Mask]

_PREFIX = "GROUNDWATCH_"
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")
_LONGEST_NAME = 200
_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The hook's share of ``monitor.settings.Settings``, with the same names and defaults."""

    app: str = "default"
    sample_rate: float = 0.05
    redis_url: str | None = field(default=None, repr=False)
    release: str | None = None
    environment: str | None = None
    enabled: bool = True
    buffer_samples: int = 2_000
    buffer_chars: int = 16_000_000
    max_text_chars: int = 200_000
    queue_limit: int = 50_000
    queue_limit_megabytes: int = 300
    home: str = "~/.groundwatch"
    mask: Mask | None = None
    capture: str = "full"


class Arguments(TypedDict, total=False):
    """The keyword arguments of ``monitor.init`` and ``Hook``; None means: as the environment."""

    app: str | None
    sample_rate: float | None
    redis_url: str | None
    release: str | None
    environment: str | None
    enabled: bool | None
    buffer_samples: int | None
    buffer_chars: int | None
    max_text_chars: int | None
    queue_limit: int | None
    queue_limit_megabytes: int | None
    home: str | None
    mask: MaskSpec | None
    capture: str | None


def check(arguments: Mapping[str, object]) -> dict[str, object]:
    """
    Return the arguments that were given, checked.

    Raises
    ------
    ValueError
        If one is unknown or wrong; the message names it and says what it should be.
    """
    checked = {}
    for name, value in arguments.items():
        if name not in _CHECKS:
            close = difflib.get_close_matches(name, _CHECKS, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(_CHECKS)}"
            raise ValueError(f"{name}: no such option{hint}")
        if value is not None:
            checked[name] = _checked(name, name, value)
    return checked


def resolve(given: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Options:
    """
    Complete checked arguments with environment variables, then with the defaults.

    Raises
    ------
    ValueError
        If a variable is wrong; the message names it and never shows a Redis address.
    """
    # Not through monitor.settings, which would load pydantic on the caller's thread.
    environ = os.environ if environ is None else environ  # noqa: TID251
    values = dict(given)
    for option in fields(Options):
        variable = _PREFIX + option.name.upper()
        if option.name in values:
            continue
        raw = from_environment(variable, environ)
        if raw:
            parsed = _PARSERS.get(str(option.type), str)
            values[option.name] = _checked(option.name, variable, _parsed(parsed, raw))
    return Options(**values)  # type: ignore[arg-type]  # each value has passed its check


def from_environment(variable: str, environ: Mapping[str, str]) -> str:
    """Read a variable, or the file that the variable of the same name with ``_FILE`` names."""
    raw, path = environ.get(variable, ""), environ.get(f"{variable}_FILE", "")
    if raw or not path:
        return raw
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib is slow to import
            return file.read().strip()
    except OSError as error:
        raise ValueError(f"{variable}_FILE: cannot read {path}: {error.strerror}") from None


def _parsed(parser: Callable[[str], object], raw: str) -> object:
    try:
        return parser(raw)
    except ValueError:
        return raw  # the check says what it should have been


def _boolean(raw: str) -> object:
    word = raw.strip().lower()
    return word in _TRUE if word in _TRUE | _FALSE else raw


def _checked(option: str, shown_as: str, value: object) -> object:
    accepts, should_be = _CHECKS[option]
    if not accepts(value):
        raise ValueError(f"{shown_as}: should be {should_be}")
    made = _MADE.get(option)
    return value if made is None else made(value)


def _is_name(value: object) -> bool:
    """Accept what the models accept as the name of an app."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_NAME
        and all(character >= " " for character in value)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_rate(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= 1
    )


def _is_mask(value: object) -> bool:
    if callable(value):
        return True
    try:
        _mask(value)
    except ValueError:
        return False
    return True


def _mask(value: object) -> Mask:
    if callable(value):
        return value
    # Here because most apps use none, and its patterns take a while to compile.
    from monitor.hook.masks import build  # noqa: PLC0415

    return build(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_A_MASK = (
    "a function of a text, or builtin, or some of key, email, iban, card, ip and phone,"
    " or a list of these and of (name, pattern)"
)
_COUNT = (_is_count, "a whole number above 0")
_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "app": (_is_name, "a name of 1 to 200 characters, none of them a control character"),
    "sample_rate": (_is_rate, "a number from 0 to 1"),
    "redis_url": (
        lambda value: isinstance(value, str) and value.startswith(_SCHEMES),
        "an address that begins with redis://, rediss://, unix:// or redis+sentinel://",
    ),
    "release": (_is_text, "a text"),
    "environment": (_is_text, "a text"),
    "enabled": (lambda value: isinstance(value, bool), "true or false"),
    "buffer_samples": _COUNT,
    "buffer_chars": _COUNT,
    "max_text_chars": _COUNT,
    "queue_limit": _COUNT,
    "queue_limit_megabytes": _COUNT,
    "home": (lambda value: isinstance(value, (str, os.PathLike)), "the path of a folder"),
    "mask": (_is_mask, _A_MASK),
    "capture": (lambda value: value in ("full", "metadata"), "full or metadata"),
}
#: What an argument becomes once it is checked.
_MADE: dict[str, Callable[[Any], object]] = {"home": os.fspath, "mask": _mask}
_PARSERS: dict[str, Callable[[str], object]] = {"float": float, "int": int, "bool": _boolean}
