"""
The state machine of one alert: evidence in, next state and at most one event out; pure.

`step` decides what happens; `suppress_flapping` decides which steps people are notified of. While
an alert flaps the machine goes on and every event enters the timeline, but people get at most ten
messages a day: the one that begins the quiet says so, a level that they do not know of is still
reported, and so is the end.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from alerts.conditions import ALL_BLIND, MONITOR_PREFIX
from alerts.model import (
    CLOSED,
    AlertState,
    Evidence,
    EvidenceRun,
    JudgedBy,
    Phase,
    Reason,
    SentMessage,
)
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Status, Verdict
from monitor.settings import Settings

_OPEN = {Phase.FIRING, Phase.RECOVERING}
#: The most messages that people get of one alert in any day.
MOST_A_DAY = 10
#: The alert is flapping when it begins as often in a day, or after this many messages.
FLAPPING_ONSETS = 4
_FLAPPING_MESSAGES = 9
_DAY = timedelta(days=1)


#: Fewer than this many missed evaluations are no gap.
_GAP_EVALUATIONS = 3
_LEAST_GAP_S = 300.0
#: A Redis or judge that is back within this time is not worth a message.
_CERTAIN_FOR_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """
    How long something must hold, in seconds; 0 means at once.

    Unless its timer is 0, a conclusion also needs ``min_new_evaluations`` evaluations
    that saw new samples: reading the same window again proves nothing. A silence of
    more than ``max_gap_s`` between two evaluations starts all of them again.
    """

    warning_for_s: float
    critical_for_s: float
    resolve_after_s: float
    repeat_after_s: float  #: between reminders of what is critical
    warning_repeat_after_s: float = 86_400.0
    reopen_within_s: float = 1_800.0  #: what fires again so soon is the same incident
    abandon_after_s: float = 86_400.0  #: firing without any data for so long ends an incident
    settle_after_s: float = 28_800.0  #: healthy for so long ends flapping
    min_new_evaluations: int = 2
    max_gap_s: float = 300.0
    #: The same two for alerts about the monitor itself, where they differ.
    monitor_for_s: float | None = None
    monitor_resolve_after_s: float | None = None
    #: The first of them for what is certain by itself: every metric of an app is blind.
    monitor_certain_for_s: float | None = None
    #: The first three for policies that collect evidence; only timers that somebody has set.
    evidence_warning_for_s: float = 0.0
    evidence_critical_for_s: float = 0.0
    evidence_resolve_after_s: float = 0.0

    def repeat_after(self, level: Severity | None) -> timedelta:
        """Return the time between two reminders of what fires at that level."""
        is_critical = level is Severity.CRITICAL
        every_s = self.repeat_after_s if is_critical else self.warning_repeat_after_s
        return timedelta(seconds=every_s)


def timers_from(settings: Settings) -> Timers:
    """Return the timers of the state machine from the settings."""
    chosen = settings.alert_timers
    held = chosen.model_fields_set
    return Timers(
        warning_for_s=chosen.warning_for_s,
        critical_for_s=chosen.critical_for_s,
        resolve_after_s=chosen.resolve_after_s,
        repeat_after_s=chosen.repeat_after_s,
        warning_repeat_after_s=chosen.warning_repeat_after_s,
        reopen_within_s=chosen.reopen_within_s,
        evidence_warning_for_s=chosen.warning_for_s if "warning_for_s" in held else 0.0,
        evidence_critical_for_s=chosen.critical_for_s if "critical_for_s" in held else 0.0,
        evidence_resolve_after_s=chosen.resolve_after_s if "resolve_after_s" in held else 0.0,
        # No statistics stand behind these, whatever the policy: only time makes them sure.
        monitor_for_s=chosen.warning_for_s,
        monitor_resolve_after_s=chosen.resolve_after_s,
        monitor_certain_for_s=chosen.warning_for_s if "warning_for_s" in held else _CERTAIN_FOR_S,
        max_gap_s=max(_LEAST_GAP_S, _GAP_EVALUATIONS * settings.evaluate_every_s),
    )


def timers_for(verdict: Verdict, timers: Timers) -> Timers:
    """Return the timers of one verdict: on evidence, about the monitor itself, or any other."""
    if verdict.evidence is not None:
        return timers_of_evidence(timers)
    if not verdict.metric.startswith(MONITOR_PREFIX):
        return timers
    for_s, after_s = timers.monitor_for_s, timers.monitor_resolve_after_s
    if verdict.policy == ALL_BLIND and timers.monitor_certain_for_s is not None:
        for_s = timers.monitor_certain_for_s
    return replace(
        timers,
        warning_for_s=timers.warning_for_s if for_s is None else for_s,
        resolve_after_s=timers.resolve_after_s if after_s is None else after_s,
    )


def timers_of_evidence(timers: Timers) -> Timers:
    """
    Return the timers of a policy that collects evidence.

    Its evidence is the hold, so it needs no time by default: breaches notify at once, and a
    recovery is believed when the policy believes it. Timers that are set hold as a minimum.
    """
    return replace(
        timers,
        warning_for_s=timers.evidence_warning_for_s,
        critical_for_s=timers.evidence_critical_for_s,
        resolve_after_s=timers.evidence_resolve_after_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One evaluation of a key."""

    evidence: Evidence
    at: datetime
    n_total: int
    blind: bool = False  #: uncertain because the monitor does not see
    basis: JudgedBy | None = None  #: None when there is only one

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return a verdict as evidence for an alert."""
        return cls(
            evidence=Evidence.of(verdict.status),
            at=verdict.evaluated_at,
            # The monitor has no samples of its own: each of its evaluations is new evidence.
            n_total=round(verdict.evaluated_at.timestamp() * 1000)
            if verdict.metric.startswith(MONITOR_PREFIX)
            else verdict.n_total,
            blind=verdict.status is Status.BLIND,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, what happened if anything did, and why; ``quiet`` notifies nobody."""

    state: AlertState
    event: AlertEvent | None
    reason: Reason
    quiet: bool = False

    def with_state(self, state: AlertState) -> Self:
        """Return the same decision with another next state."""
        return replace(self, state=state)


def step(state: AlertState, observation: Observation, now: datetime, timers: Timers) -> Decision:
    """
    Decide what one more evaluation changes.

    An observation that is not newer than the last one changes nothing, so that a
    replay is harmless. Uncertain evidence only lets time pass, though a monitor that
    does not see goes on reminding of what is critical, and what fires without any data
    for a day is closed as expired. What was judged on another basis is closed as
    superseded, and everything starts over.
    """
    decision = suppress_flapping(state, _step(state, observation, now, timers), timers)
    after = decision.state
    if (after.phase, after.level) == (state.phase, state.level):
        return decision
    return decision.with_state(after.but(reason=decision.reason))


def _step(state: AlertState, observation: Observation, now: datetime, timers: Timers) -> Decision:
    # A clock ahead of ours must not make every later observation look old.
    at = min(observation.at, now)
    gap = timedelta(seconds=timers.max_gap_s)
    # Evaluations paused for too long, or the clock was set back.
    interrupted = state.seen_at is not None and (
        at - state.seen_at > gap or state.seen_at - now > gap
    )
    if state.seen_at is not None and at <= state.seen_at and not interrupted:
        return Decision(state, None, Reason.NOT_NEWER)
    if interrupted:
        state = _without_runs(state)
    before, basis = state.basis, observation.basis
    if before is not None and basis is not None and before != basis:
        if state.phase in _OPEN or state.quiet_since is not None:
            # End what fires on a basis that has changed; that is not a recovery.
            closed = _restarted(_resolved(state, at)).but(
                phase_since=at, seen_at=at, basis=observation.basis
            )
            return Decision(closed, AlertEvent.RESOLVED, Reason.SUPERSEDED)
        state = _restarted(state)
    state = state.but(basis=observation.basis or state.basis)
    if observation.evidence is Evidence.UNCERTAIN:
        return _on_uncertain(state, observation, at, timers)
    evidence = observation.evidence
    is_new = observation.n_total != (state.seen_n_total or 0)
    run = partial(EvidenceRun.after, at=at, is_new=is_new)
    noted = state.but(
        seen_at=at,
        seen_n_total=observation.n_total,
        seen=evidence,
        bad=run(state.bad, evidence is not Evidence.HEALTHY),
        critical=run(state.critical, evidence is Evidence.CRITICAL),
        not_critical=run(state.not_critical, evidence is not Evidence.CRITICAL),
        healthy=run(state.healthy, evidence is Evidence.HEALTHY),
        stale_since=None,
        no_data_since=None,
    )
    if evidence is Evidence.HEALTHY:
        return _on_healthy(noted, at, timers)
    if noted.phase in {Phase.OK, Phase.PENDING}:
        return _toward_firing(noted, state.seen, at, timers)
    return _while_firing(noted, at, timers)


def _held(run: EvidenceRun | None, for_s: float, at: datetime, timers: Timers) -> bool:
    if run is None:
        return False
    long_enough = at - run.since >= timedelta(seconds=for_s)
    return for_s <= 0 or (long_enough and run.informed >= timers.min_new_evaluations)


def _on_uncertain(
    state: AlertState, observation: Observation, at: datetime, timers: Timers
) -> Decision:
    if state.phase not in _OPEN:
        return Decision(state.but(seen_at=at), None, Reason.UNCERTAIN)
    state = state.but(
        seen_at=at,
        stale_since=state.stale_since or at,
        # While the monitor does not see, it is unknown whether there are data.
        no_data_since=None if observation.blind else state.no_data_since or at,
    )
    is_critical = state.phase is Phase.FIRING and state.level is Severity.CRITICAL
    if observation.blind and is_critical and _repeat_due(state, at, timers):
        return Decision(_notified(state, at), AlertEvent.REPEATED, Reason.NO_NEWS_STILL_FIRING)
    abandon_after = timedelta(seconds=timers.abandon_after_s)
    if state.no_data_since is not None and at - state.no_data_since >= abandon_after:
        expired = _without_runs(_resolved(state, at))
        return Decision(expired, AlertEvent.RESOLVED, Reason.EXPIRED_NO_DATA)
    return Decision(state, None, Reason.UNCERTAIN)


def _on_healthy(state: AlertState, at: datetime, timers: Timers) -> Decision:
    if state.phase is Phase.OK:
        return Decision(state, None, Reason.STILL_HEALTHY)
    if state.phase is Phase.PENDING:
        cleared = state.but(phase=Phase.OK, phase_since=at, level=None, status_before=None)
        return Decision(cleared, None, Reason.CLEARED_WHILE_PENDING)
    if _held(state.healthy, timers.resolve_after_s, at, timers):
        return Decision(_resolved(state, at), AlertEvent.RESOLVED, Reason.HEALTHY_HELD)
    if state.phase is Phase.FIRING:
        state = state.but(phase=Phase.RECOVERING, phase_since=at)
    return Decision(state, None, Reason.RECOVERING)


def _toward_firing(
    state: AlertState, before: Evidence | None, at: datetime, timers: Timers
) -> Decision:
    if state.phase is Phase.OK:
        state = state.but(phase=Phase.PENDING, phase_since=at, status_before=before)
    seen = Severity.CRITICAL if state.seen is Evidence.CRITICAL else Severity.WARNING
    level: Severity | None = None
    if seen is Severity.CRITICAL and _held(state.critical, timers.critical_for_s, at, timers):
        level = seen
    # What is about to fire as critical waits for that, unless a warning fires sooner.
    elif seen is Severity.WARNING or timers.critical_for_s > timers.warning_for_s:
        level = Severity.WARNING if _held(state.bad, timers.warning_for_s, at, timers) else None
    if level is None:
        return Decision(state.but(level=seen), None, Reason.PENDING)
    reopen_within = timedelta(seconds=timers.reopen_within_s)
    again = state.resolved_at is not None and at - state.resolved_at <= reopen_within
    if not again:
        # An id made of key and time, so that a replay gives the same.
        text = "\0".join((*map(str, state.key), at.isoformat()))
        incident_id = hashlib.sha256(text.encode()).hexdigest()[:16]
        state = state.but(incident_id=incident_id, sequence=0, last_notified_at=None)
    assert state.bad is not None
    opened = state.but(
        phase=Phase.FIRING,
        phase_since=at,
        level=level,
        peak=level,
        breach_since=state.bad.since,
        opened_at=at,
        resolved_at=None,
    )
    reason = Reason.REOPENED if again else Reason.BREACH_HELD
    return Decision(_notified(opened, at), AlertEvent.FIRED, reason)


def _while_firing(state: AlertState, at: datetime, timers: Timers) -> Decision:
    relapsed = state.phase is Phase.RECOVERING
    if relapsed:
        state = state.but(phase=Phase.FIRING, phase_since=at)
    if state.level is Severity.WARNING:
        if _held(state.critical, timers.critical_for_s, at, timers):
            worse = _notified(state, at).but(level=Severity.CRITICAL, peak=Severity.CRITICAL)
            return Decision(worse, AlertEvent.ESCALATED, Reason.CRITICAL_HELD)
        if _repeat_due(state, at, timers):
            return Decision(_notified(state, at), AlertEvent.REPEATED, Reason.REPEAT_DUE)
    elif _held(state.not_critical, timers.resolve_after_s, at, timers):
        better = state.but(level=Severity.WARNING, sequence=state.sequence + 1)
        return Decision(better, AlertEvent.DEESCALATED, Reason.CRITICAL_CLEARED)
    elif _repeat_due(state, at, timers):
        return Decision(_notified(state, at), AlertEvent.REPEATED, Reason.REPEAT_DUE)
    return Decision(state, None, Reason.RELAPSED if relapsed else Reason.STILL_FIRING)


def _repeat_due(state: AlertState, at: datetime, timers: Timers) -> bool:
    """Return whether to remind people; of a critical only while the evidence says critical."""
    assert state.last_notified_at is not None
    critical = state.level is Severity.CRITICAL
    if critical and state.seen is not Evidence.CRITICAL:
        return False
    return at - state.last_notified_at >= timers.repeat_after(state.level)


def _notified(state: AlertState, at: datetime) -> AlertState:
    return state.but(sequence=state.sequence + 1, last_notified_at=at)


def _resolved(state: AlertState, at: datetime) -> AlertState:
    return _notified(state, at).but(phase=Phase.OK, phase_since=at, resolved_at=at)


def _restarted(state: AlertState) -> AlertState:
    """Drop what was seen on another basis; what it ended is not reopened either."""
    state = _without_runs(state).but(seen=None, seen_n_total=None, resolved_at=None)
    if state.phase is Phase.PENDING:
        state = state.but(phase=Phase.OK, level=None, status_before=None)
    return state


def close(state: AlertState, now: datetime, timers: Timers) -> Decision:
    """End an incident that is not evaluated any more; that is not a recovery."""
    reason = Reason.NO_LONGER_EVALUATED
    closed = _without_runs(_resolved(state, now)).but(reason=reason, seen=None, seen_at=now)
    return suppress_flapping(state, Decision(closed, AlertEvent.RESOLVED, reason), timers)


def _without_runs(state: AlertState) -> AlertState:
    return state.but(
        bad=None,
        critical=None,
        not_critical=None,
        healthy=None,
        stale_since=None,
        no_data_since=None,
    )


def suppress_flapping(before: AlertState, decision: Decision, timers: Timers) -> Decision:
    """Decide whether people are notified of *decision*, the step that led on from *before*."""
    at = decision.state.seen_at
    if at is None or decision.event is AlertEvent.DEESCALATED:
        return decision
    if decision.event is None:
        return _settled(decision, at, timers)
    if before.quiet_since is None:
        # Only what was closed while it flapped can have used up the day so far.
        is_full = _messages_within_a_day(before, at) >= MOST_A_DAY
        state = decision.state if is_full else _noted(before, decision, at)
        flaps = len(state.onsets) >= FLAPPING_ONSETS or len(state.told) >= _FLAPPING_MESSAGES
        if flaps and decision.event is not AlertEvent.RESOLVED:
            known = {message.level for message in state.told}
            state = state.but(
                quiet_since=at,
                quiet_peak=Severity.CRITICAL if Severity.CRITICAL in known else Severity.WARNING,
                quiet_onsets=len(state.onsets),
            )
        return replace(decision, state=state, quiet=is_full)
    return _quiet(before, decision, at)


def _messages_within_a_day(state: AlertState, at: datetime) -> int:
    return sum(at - message.at < _DAY for message in state.told)


def _quiet(before: AlertState, decision: Decision, at: datetime) -> Decision:
    state, onset = decision.state, _is_onset(before, decision)
    decision = decision.with_state(state.but(quiet_onsets=state.quiet_onsets + onset))
    if _messages_within_a_day(before, at) >= MOST_A_DAY:
        return replace(decision, quiet=True)
    day_is_over = not before.told or at - before.told[-1].at >= _DAY
    daily_reminder = decision.event is AlertEvent.REPEATED and day_is_over
    if decision.reason in CLOSED or daily_reminder:
        return decision.with_state(_at_rest(_noted(before, decision, at)))
    worse = state.level is Severity.CRITICAL and before.quiet_peak is Severity.WARNING
    if worse and decision.event in {AlertEvent.FIRED, AlertEvent.ESCALATED}:
        noted = _noted(before, decision, at)
        return decision.with_state(noted.but(quiet_peak=Severity.CRITICAL))
    return replace(decision, quiet=True)


def _settled(decision: Decision, at: datetime, timers: Timers) -> Decision:
    """End the quiet once all was well for long, unless that would be one message too many."""
    state = decision.state
    if state.quiet_since is None or state.phase is not Phase.OK or state.healthy is None:
        return decision
    calm = at - state.healthy.since >= timedelta(seconds=timers.settle_after_s)
    recent = [message for message in state.told if at - message.at < _DAY]
    healthy_now = state.seen is Evidence.HEALTHY and decision.reason is Reason.STILL_HEALTHY
    # The next thing that happens must find room in the day as well.
    if not calm or not healthy_now or len(recent) > MOST_A_DAY - 2:
        return decision
    message = SentMessage(at=at, level=state.peak or Severity.WARNING)
    settled = _at_rest(state).but(
        sequence=state.sequence + 1, last_notified_at=at, told=(*recent, message)
    )
    # How often it began stays for the message; the next quiet counts again.
    return Decision(settled, AlertEvent.SETTLED, Reason.STABLE_AGAIN)


def _noted(before: AlertState, decision: Decision, at: datetime) -> AlertState:
    """Record that people are notified of this."""
    state = decision.state
    assert state.peak is not None
    onsets = tuple(moment for moment in before.onsets if at - moment < _DAY)
    recent = tuple(message for message in before.told if at - message.at < _DAY)
    return state.but(
        onsets=(*onsets, at) if _is_onset(before, decision) else onsets,
        told=(*recent, SentMessage(at=at, level=state.peak)),
    )


def _is_onset(before: AlertState, decision: Decision) -> bool:
    """Return whether something begins: an incident, or its critical part once more."""
    again = decision.event is AlertEvent.ESCALATED and before.peak is Severity.CRITICAL
    return again or decision.event is AlertEvent.FIRED


def _at_rest(state: AlertState) -> AlertState:
    return state.but(quiet_since=None, quiet_peak=None, onsets=())
