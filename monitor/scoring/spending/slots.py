"""How many calls a process keeps in flight: more while all goes well, half when it does not."""

from __future__ import annotations

import threading
import time

_FIRST = 8
_SHRINK_EVERY_S = 1.0  # calls that fail together are one piece of news


class Slots:
    """
    Slots for calls, for threads: additive increase, multiplicative decrease.

    A whole round of calls that went well adds one slot; being told to slow down, or
    time-outs, halve their number, at most once a second. ``most`` bounds it.

    References
    ----------
    .. [1] D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for
       congestion avoidance", Computer Networks and ISDN Systems 17 (1989), 1-14.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(most, _FIRST))
        self._taken = 0
        self._shrunk_s = -_SHRINK_EVERY_S
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    def take(self, *, longest_s: float | None = None) -> bool:
        """Take a slot, waiting for one if need be; False when none was free in *longest_s*."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._taken < self.limit, longest_s):
                return False
            self._taken += 1
            return True

    def give_back(self) -> None:
        """Free a slot that was taken."""
        with self._changed:
            self._taken -= 1
            self._changed.notify()

    def grow(self) -> None:
        """Note a call that went well; only while the slots are in use, so that it was a test."""
        with self._changed:
            if self._taken >= self.limit - 1:
                # Doubling a round as long as nothing has gone wrong yet, then one a round.
                step = 1.0 if self._shrunk_s < 0 else 1.0 / self._limit
                self._limit = min(float(self._most), self._limit + step)
                self._changed.notify()

    def shrink(self) -> None:
        """Note that the endpoint is overloaded."""
        with self._changed:
            now_s = time.monotonic()
            if now_s - self._shrunk_s >= _SHRINK_EVERY_S:
                self._shrunk_s = now_s
                self._limit = max(1.0, self._limit / 2)
