"""
The hook's options, from arguments, variables and file; read without loading pydantic.

`Sampling` are those that give some interactions another rate than the hook's own.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

Mask = Callable[[str], str]
#: A mask, ``"builtin"``, names of built-in masks with commas, or a list of all these and of pairs
#: of a name and a pattern.
MaskSpec = Mask | str | Sequence[str | tuple[str, str] | Mask]

#: Decides by the fields of an interaction, as they were handed over.
Predicate = Callable[[Mapping[str, Any]], object]

_PREFIX = "GROUNDWATCH_"
_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")
_LONGEST_NAME = 200
_BOOLEANS: dict[str, object] = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """
    Another rate for the interactions that fit everything the rule names.

    Raises
    ------
    ValueError
        If a part is wrong; the message names it.
    """

    sample_rate: float
    app: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    user_id: str | None = None

    def __post_init__(self) -> None:
        if not is_rate(self.sample_rate):
            raise ValueError("sample_rate: should be a number from 0 to 1")
        for name, value in (("app", self.app), ("user_id", self.user_id)):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name}: should be a text")
        tags: object = self.tags
        if not isinstance(tags, Mapping) or not all(
            isinstance(part, str) for pair in tags.items() for part in pair
        ):
            raise ValueError("tags: should map texts to texts")

    def fits(self, given: Mapping[str, object]) -> bool:
        """Return whether an interaction has the user and all the tags; the app is the hook's."""
        if self.user_id is not None and _text(given.get("user_id")) != self.user_id:
            return False
        tags = given.get("tags")
        if not self.tags:
            return True
        if type(tags) is MappingProxyType:
            tags = dict(tags)
        return isinstance(tags, dict) and all(
            _text(dict.get(tags, name)) == value for name, value in self.tags.items()
        )


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which interactions get another rate than the hook's own."""

    rules: tuple[Rule, ...] = ()
    always: Predicate | None = None
    never: Predicate | None = None
    min_rate: float = 0.0
    max_rate: float = 1.0

    @property
    def plain(self) -> bool:
        """Whether all interactions have the hook's own rate."""
        return not self.rules and self.always is None and self.never is None

    def ceiling(self, rate: float) -> float:
        """Return the highest probability of any interaction where *rate* is the hook's own."""
        if self.always is not None:
            return 1.0
        return max((rate, *(rule.sample_rate for rule in self.rules)))

    def rate_of(
        self, given: Mapping[str, object], rate: float, failed: Callable[[], object]
    ) -> float:
        """Return one interaction's probability; call *failed* for each predicate that raises."""
        given = MappingProxyType(given)  # predicates must not change it
        if self.never is not None and _opinion(self.never, given, failed):
            return 0.0
        if self.always is not None and _opinion(self.always, given, failed):
            return 1.0
        for rule in self.rules:
            if _opinion(rule.fits, given, failed):
                return rule.sample_rate
        return rate

    def within(self, rate: float) -> float:
        """Return a rate cut to the limits."""
        return min(max(rate, self.min_rate), self.max_rate)


def _opinion(
    predicate: Predicate, given: Mapping[str, object], failed: Callable[[], object]
) -> bool:
    try:
        return bool(predicate(given))
    except Exception:  # noqa: BLE001  # the host's function may raise anything
        failed()
        return False


def _text(value: object) -> str | None:
    """Return a tag or user as it will stand on the record; None for what is not text or number."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, str):
        return str.__str__(value)
    return int.__repr__(value) if kind is int else None


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
    sampling: Sampling = field(default_factory=Sampling)


class HookArguments(TypedDict, total=False):
    """Keyword arguments of ``groundwatch.init`` and ``Hook``; None means: as the environment."""

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
    rules: Iterable[Rule | Mapping[str, Any]] | None
    always: Predicate | None
    never: Predicate | None
    min_rate: float | None
    max_rate: float | None


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
        if name not in _SPECS:
            import difflib  # noqa: PLC0415  # most apps make no such mistake

            close = difflib.get_close_matches(name, _SPECS, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(_SPECS)}"
            raise ValueError(f"{name}: no such option{hint}")
        if value is not None:
            checked[name] = _checked(name, name, value)
    return checked


def resolve(given: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Options:
    """
    Complete checked arguments with environment variables, ``groundwatch.toml`` and the defaults.

    The file is found as by ``monitor.settings``. Rules of other apps are left out.

    Raises
    ------
    ValueError
        If a variable or a setting of the file is wrong, the file cannot be read, or the limits of
        the rate exclude each other; the message names it and never shows a Redis address.
    """
    # Not through monitor.settings, which would load pydantic on the caller's thread.
    environ = os.environ if environ is None else environ  # noqa: TID251
    values: dict[str, Any] = dict(given)
    path, in_file = _config_file(environ)
    for name, spec in _SPECS.items():
        setting = spec.variable or name.upper()
        if name in values or spec is _PREDICATE:  # a function cannot be in a variable
            continue
        shown_as = _PREFIX + setting
        value: object = from_environment(shown_as, environ)
        if value == "":
            shown_as, value = f"{path}: {setting.lower()}", in_file.get(setting.lower(), "")
        if value != "":
            if isinstance(value, str):
                # What cannot be parsed stays as it is: the check says what it should have been.
                with contextlib.suppress(ValueError):
                    value = spec.parse(value)
            values[name] = _checked(name, shown_as, value)
    names = {each.name for each in fields(Sampling)} & values.keys()
    sampling = Sampling(**{name: values.pop(name) for name in names})
    if sampling.min_rate > sampling.max_rate:
        raise ValueError("min_rate: should not be above max_rate")
    options = Options(**values)
    rules = tuple(rule for rule in sampling.rules if rule.app in {None, options.app})
    return replace(options, sampling=replace(sampling, rules=rules))


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


def _config_file(environ: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """Return the path of the file with settings and what it sets, by name; as monitor.settings."""
    here = environ is os.environ  # noqa: TID251  # as in resolve
    path = environ.get(_PREFIX + "CONFIG", "")
    if not path:
        path = "groundwatch.toml"
        if not (here and os.path.isfile(path)):  # noqa: PTH113  # pathlib is slow to import
            return path, {}
    import tomllib  # noqa: PLC0415  # most apps have no file

    try:
        with open(os.path.expanduser(path), "rb") as file:  # noqa: PTH111, PTH123  # as above
            document = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: cannot read the settings: {error}") from None
    tables = [value for value in document.values() if isinstance(value, dict)]
    # No two tables have a setting of one name. What is not the hook's, other processes check.
    return path, {name: value for table in (*tables, document) for name, value in table.items()}


def _checked(option: str, shown_as: str, value: object) -> object:
    spec = _SPECS[option]
    problem = f"should be {spec.should_be}"
    try:
        if spec.accepts(value):
            return spec.make(value)
    except ValueError as error:
        problem = str(error) or problem
    raise ValueError(f"{shown_as}: {problem}")


def _mask(value: object) -> Mask:
    if callable(value):
        return value
    # Here because most apps use none, and its patterns take a while to compile.
    from .masks import build  # noqa: PLC0415

    return build(value)


def _rules(value: Sequence[Any]) -> tuple[Rule, ...]:
    rules = []
    for number, item in enumerate(value, 1):
        try:
            rules.append(item if isinstance(item, Rule) else Rule(**item))
        except ValueError as error:
            raise ValueError(f"rule {number}: {error}") from None
        except TypeError:
            parts = "sample_rate, and nothing but " + ", ".join(part.name for part in fields(Rule))
            raise ValueError(f"rule {number}: should have {parts}") from None
    return tuple(rules)


def is_rate(value: object) -> bool:
    """Return whether this is a probability."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= 1  # type: ignore[arg-type,operator]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


class _Spec(NamedTuple):
    should_be: str
    accepts: Callable[[Any], object]
    parse: Callable[[str], object] = str  #: reads the environment variable
    variable: str | None = None  #: its name, where it is not the option's
    make: Callable[[Any], object] = lambda value: value  #: ValueError if it is wrong after all


_RATE = _Spec("a number from 0 to 1", is_rate, float)
_COUNT = _Spec(
    "a whole number above 0",
    lambda n: isinstance(n, int) and not isinstance(n, bool) and n > 0,
    int,
)
_TEXT = _Spec("a text", _is_text)
_PREDICATE = _Spec("a function of the fields that returns true or false", callable)
_SPECS: dict[str, _Spec] = {
    "app": _Spec(
        "a name of 1 to 200 characters, none of them a control character",
        lambda name: _is_text(name) and 0 < len(name) <= _LONGEST_NAME
        and all(c >= " " and not "\x7f" <= c <= "\x9f" for c in name),
    ),
    "sample_rate": _RATE,
    "redis_url": _Spec(
        "an address that begins with redis://, rediss://, unix:// or redis+sentinel://",
        lambda value: _is_text(value) and value.startswith(_SCHEMES),
    ),
    "release": _TEXT,
    "environment": _TEXT,
    "enabled": _Spec(
        "true or false",
        lambda value: isinstance(value, bool),
        lambda raw: _BOOLEANS.get(raw.strip().lower(), raw),
    ),
    **dict.fromkeys(("buffer_samples", "buffer_chars", "max_text_chars"), _COUNT),
    **dict.fromkeys(("queue_limit", "queue_limit_megabytes"), _COUNT),
    "home": _Spec(
        "the path of a folder", lambda path: isinstance(path, (str, os.PathLike)), make=os.fspath
    ),
    "mask": _Spec(
        "a function of a text, or builtin, or some of key, email, iban, card, ip and phone,"
        " or a list of these and of (name, pattern)",
        lambda _: True,
        make=_mask,
    ),
    "capture": _Spec("full or metadata", lambda value: value in ("full", "metadata")),
    "rules": _Spec(
        "a list of rules", lambda value: isinstance(value, (list, tuple)),
        lambda raw: importlib.import_module("json").loads(raw),  # most apps have no rules
        "SAMPLE_RULES",
        _rules,
    ),
    "always": _PREDICATE,
    "never": _PREDICATE,
    "min_rate": _RATE,
    "max_rate": _RATE,
}  # fmt: skip
