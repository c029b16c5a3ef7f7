"""The rules that alerts follow, from the settings: timers, and the lines a pass rate may cross."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from alerts.evidence import Timers
from monitor.models.alerting import Level
from monitor.models.status import Verdict
from monitor.settings import Settings

#: Fewer than this many missed evaluations are no gap.
_GAP_EVALUATIONS = 3
_LEAST_GAP_S = 300.0


class Lines(BaseModel):
    """Pass rates, in [0, 1], below which a level begins; shown in messages."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    warning_rate: float = Field(ge=0, le=1)
    critical_rate: float = Field(ge=0, le=1)

    def of(self, level: Level) -> float:
        """Give the line of one level."""
        return self.critical_rate if level is Level.CRITICAL else self.warning_rate

    def in_words(self) -> str:
        """Write both lines."""
        return f"warning below {self.warning_rate:.4g}, critical below {self.critical_rate:.4g}"


def timers_from(settings: Settings) -> Timers:
    """Read the timers of the state machine from the settings."""
    return Timers(
        warning_for_s=settings.warning_for_s,
        critical_for_s=settings.critical_for_s,
        resolve_after_s=settings.resolve_after_s,
        repeat_after_s=settings.repeat_after_s,
        warning_repeat_after_s=settings.warning_repeat_after_s,
        reopen_within_s=settings.reopen_within_s,
        # No statistics stand behind these, whatever the policy: only time makes them sure.
        monitor_for_s=settings.warning_for_s,
        monitor_resolve_after_s=settings.resolve_after_s,
        max_gap_s=max(_LEAST_GAP_S, _GAP_EVALUATIONS * settings.evaluate_every_s),
    )


def timers_for(verdict: Verdict, timers: Timers) -> Timers:
    """
    Give the timers of one verdict.

    Where a policy collects evidence, the evidence is the hold: what it says is told at once,
    and a recovery is believed when the policy believes it.
    """
    return timers if verdict.evidence is None else timers_of_evidence(timers)


def timers_of_evidence(timers: Timers) -> Timers:
    """Give the timers of a policy that collects evidence: it is told at once."""
    return replace(timers, warning_for_s=0.0, critical_for_s=0.0, resolve_after_s=0.0)


def lines_from(settings: Settings) -> Lines:
    """Read the lines between healthy, warning and critical from the settings."""
    return Lines(warning_rate=settings.warning_rate, critical_rate=settings.critical_rate)
