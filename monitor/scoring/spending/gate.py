"""The gate before the judge: kept answers, slots, pace, and word that it is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from monitor.errors import (
    JudgeAwayError,
    JudgeRateLimitedError,
    JudgeUnavailableError,
    QueueUnavailableError,
)
from monitor.scoring.spending.away import Absence
from monitor.scoring.spending.budget import CrowdedError, GivenUpError
from monitor.scoring.spending.kept import KeptVerdicts
from monitor.scoring.spending.pace import Pace
from monitor.scoring.spending.slots import Slots

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


@dataclass(slots=True)
class Gate:
    """
    Lets calls to the judge through, no more than is good for all.

    All that asks one endpoint goes through one gate. Waiting for a slot or for the
    endpoint's rate limit takes nothing from the time that the judge has for its answer.
    What needs Redis and finds it away is left out here: the queue hears of it anyway.
    """

    slots: Slots
    pace: Pace | None = None
    absence: Absence | None = None
    kept: KeptVerdicts | None = None
    #: For a slot, or for budget that calls under way hold; then the sample had better be
    #: elsewhere. None for who has nowhere else to put it.
    longest_wait_s: float | None = None

    def answer(self, call: Call[T]) -> T:
        """
        Give the kept answer, else make the call and keep what it says.

        Raises
        ------
        JudgeAwayError
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
                raise JudgeAwayError(away.reason, retry_after_s=away.for_s)
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
        except JudgeAwayError as error:
            self._tell(error)
            raise
        except JudgeRateLimitedError as error:
            if error.retry_after_s is None or error.retry_after_s <= _LONGEST_PAUSE_S:
                raise
            away = JudgeAwayError(str(error), retry_after_s=error.retry_after_s)
            away.context |= error.context
            self._tell(away)
            raise away from None
        except JudgeUnavailableError:
            self.slots.shrink()
            raise

    def _tell(self, error: JudgeAwayError) -> None:
        with _not_needed():
            if self.absence is None or self.absence.note(error):
                log.error("judge.away", message=str(error), retry_after_s=error.retry_after_s)


@contextmanager
def _not_needed() -> Iterator[None]:
    try:
        yield
    except QueueUnavailableError as error:
        log.warning("judge.not_shared", message=str(error))
