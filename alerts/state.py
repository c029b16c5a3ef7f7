"""The state machine of one alert: evidence in, next state and at most one event out; pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from alerts.evidence import AlertKey, Evidence, Observation, Run, Timers
from monitor.models.alerting import AlertEvent, Level

__all__ = [
    "AlertKey",
    "AlertState",
    "Decision",
    "Evidence",
    "Observation",
    "Phase",
    "Reason",
    "Run",
    "Timers",
    "step",
]


class Phase(StrEnum):
    """What people have been told, and what they are about to be told."""

    OK = "ok"
    PENDING = "pending"  #: bad, but not for long enough yet
    FIRING = "firing"
    RECOVERING = "recovering"  #: firing and healthy again, but not for long enough yet


class Reason(StrEnum):
    """Why a step ended as it did."""

    NOT_NEWER = "not_newer"
    UNCERTAIN = "uncertain"
    STILL_HEALTHY = "still_healthy"
    PENDING = "pending"
    CLEARED_WHILE_PENDING = "cleared_while_pending"
    BREACH_HELD = "breach_held"
    STILL_FIRING = "still_firing"
    CRITICAL_HELD = "critical_held"
    CRITICAL_CLEARED = "critical_cleared"
    REPEAT_DUE = "repeat_due"
    RECOVERING = "recovering"
    RELAPSED = "relapsed"
    HEALTHY_HELD = "healthy_held"


class AlertState(BaseModel):
    """
    All that is remembered of a key between two evaluations; survives JSON unchanged.

    After an incident was resolved its fields stay until the next breach begins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: AlertKey
    phase: Phase = Phase.OK
    phase_since: AwareDatetime | None = None
    level: Level | None = None
    peak: Level | None = None
    # what the last evaluations said
    seen_at: AwareDatetime | None = None
    seen_n_total: int | None = None
    seen_stream: str = ""
    seen: Evidence | None = None
    bad: Run | None = None
    critical: Run | None = None
    not_critical: Run | None = None
    healthy: Run | None = None
    # the incident
    incident_id: str | None = None
    status_before: Evidence | None = None
    breach_since: AwareDatetime | None = None
    opened_at: AwareDatetime | None = None
    sequence: int = 0
    last_notified_at: AwareDatetime | None = None

    def but(self, **changes: Any) -> Self:
        """Copy the state with some fields changed."""
        return self.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, what happened if anything did, and why."""

    state: AlertState
    event: AlertEvent | None
    reason: Reason


def step(state: AlertState, observation: Observation, now: datetime, timers: Timers) -> Decision:
    """
    Decide what one more evaluation changes.

    An observation that is not newer than the last one changes nothing, so that a
    replay is harmless. Uncertain evidence only lets time pass.
    """
    # A clock ahead of ours must not make every later observation look old.
    at = min(observation.at, now)
    interrupted = _interrupted(state, at, now, timers)
    if state.seen_at is not None and at <= state.seen_at and not interrupted:
        return Decision(state, None, Reason.NOT_NEWER)
    if interrupted:
        state = state.but(bad=None, critical=None, not_critical=None, healthy=None)
    if observation.evidence is Evidence.UNCERTAIN:
        return Decision(state.but(seen_at=at), None, Reason.UNCERTAIN)
    noted = _note(state, observation, at)
    if observation.evidence is Evidence.HEALTHY:
        return _on_healthy(noted, at, timers)
    if noted.phase in {Phase.OK, Phase.PENDING}:
        return _toward_firing(noted, state.seen, at, timers)
    return _while_firing(noted, at, timers)


def _interrupted(state: AlertState, at: datetime, now: datetime, timers: Timers) -> bool:
    """Say whether evaluations paused for too long, or the clock was set back."""
    if state.seen_at is None:
        return False
    gap = timedelta(seconds=timers.max_gap_s)
    return at - state.seen_at > gap or state.seen_at - now > gap


def _note(state: AlertState, observation: Observation, at: datetime) -> AlertState:
    """Extend, begin and end the runs."""
    if state.seen is not None and observation.stream != state.seen_stream:
        state = state.but(bad=None, critical=None, not_critical=None, healthy=None)
    evidence = observation.evidence
    new = observation.n_total != (state.seen_n_total or 0)

    def run(before: Run | None, goes_on: bool) -> Run | None:
        if not goes_on:
            return None
        if before is None:
            return Run(since=at, informed=int(new))
        return before.model_copy(update={"informed": before.informed + new})

    return state.but(
        seen_at=at,
        seen_n_total=observation.n_total,
        seen_stream=observation.stream,
        seen=evidence,
        bad=run(state.bad, evidence is not Evidence.HEALTHY),
        critical=run(state.critical, evidence is Evidence.CRITICAL),
        not_critical=run(state.not_critical, evidence is not Evidence.CRITICAL),
        healthy=run(state.healthy, evidence is Evidence.HEALTHY),
    )


def _held(run: Run | None, for_s: float, at: datetime, timers: Timers) -> bool:
    if run is None:
        return False
    long_enough = at - run.since >= timedelta(seconds=for_s)
    return for_s <= 0 or (long_enough and run.informed >= timers.min_new_evaluations)


def _on_healthy(state: AlertState, at: datetime, timers: Timers) -> Decision:
    if state.phase is Phase.OK:
        return Decision(state, None, Reason.STILL_HEALTHY)
    if state.phase is Phase.PENDING:
        cleared = state.but(phase=Phase.OK, phase_since=at, level=None, status_before=None)
        return Decision(cleared, None, Reason.CLEARED_WHILE_PENDING)
    if _held(state.healthy, timers.resolve_after_s, at, timers):
        resolved = _told(state, at).but(phase=Phase.OK, phase_since=at)
        return Decision(resolved, AlertEvent.RESOLVED, Reason.HEALTHY_HELD)
    if state.phase is Phase.FIRING:
        state = state.but(phase=Phase.RECOVERING, phase_since=at)
    return Decision(state, None, Reason.RECOVERING)


def _toward_firing(
    state: AlertState, before: Evidence | None, at: datetime, timers: Timers
) -> Decision:
    critical = state.seen is Evidence.CRITICAL
    level = Level.CRITICAL if critical else Level.WARNING
    run = state.critical if critical else state.bad
    for_s = timers.critical_for_s if critical else timers.warning_for_s
    if state.phase is Phase.OK:
        state = _without_incident(state).but(
            phase=Phase.PENDING, phase_since=at, status_before=before
        )
    if not _held(run, for_s, at, timers):
        return Decision(state.but(level=level), None, Reason.PENDING)
    assert state.bad is not None
    opened = state.but(
        phase=Phase.FIRING,
        phase_since=at,
        level=level,
        peak=level,
        incident_id=_incident_id(state.key, at),
        breach_since=state.bad.since,
        opened_at=at,
    )
    return Decision(_told(opened, at), AlertEvent.FIRED, Reason.BREACH_HELD)


def _while_firing(state: AlertState, at: datetime, timers: Timers) -> Decision:
    relapsed = state.phase is Phase.RECOVERING
    if relapsed:
        state = state.but(phase=Phase.FIRING, phase_since=at)
    if state.level is Level.WARNING:
        if _held(state.critical, timers.critical_for_s, at, timers):
            worse = _told(state, at).but(level=Level.CRITICAL, peak=Level.CRITICAL)
            return Decision(worse, AlertEvent.ESCALATED, Reason.CRITICAL_HELD)
    elif _held(state.not_critical, timers.resolve_after_s, at, timers):
        better = state.but(level=Level.WARNING, sequence=state.sequence + 1)
        return Decision(better, AlertEvent.DEESCALATED, Reason.CRITICAL_CLEARED)
    elif not relapsed and _repeat_due(state, at, timers):
        return Decision(_told(state, at), AlertEvent.REPEATED, Reason.REPEAT_DUE)
    return Decision(state, None, Reason.RELAPSED if relapsed else Reason.STILL_FIRING)


def _repeat_due(state: AlertState, at: datetime, timers: Timers) -> bool:
    """Say whether to remind people; only of what is critical."""
    assert state.last_notified_at is not None
    if state.seen is not Evidence.CRITICAL:
        return False
    return at - state.last_notified_at >= timedelta(seconds=timers.repeat_after_s)


def _told(state: AlertState, at: datetime) -> AlertState:
    return state.but(sequence=state.sequence + 1, last_notified_at=at)


def _without_incident(state: AlertState) -> AlertState:
    return state.but(
        level=None,
        peak=None,
        incident_id=None,
        breach_since=None,
        opened_at=None,
        sequence=0,
        last_notified_at=None,
    )


def _incident_id(key: AlertKey, at: datetime) -> str:
    """Name an incident after its key and time, so that a replay names it the same."""
    text = "\0".join((key.app, key.metric, key.segment, str(key.window_s), at.isoformat()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
