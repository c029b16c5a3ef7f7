"""
Which interactions are chosen, and which variant of an experiment a request gets.

By a random number for each call, the trace id's digits, rules, and shares that workers learn.
"""

from __future__ import annotations

import contextvars
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random, random
from types import MappingProxyType
from typing import Any, Final

_TRACE_ID_DIGITS = 32

#: Looks at the fields of an interaction, as they were handed over.
Predicate = Callable[[Mapping[str, Any]], object]


class Sampler:
    """
    Chooses with probability *rate*, in [0, 1], independently for each call, and counts every call.

    Without a lock: to count and to draw are single steps in C, so that threads, signal handlers
    and ``__del__`` may come in between.
    """

    __slots__ = ("closed", "counter", "draw", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        # Our own generator: the host's seeded stream stays untouched, forked workers differ.
        self.draw = Random().random  # noqa: S311
        self.counter = itertools.count()
        self.closed = False  #: whether nothing is chosen and counted any more

    def choose(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is sampled, 0 if not."""
        if self.closed:
            return 0.0
        next(self.counter)
        rate = self.rate
        if trace_id is not None and is_trace_id(trace_id):
            return rate if belongs(trace_id, rate) else 0.0
        return rate if self.draw() < rate else 0.0

    @property
    def seen(self) -> int:
        """How many interactions were counted."""
        return read(self.counter)


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


class Counters(dict[str, "itertools.count[int]"]):
    """Counters by name. To count is a single step in C, as in `Sampler`."""

    def add(self, name: str) -> None:
        """Count one more."""
        next(self.get(name) or self.setdefault(name, itertools.count()))

    def so_far(self) -> dict[str, int]:
        """Return how many there were of each; names that did not occur are left out."""
        counted = {name: read(counter) for name, counter in list(self.items())}
        return {name: n for name, n in counted.items() if n}


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
    """Return a tag or user as it will stand on the record; None for what is not text or number."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if issubclass(kind, str):
        return str.__str__(value)
    return int.__repr__(value) if kind is int else None


# --- experiments ---

#: Shares of the traffic by experiment and variant; each experiment's sum to 1.
Shares = Mapping[str, Mapping[str, float]]

_LONGEST: Final = 100_000
_WHOLE: Final = 2.0**64
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
#: What this thread or task has chosen since its last interaction, by experiment.
chosen: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "groundwatch_chosen", default=_NONE
)


def pick(
    shares: Mapping[str, float] | None, experiment: str, key: object, variants: Sequence[str]
) -> str:
    """
    Return one of *variants*: always the same for a key as long as the shares stay the same.

    Without a key by chance. Variants for which no share is known get an even part.
    """
    if key is None:
        at = random()  # noqa: S311  # splits traffic, guards nothing
    else:
        from hashlib import blake2b  # noqa: PLC0415  # most apps have no experiments

        name = f"{experiment}\0{key}".encode("utf-8", "surrogatepass")
        at = int.from_bytes(blake2b(name, digest_size=8).digest(), "big") / _WHOLE
    even = 1.0 / len(variants)
    if not shares:
        return variants[int(at * len(variants))]
    parts = [shares.get(variant, even) for variant in variants]
    left = at * sum(parts)
    for variant, part in zip(variants, parts, strict=True):
        left -= part
        if left < 0:
            return variant
    return variants[-1]


def take_chosen(tags: object) -> object:
    """Return *tags* with what was chosen since the last interaction, which is then forgotten."""
    found = chosen.get()
    if not found:
        return tags
    chosen.set(_NONE)
    if tags is None:
        return dict(found)
    return {**found, **tags} if isinstance(tags, Mapping) else tags


def read_shares(published: bytes | None) -> Shares:
    """Read what the scheduler published; nothing at all of what is no such thing."""
    if not published or len(published) > _LONGEST:
        return {}
    import json  # noqa: PLC0415  # on the sender's thread, and only where there are experiments

    try:
        return {
            str(experiment): {str(name): max(0.0, float(share)) for name, share in of.items()}
            for experiment, of in json.loads(published).items()
            if sum(map(float, of.values())) > 0
        }
    except (ValueError, TypeError, AttributeError):
        return {}
