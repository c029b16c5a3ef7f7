"""The gate before the judge: kept answers, slots, pace, and word that it is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import redis
import structlog

from monitor.errors import (
    JudgeOutageError,
    JudgeRateLimitedError,
    JudgeUnavailableError,
    QueueUnavailableError,
)
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.spending.budget import CrowdedError, GivenUpError
from monitor.scoring.spending.pace import Pace
from monitor.scoring.spending.verdict_cache import KeptVerdicts

_LONGEST_PACE_S, _NO_HURRY_S = 20.0, 3_600.0
_LONGEST_PAUSE_S = 5.0  # a longer Retry-After: all leave it alone, and samples wait in the queue

T = TypeVar("T")

log = structlog.get_logger("groundwatch.scoring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One call that is wanted: how it is made, about how long it is, and where it is kept."""

    ask: Callable[[], T]
    key: str  #: digest of all that the answer depends on
    restore: Callable[[dict[str, Any]], T]  #: makes the answer of what was kept
    tokens: int  #: about so many, for the endpoint's own limit on them


# --- away ---
# The judge is away: one worker hears it, all leave it alone until it may be back.


#: Nobody said when it is back: ask again after a minute. At most an hour, whatever was said.
_UNKNOWN_S, _LONGEST_S = 60.0, 3600.0
_LONGEST_REASON = 300


class Away(NamedTuple):
    """Why the judge answers nobody, and for how long it is left alone."""

    reason: str
    for_s: float


class CircuitBreaker:
    """The note that a judge's endpoint answers nobody; it ends by itself."""

    def __init__(self, client: redis.Redis, endpoint: str) -> None:
        self._redis: Any = client
        self._key = names.judge_away(endpoint)

    def note(self, error: JudgeOutageError) -> bool:
        """Tell everybody; False when they know already."""
        for_s = _UNKNOWN_S if error.retry_after_s is None else max(error.retry_after_s, 1.0)
        ends_ms = round(min(for_s, _LONGEST_S) * 1000)
        with translated():
            return bool(
                self._redis.set(self._key, str(error)[:_LONGEST_REASON], px=ends_ms, nx=True)
            )

    def look(self) -> Away | None:
        """Say whether it is away now."""
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.get(self._key)
            pipe.pttl(self._key)
            reason, left_ms = pipe.execute()
        if reason is None:
            return None
        return Away(reason.decode("utf-8", "replace"), max(left_ms, 0) / 1000)

    def over(self) -> None:
        """Tell everybody that it has answered."""
        with translated():
            self._redis.delete(self._key)


# --- slots ---
# How many calls a process keeps in flight: more while all goes well, half when it does not.


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


@dataclass(slots=True)
class JudgeLimiter:
    """
    Lets calls to the judge through, no more than is good for all.

    All that asks one endpoint goes through one gate. Waiting for a slot or for the
    endpoint's rate limit takes nothing from the time that the judge has for its answer.
    What needs Redis and finds it away is left out here: the queue hears of it anyway.
    """

    slots: Slots
    pace: Pace | None = None
    absence: CircuitBreaker | None = None
    kept: KeptVerdicts | None = None
    #: For a slot, or for budget that calls under way hold; then the sample had better be
    #: elsewhere. None for who has nowhere else to put it.
    longest_wait_s: float | None = None

    def answer(self, call: Call[T]) -> T:
        """
        Give the kept answer, else make the call and keep what it says.

        Raises
        ------
        JudgeOutageError
            If the judge answers nobody, also when another process has heard that.
        JudgeError
            Whatever else the call raises.
        """
        found = self._kept(call)
        if found is not None:
            return found
        if not self.slots.take(longest_s=self.longest_wait_s):
            raise CrowdedError("the judge is asked as much as it bears", retry_after_s=1.0)
        try:
            self._wait(call.tokens)
            made = self._asked_in_time(call)
            self.slots.grow()
        finally:
            self.slots.give_back()
        if self.kept is not None:
            with _not_needed():
                self.kept.put(call.key, made)
        return made

    def _kept(self, call: Call[T]) -> T | None:
        try:
            return None if self.kept is None else self.kept.get(call.key, call.restore)
        except QueueUnavailableError:
            return None

    def _wait(self, tokens: int) -> None:
        try:
            away = self.absence.look() if self.absence is not None else None
            if away is not None:
                raise JudgeOutageError(away.reason, retry_after_s=away.for_s)
            in_time = self.pace is None or self.pace.wait(
                tokens,
                longest_s=_LONGEST_PACE_S if self.longest_wait_s is not None else _NO_HURRY_S,
            )
        except QueueUnavailableError:
            return
        if not in_time:
            raise CrowdedError("the judge's rate limit leaves no room now", retry_after_s=1.0)

    def _asked_in_time(self, call: Call[T]) -> T:
        while True:
            try:
                return self._asked(call)
            except GivenUpError:
                raise
            except CrowdedError as error:
                if self.longest_wait_s is not None:
                    raise
                time.sleep(error.retry_after_s or 0.0)

    def _asked(self, call: Call[T]) -> T:
        try:
            return call.ask()
        except CrowdedError:
            raise
        except JudgeOutageError as error:
            self._tell(error)
            raise
        except JudgeRateLimitedError as error:
            if error.retry_after_s is None or error.retry_after_s <= _LONGEST_PAUSE_S:
                raise
            away = JudgeOutageError(str(error), retry_after_s=error.retry_after_s)
            away.context |= error.context
            self._tell(away)
            raise away from None
        except JudgeUnavailableError:
            self.slots.shrink()
            raise

    def _tell(self, error: JudgeOutageError) -> None:
        with _not_needed():
            if self.absence is None or self.absence.note(error):
                log.error("judge.away", message=str(error), retry_after_s=error.retry_after_s)


@contextmanager
def _not_needed() -> Iterator[None]:
    try:
        yield
    except QueueUnavailableError as error:
        log.warning("judge.not_shared", message=str(error))
