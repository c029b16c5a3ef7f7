"""Which interactions get another rate than the hook's own: rules, predicates and limits."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypedDict

from monitor.hook.options import Arguments, from_environment

#: Looks at the fields of an interaction, as they were handed over.
Predicate = Callable[[Mapping[str, Any]], object]


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
        if not _is_rate(self.sample_rate):
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
        """Say whether an interaction has the user and all the tags; the app is the hook's."""
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
    """What the hook was told beside its rate."""

    rules: tuple[Rule, ...] = ()
    always: Predicate | None = None
    never: Predicate | None = None
    min_rate: float = 0.0
    max_rate: float = 1.0

    @property
    def plain(self) -> bool:
        """Say whether all interactions have the hook's own rate."""
        return not self.rules and self.always is None and self.never is None

    def ceiling(self, rate: float) -> float:
        """Give the highest probability that an interaction may have when the own rate is *rate*."""
        if self.always is not None:
            return 1.0
        return max((rate, *(rule.sample_rate for rule in self.rules)))

    def rate_of(
        self, given: Mapping[str, object], rate: float, failed: Callable[[], object]
    ) -> float:
        """Give one interaction's probability; *failed* is told of each predicate that raises."""
        given = MappingProxyType(given)  # predicates look, no more
        if self.never is not None and _opinion(self.never, given, failed):
            return 0.0
        if self.always is not None and _opinion(self.always, given, failed):
            return 1.0
        for rule in self.rules:
            if _opinion(rule.fits, given, failed):
                return rule.sample_rate
        return rate

    def within(self, rate: float) -> float:
        """Keep a rate within the limits."""
        return min(max(rate, self.min_rate), self.max_rate)


class SamplingArguments(TypedDict, total=False):
    """The keyword arguments that say what to sample; None means: as the environment."""

    rules: Iterable[Rule | Mapping[str, Any]] | None
    always: Predicate | None
    never: Predicate | None
    min_rate: float | None
    max_rate: float | None


class HookArguments(Arguments, SamplingArguments, total=False):
    """The keyword arguments of ``monitor.init`` and ``Hook``."""


def split(arguments: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """
    Take out, checked, what says which interactions to sample; the rest as it is.

    Raises
    ------
    ValueError
        If one is wrong; the message names it.
    """
    names = SamplingArguments.__annotations__
    mine = {
        name: _checked(name, name, arguments[name])
        for name in names
        if arguments.get(name) is not None
    }
    return mine, {name: value for name, value in arguments.items() if name not in names}


def resolve_sampling(
    given: Mapping[str, object], app: str, environ: Mapping[str, str] | None = None
) -> Sampling:
    """
    Complete checked arguments from the environment and leave other apps' rules out.

    Raises
    ------
    ValueError
        If a variable is wrong, or the limits exclude each other.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251  # as options.resolve
    values = dict(given)
    for name, variable in _VARIABLES.items():
        raw = from_environment(variable, environ)
        if raw and name not in values:
            values[name] = _checked(name, variable, _parsed(raw))
    sampling = Sampling(**values)  # type: ignore[arg-type]  # each value has passed its check
    if sampling.min_rate > sampling.max_rate:
        raise ValueError("min_rate: should not be above max_rate")
    rules = tuple(rule for rule in sampling.rules if rule.app in {None, app})
    kept = {item.name: getattr(sampling, item.name) for item in fields(Sampling)}
    return Sampling(**{**kept, "rules": rules})


def _checked(name: str, shown_as: str, value: object) -> object:
    if name == "rules":
        return _rules(shown_as, value)
    accepts, should_be = _CHECKS[name]
    if not accepts(value):
        raise ValueError(f"{shown_as}: should be {should_be}")
    return value


def _rules(shown_as: str, value: object) -> tuple[Rule, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{shown_as}: should be a list of rules")  # noqa: TRY004  # as all here
    rules = []
    for number, item in enumerate(value, 1):
        try:
            rules.append(item if isinstance(item, Rule) else Rule(**item))
        except ValueError as error:
            raise ValueError(f"{shown_as}: rule {number}: {error}") from None
        except TypeError:
            parts = ", ".join(part.name for part in fields(Rule))
            raise ValueError(
                f"{shown_as}: rule {number}: should have sample_rate, and nothing but {parts}"
            ) from None
    return tuple(rules)


def _opinion(
    predicate: Predicate, given: Mapping[str, object], failed: Callable[[], object]
) -> bool:
    try:
        return bool(predicate(given))
    except Exception:  # noqa: BLE001  # the host's function may raise anything
        failed()
        return False


def _text(value: object) -> str | None:
    """Give a tag or user as it will stand on the record; None for what is no text or number."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, str):
        return str.__str__(value)
    return int.__repr__(value) if kind is int else None


def _parsed(raw: str) -> object:
    import json  # noqa: PLC0415  # most apps have no rules

    try:
        return json.loads(raw)
    except ValueError:
        return raw  # the check says what it should have been


def _is_rate(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= 1  # type: ignore[arg-type,operator]


_RATE = (_is_rate, "a number from 0 to 1")
_PREDICATE = (callable, "a function of the fields that returns true or false")
_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "min_rate": _RATE,
    "max_rate": _RATE,
    "always": _PREDICATE,
    "never": _PREDICATE,
}
_VARIABLES = {
    "rules": "GROUNDWATCH_SAMPLE_RULES",
    "min_rate": "GROUNDWATCH_MIN_RATE",
    "max_rate": "GROUNDWATCH_MAX_RATE",
}
