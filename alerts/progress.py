"""How far an alert has come towards the next thing that people hear of; pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from alerts.evidence import Run, Timers
from alerts.memory import AlertState, Phase
from monitor.models.alerting import Level


class Progress(NamedTuple):
    """Something that has held for so long and must hold for so long; then *then* happens."""

    then: str
    held_s: float
    for_s: float
    informed: int  #: evaluations with new samples in that time
    wanted: int  #: how many of them it takes

    @property
    def is_due(self) -> bool:
        """Whether it has held for long enough."""
        return self.held_s >= self.for_s and self.informed >= self.wanted


def progress(state: AlertState, timers: Timers, now: datetime) -> list[Progress]:
    """List what is under way for an alert, the nearest first; nothing while all is well."""
    return sorted(_under_way(state, timers, now), key=lambda item: item.for_s - item.held_s)


def next_reminder(state: AlertState, timers: Timers) -> datetime | None:
    """Say when people are reminded of what still fires; None when nothing does."""
    if state.phase is not Phase.FIRING or state.last_notified_at is None:
        return None
    critical = state.level is Level.CRITICAL
    every_s = timers.repeat_after_s if critical else timers.warning_repeat_after_s
    return state.last_notified_at + timedelta(seconds=every_s)


def _under_way(state: AlertState, timers: Timers, now: datetime) -> Iterator[Progress]:
    if state.phase is Phase.PENDING:
        yield from _towards("alert as a warning", state.bad, timers.warning_for_s, timers, now)
        yield from _towards("alert as critical", state.critical, timers.critical_for_s, timers, now)
        return
    if state.phase is Phase.OK:
        return
    after_s = timers.resolve_after_s
    if state.level is Level.WARNING:
        yield from _towards("become critical", state.critical, timers.critical_for_s, timers, now)
    elif state.healthy is None:
        yield from _towards("ease to a warning", state.not_critical, after_s, timers, now)
    yield from _towards("be resolved", state.healthy, after_s, timers, now)


def _towards(
    then: str, run: Run | None, for_s: float, timers: Timers, now: datetime
) -> Iterator[Progress]:
    if run is not None:
        wanted = timers.min_new_evaluations if for_s > 0 else 0
        yield Progress(then, (now - run.since).total_seconds(), for_s, run.informed, wanted)
