"""Which interactions are sampled: a random number for each call, or the digits of its trace id."""

from __future__ import annotations

import itertools
from random import Random

_TRACE_ID_DIGITS = 32


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
