"""Which interactions are sampled: a coin for each, at the price of a comparison."""

from __future__ import annotations

import itertools
import math
import re
import sys
from random import Random

_NEVER = sys.maxsize
_LONGEST_GAP = 2.0**62
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)


class Gate:
    """
    Decides with probability *rate*, independently for each call, and counts every call.

    Instead of throwing a coin a call, it draws how many calls to skip until the
    next hit (a geometric gap), so that a call costs a count and a comparison.
    There is no lock: a call that meets a draw under way, in another thread or
    below a signal handler, throws a coin of its own, which has the same odds.
    """

    __slots__ = ("_bound", "_calls", "_log_miss", "_random", "_target", "_turn", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        # Our own generator: the host's seeded stream stays untouched, forked workers differ.
        self._random = Random().random  # noqa: S311
        self._calls = itertools.count()
        self._target = _NEVER if rate <= 0 else -1
        self._turn = [True]
        self._log_miss = math.log1p(-rate) if rate < 1 else 0.0
        # OpenTelemetry's rule, so that a trace is sampled whole across services.
        self._bound = round(rate * 2**64)

    def choose(self, trace_id: object = None) -> bool:
        """Count one interaction and say whether it is sampled."""
        if trace_id is None:
            # Read before counting: a call that counts past a target never takes it for a later one.
            target = self._target
            number = next(self._calls)
            return number >= target and self._hit(number, target)
        if type(trace_id) is str and _TRACE_ID.fullmatch(trace_id):
            next(self._calls)
            return int(trace_id[16:], 16) < self._bound
        return self.choose()

    @property
    def seen(self) -> int:
        """How many interactions were counted."""
        return read(self._calls)

    def _hit(self, number: int, target: int) -> bool:
        if self.rate >= 1:
            return True
        hit = number == target or self._random() < self.rate
        try:
            turn = self._turn.pop()
        except IndexError:  # another call is drawing
            return hit
        if self._target <= number:
            gap = math.log1p(-self._random()) / self._log_miss
            self._target = number + 1 + int(min(gap, _LONGEST_GAP))
        self._turn.append(turn)
        return hit


def read(counter: itertools.count[int]) -> int:
    """Read a counter without moving it; only its repr tells, ``count(5)``."""
    return int(repr(counter)[6:-1])
