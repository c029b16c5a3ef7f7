"""How the sender behaves while Redis is away: when to try again, and how rarely to complain."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 10.0
#: Even a flush does not try more often than this.
HURRIED_WAIT_S = 0.1
COMPLAIN_EVERY_S = 60.0


class Backoff:
    """Doubles the wait after each failure, with jitter so that a fleet does not knock in step."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0
        self._failed_at = 0.0
        self._wait_s = 0.0

    def failed(self, now: float) -> None:
        """Note a failure at *now*, in monotonic seconds."""
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(self._failures, 10))
        self._failures += 1
        self._failed_at = now
        self._wait_s = longest * self._random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0

    def wait_s(self, now: float, *, hurry: bool = False) -> float:
        """Say how long to wait before the next try; 0 when it may be now."""
        if not self._failures:
            return 0.0
        wait_s = min(self._wait_s, HURRIED_WAIT_S) if hurry else self._wait_s
        return max(0.0, self._failed_at + wait_s - now)


class Complaints:
    """At most one log line a minute, and only when samples were dropped or Redis is away."""

    def __init__(self) -> None:
        self._next_at = 0.0
        self._told: dict[str, int] = {}
        self._told_error: str | None = None

    def due(self, now: float, dropped: Mapping[str, int], error: str | None) -> str | None:
        """Return the line to log at *now*, in monotonic seconds, if there is one to log."""
        news = {reason: n - self._told.get(reason, 0) for reason, n in sorted(dropped.items())}
        news = {reason: n for reason, n in news.items() if n}
        if now < self._next_at or not (news or (error and error != self._told_error)):
            return None
        self._next_at = now + COMPLAIN_EVERY_S
        self._told, self._told_error = dict(dropped), error
        counts = ", ".join(f"{reason} {n}" for reason, n in news.items())
        parts = [f"samples dropped: {counts}" if counts else "", f"Redis: {error}" if error else ""]
        return "; ".join(part for part in parts if part)
