"""Which interactions are sampled: a coin for each, at the price of one step of an iterator."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

_FOREVER = 2**62
_TRACE_ID_DIGITS = 32
#: Stretches that a change of the rate cut short, and that a slow thread may still be using.
_LOOSE = 16
_TRIES = 100
_TRY_EVERY_S = 0.0005


class _Stretch(NamedTuple):
    """A run of misses with a hit at its end, and what was counted before it."""

    misses: itertools.repeat[None]
    length: int
    rate: float
    before: int
    loose: tuple[tuple[itertools.repeat[None], int], ...] = ()

    def seen(self) -> int:
        return self.before + sum(
            length - misses.__length_hint__()
            for misses, length in ((self.misses, self.length), *self.loose)
        )


class Gate:
    """
    Decides with probability *rate*, independently for each call, and counts every call.

    Instead of throwing a coin a call, it draws how many calls to miss until the
    next hit (a geometric gap) and hands these out by an iterator, ``misses``: to
    take one is a single step of the interpreter, which counts the call as well.

    There is no lock. The call that finds no miss left is the hit, if it gets the
    one turn to draw the next gap; a call that meets a draw under way, in another
    thread or below a signal handler, throws a coin of its own, with the same odds.
    """

    __slots__ = ("_apart", "_closed", "_random", "_stretch", "_traces", "_turn", "misses")

    misses: Iterable[None]

    def __init__(self, rate: float) -> None:
        # Our own generator: the host's seeded stream stays untouched, forked workers differ.
        self._random = Random().random  # noqa: S311
        #: Calls that took no part in a stretch: by trace id, by a coin, or all are sampled.
        self._apart = itertools.count()
        self._turn = [True]
        self._closed = False
        self._traces = _bound(rate)
        self._open(self._drawn(rate, 0, ()))

    def choose(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is sampled, 0 if not."""
        if trace_id is not None and is_trace_id(trace_id):
            return self._by_trace(trace_id)
        for _ in self.misses:
            return 0.0
        rate = self._stretch.rate
        if rate >= 1:
            next(self._apart)
            return rate
        try:
            turn = self._turn.pop()
        except IndexError:  # another call is drawing
            next(self._apart)
            rate = self.rate
            return rate if self.coin(rate) else 0.0
        try:
            return self._hit()
        finally:
            self._turn.append(turn)

    def count(self) -> None:
        """Count an interaction that another gate has chosen."""
        next(self._apart)

    def coin(self, probability: float) -> bool:
        """Throw a coin that has nothing to do with the gate's own."""
        return self._random() < probability

    def set_rate(self, rate: float) -> bool:
        """Decide with another probability from the next call on; False when it has to wait."""
        self._traces = _bound(rate)
        for _ in range(_TRIES):
            try:
                turn = self._turn.pop()
            except IndexError:
                time.sleep(_TRY_EVERY_S)
                continue
            try:
                self._change(rate)
            finally:
                self._turn.append(turn)
            return True
        return False

    def close(self) -> None:
        """Choose no more, and count no more."""
        self._closed = True
        self.misses = itertools.repeat(None)

    @property
    def rate(self) -> float:
        """The probability that is in force."""
        return self._traces[0]

    @property
    def seen(self) -> int:
        """How many interactions were counted."""
        return self._stretch.seen() + read(self._apart)

    def _by_trace(self, trace_id: object) -> float:
        """Follow OpenTelemetry's rule, so that a trace is sampled whole across services."""
        if self._closed:
            return 0.0
        next(self._apart)
        rate, bound = self._traces
        return rate if int(str(trace_id)[16:], 16) < bound else 0.0

    def _hit(self) -> float:
        """Draw the next stretch; only who has the turn may."""
        stretch = self._stretch
        for _ in stretch.misses:  # it was drawn since this call looked, or a draw was interrupted
            self._open(stretch)
            return 0.0
        before = stretch.before + stretch.length + 1
        self._open(self._drawn(stretch.rate, before, stretch.loose))
        return stretch.rate

    def _change(self, rate: float) -> None:
        """Cut the stretch short; the gap has no memory, so that its rest may be drawn anew."""
        stretch = self._stretch
        if stretch.rate == rate:
            return
        loose = (*stretch.loose, (stretch.misses, stretch.length))
        done = _Stretch(itertools.repeat(None, 0), 0, 0.0, stretch.before, loose[:-_LOOSE])
        self._open(self._drawn(rate, done.seen(), loose[-_LOOSE:]))

    def _drawn(
        self, rate: float, before: int, loose: tuple[tuple[itertools.repeat[None], int], ...]
    ) -> _Stretch:
        length = _FOREVER
        if rate >= 1:
            length = 0
        elif rate > 0:
            gap = math.log1p(-self._random()) / math.log1p(-rate)
            length = int(min(gap, float(_FOREVER)))
        return _Stretch(itertools.repeat(None, length), length, rate, before, loose)

    def _open(self, stretch: _Stretch) -> None:
        self._stretch = stretch
        self.misses = stretch.misses
        if self._closed:  # meanwhile
            self.close()


def is_trace_id(value: object) -> bool:
    """Say whether this is a trace id as W3C and OpenTelemetry write it."""
    if type(value) is not str or len(value) != _TRACE_ID_DIGITS:
        return False
    try:
        int(value, 16)
    except ValueError:
        return False
    return value.isascii() and value.isalnum()  # not what `int` accepts beside: + - _ and spaces


def belongs(trace_id: object, rate: float) -> bool:
    """Say whether a trace is in the sample of *rate*; smaller samples are part of larger ones."""
    return int(str(trace_id)[16:], 16) < _bound(rate)[1]


def read(counter: itertools.count[int]) -> int:
    """Read a counter without moving it; only its repr tells, ``count(5)``."""
    return int(repr(counter)[6:-1])


def _bound(rate: float) -> tuple[float, int]:
    return rate, round(rate * 2**64)
