"""Which notifications a history of statuses would have caused, by the state machine; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from alerts.model import AlertKey, AlertState, Evidence, EvidenceRun, Phase
from alerts.state import Observation, Timers, step
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Status

_MONTH_S = 30 * 86_400.0


class Point(NamedTuple):
    """The status of one key at one evaluation."""

    at: datetime
    status: Status
    n_total: int  #: evaluations so far, to tell new evidence from old


@dataclass(slots=True)
class ReplayedAlert:
    """The notifications that one key would have caused."""

    key: AlertKey
    events: list[tuple[datetime, AlertEvent]] = field(default_factory=list)
    span_s: float = 0.0

    @property
    def counts(self) -> Counter[AlertEvent]:
        """How many messages of each kind."""
        return Counter(event for _, event in self.events)

    @property
    def per_month(self) -> float:
        """Messages in 30 days, at the pace of this history."""
        return len(self.events) * _MONTH_S / self.span_s if self.span_s > 0 else 0.0


def replay(key: AlertKey, history: Iterable[Point], timers: Timers) -> ReplayedAlert:
    """
    Run the state machine over a history, oldest first, and collect what is not quiet.

    Groups, silences and routes come later and only make it fewer, so this is an upper
    bound of the messages to each recipient.
    """
    alert, state = ReplayedAlert(key), AlertState(key=key)
    first: datetime | None = None
    for point in history:
        first = first or point.at
        alert.span_s = (point.at - first).total_seconds()
        observation = Observation(
            evidence=Evidence.of(point.status),
            at=point.at,
            n_total=point.n_total,
            blind=point.status is Status.BLIND,
        )
        decision = step(state, observation, point.at, timers)
        state = decision.state
        event = decision.event
        if event not in {None, AlertEvent.DEESCALATED} and not decision.quiet:
            assert event is not None
            alert.events.append((point.at, event))
    return alert


def missed(
    before: Sequence[ReplayedAlert], after: Sequence[ReplayedAlert], within_s: float
) -> list[tuple[AlertKey, datetime]]:
    """List what fired *before* and has nothing firing within *within_s* seconds *after*."""
    fired = {AlertEvent.FIRED, AlertEvent.ESCALATED}
    later = {alert.key[:3]: [at for at, event in alert.events if event in fired] for alert in after}
    return [
        (alert.key, at)
        for alert in before
        for at, event in alert.events
        if event is AlertEvent.FIRED
        and not any(
            abs((at - other).total_seconds()) <= within_s for other in later.get(alert.key[:3], ())
        )
    ]


# --- progress ---
# How far an alert has come towards its next message; pure.


class AlertProgress(NamedTuple):
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


def progress(state: AlertState, timers: Timers, now: datetime) -> list[AlertProgress]:
    """List what is under way for an alert, the nearest first; nothing while all is well."""
    found: list[AlertProgress] = []

    def add(then: str, run: EvidenceRun | None, for_s: float) -> None:
        if run is not None:
            wanted = timers.min_new_evaluations if for_s > 0 else 0
            held_s = (now - run.since).total_seconds()
            found.append(AlertProgress(then, held_s, for_s, run.informed, wanted))

    if state.phase is Phase.PENDING:
        add("alert as a warning", state.bad, timers.warning_for_s)
        # What is about to fire as critical does not fire as a warning first.
        if state.seen is Evidence.CRITICAL and timers.critical_for_s <= timers.warning_for_s:
            found = [item for item in found if not item.is_due]
        add("alert as critical", state.critical, timers.critical_for_s)
    elif state.phase is not Phase.OK:
        if state.level is Severity.WARNING:
            add("become critical", state.critical, timers.critical_for_s)
        elif state.healthy is None:
            add("ease to a warning", state.not_critical, timers.resolve_after_s)
        add("be resolved", state.healthy, timers.resolve_after_s)
    return sorted(found, key=lambda item: item.for_s - item.held_s)


def next_reminder(state: AlertState, timers: Timers) -> datetime | None:
    """Return when people are reminded of what still fires; None when nothing does."""
    if state.phase is not Phase.FIRING or state.last_notified_at is None:
        return None
    return state.last_notified_at + timers.repeat_after(state.level)
