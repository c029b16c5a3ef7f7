"""A judge that keeps verdicts, waits its turn and tells the others when it is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from monitor.errors import (
    JudgeAwayError,
    JudgeRateLimitedError,
    JudgeUnavailableError,
    QueueUnavailableError,
)
from monitor.models import Interaction
from monitor.scoring.base import Judge, Judgement
from monitor.scoring.spending.away import Absence
from monitor.scoring.spending.budget import CrowdedError
from monitor.scoring.spending.kept import KeptVerdicts
from monitor.scoring.spending.pace import Pace
from monitor.scoring.spending.slots import Slots

_LONGEST_PACE_S, _NO_HURRY_S = 20.0, 3_600.0
_LONGEST_PAUSE_S = 5.0  # a longer Retry-After: all leave it alone, and samples wait in the queue
_CHARS_PER_TOKEN = 4
_PROMPT_TOKENS = 1_000

log = structlog.get_logger("groundwatch.scoring")


@dataclass(slots=True)
class GovernedJudge:
    """
    Asks *inner* only when no kept verdict does, and no more than is good for all.

    Waiting for a slot or for the endpoint's rate limit takes nothing from the time
    that the judge has for its answer. What needs Redis and finds it away is left out
    here: the queue hears of it anyway.
    """

    inner: Judge
    slots: Slots
    pace: Pace | None = None
    absence: Absence | None = None
    kept: KeptVerdicts | None = None
    longest_wait_s: float | None = None  #: for a slot; then the sample had better be elsewhere
    version: str = field(init=False)

    def __post_init__(self) -> None:
        self.version = self.inner.version

    def judge(self, interaction: Interaction) -> Judgement:
        """
        Judge one interaction, or raise a ``JudgeError``.

        Raises
        ------
        JudgeAwayError
            If the judge answers nobody, also when another process has heard that.
        """
        found = self._kept(interaction)
        if found is not None:
            return found
        if not self.slots.take(longest_s=self.longest_wait_s):
            raise CrowdedError("the judge is asked as much as it bears", retry_after_s=1.0)
        try:
            self._wait(interaction)
            judgement = self._asked(interaction)
            self.slots.grow()
        finally:
            self.slots.give_back()
        self._keep(interaction, judgement)
        return judgement

    def close(self) -> None:
        """Give connections back."""
        self.inner.close()

    def _asked(self, interaction: Interaction) -> Judgement:
        try:
            return self.inner.judge(interaction)
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

    def _kept(self, interaction: Interaction) -> Judgement | None:
        try:
            return None if self.kept is None else self.kept.get(self.version, interaction)
        except QueueUnavailableError:
            return None

    def _wait(self, interaction: Interaction) -> None:
        try:
            away = self.absence.look() if self.absence is not None else None
            if away is not None:
                raise JudgeAwayError(away.reason, retry_after_s=away.for_s)
            in_time = self.pace is None or self.pace.wait(
                _about(interaction),
                longest_s=_LONGEST_PACE_S if self.longest_wait_s is not None else _NO_HURRY_S,
            )
        except QueueUnavailableError:
            return
        if not in_time:
            raise CrowdedError("the judge's rate limit leaves no room now", retry_after_s=1.0)

    def _keep(self, interaction: Interaction, judgement: Judgement) -> None:
        if self.kept is not None:
            with _not_needed():
                self.kept.put(self.version, interaction, judgement)

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


def _about(interaction: Interaction) -> int:
    """Guess the tokens of a call, for the endpoint's own limit on them."""
    contexts = sum(len(context.text) for context in interaction.contexts)
    chars = contexts + len(interaction.query or "") + 2 * len(interaction.output)
    return _PROMPT_TOKENS + chars // _CHARS_PER_TOKEN
