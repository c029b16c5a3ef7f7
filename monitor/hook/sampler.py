"""Which interactions are sampled: a random number for each call, the trace id's digits, rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

_TRACE_ID_DIGITS = 32

#: Looks at the fields of an interaction, as they were handed over.
Predicate = Callable[[Mapping[str, Any]], object]


class Sampler:
    """
    Chooses with probability *rate*, in [0, 1], independently for each call, and counts every call.

    Without a lock: to count and to draw are single steps in C, so that threads, signal handlers
    and ``__del__`` may come in between.
    """

    __slots__ = ("_closed", "_draw", "_seen", "rate")

    def __init__(self, rate: float) -> None:
        #: The probability that is in force.
        self.rate = rate
        # Our own generator: the host's seeded stream stays untouched, forked workers differ.
        self._draw = Random().random  # noqa: S311
        self._seen = itertools.count()
        self._closed = False

    def choose(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is sampled, 0 if not."""
        if self._closed:
            return 0.0
        next(self._seen)
        rate = self.rate
        if trace_id is not None and is_trace_id(trace_id):
            return rate if belongs(trace_id, rate) else 0.0
        return rate if self._draw() < rate else 0.0

    def count(self) -> None:
        """Count an interaction that another sampler has chosen."""
        next(self._seen)

    def coin(self, probability: float) -> bool:
        """Return True with *probability*, and count nothing."""
        return self._draw() < probability

    def close(self) -> None:
        """Choose nothing and count nothing from now on."""
        self._closed = True

    @property
    def seen(self) -> int:
        """How many interactions were counted."""
        return read(self._seen)


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
        """Return a rate cut to the limits."""
        return min(max(rate, self.min_rate), self.max_rate)


def is_trace_id(value: object) -> bool:
    """Return whether this is a trace id as W3C and OpenTelemetry write it."""
    if type(value) is not str or len(value) != _TRACE_ID_DIGITS:
        return False
    try:
        int(value, 16)
    except ValueError:
        return False
    return value.isascii() and value.isalnum()  # not what `int` accepts beside: + - _ and spaces


def belongs(trace_id: object, rate: float) -> bool:
    """
    Return whether a trace is in the sample of *rate*; smaller samples are part of larger ones.

    OpenTelemetry's rule (TraceIdRatioBased), so that a trace is sampled whole across services.
    """
    return int(str(trace_id)[16:], 16) < round(rate * 2**64)


def read(counter: itertools.count[int]) -> int:
    """Return what a counter will give next without moving it; only its repr tells: ``count(5)``."""
    return int(repr(counter)[6:-1])


def is_rate(value: object) -> bool:
    """Return whether this is a probability."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= 1  # type: ignore[arg-type,operator]


def _opinion(
    predicate: Predicate, given: Mapping[str, object], failed: Callable[[], object]
) -> bool:
    try:
        return bool(predicate(given))
    except Exception:  # noqa: BLE001  # the host's function may raise anything
        failed()
        return False


def _text(value: object) -> str | None:
    """Return a tag or user as it will stand on the record; None for what is no text or number."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, str):
        return str.__str__(value)
    return int.__repr__(value) if kind is int else None
