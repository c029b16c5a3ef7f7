"""
Leave people in peace while an alert flaps: one mechanism, at most ten messages a day; pure.

The state machine goes on as always and every event enters the timeline; this decides
which of them people hear of. The message that begins the quiet says so; a level that
nobody knows of yet is told nevertheless, and so is the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from alerts.evidence import Evidence, Timers
from alerts.memory import CLOSED, AlertState, Phase, Reason, Told
from monitor.models.alerting import AlertEvent, Level

#: The most messages that people get of one alert in any day.
MOST_A_DAY = 10
#: The alert is flapping when it begins as often in a day, or when this many messages went out.
FLAPPING_ONSETS = 4
_FLAPPING_MESSAGES = 9
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, what happened if anything did, and why; and whether people hear of it."""

    state: AlertState
    event: AlertEvent | None
    reason: Reason
    quiet: bool = False

    def with_state(self, state: AlertState) -> Self:
        """Give the same decision with another next state."""
        return replace(self, state=state)


def in_peace(before: AlertState, decision: Decision, timers: Timers) -> Decision:
    """Decide whether people hear of *decision*, the step that led on from *before*."""
    at = decision.state.seen_at
    if at is None or decision.event is AlertEvent.DEESCALATED:
        return decision
    if decision.event is None:
        return _settled(decision, at, timers)
    if before.quiet_since is None:
        return _loud(before, decision, at)
    return _quiet(before, decision, at)


def _loud(before: AlertState, decision: Decision, at: datetime) -> Decision:
    # Only what was closed while it flapped can have used up the day so far.
    is_full = _told_within_a_day(before, at) >= MOST_A_DAY
    state = decision.state if is_full else _noted(before, decision, at)
    flaps = len(state.onsets) >= FLAPPING_ONSETS or len(state.told) >= _FLAPPING_MESSAGES
    if flaps and decision.event is not AlertEvent.RESOLVED:
        known = {told.level for told in state.told}
        state = state.but(
            quiet_since=at,
            quiet_peak=Level.CRITICAL if Level.CRITICAL in known else Level.WARNING,
            quiet_onsets=len(state.onsets),
        )
    return replace(decision, state=state, quiet=is_full)


def _told_within_a_day(state: AlertState, at: datetime) -> int:
    return sum(at - told.at < _DAY for told in state.told)


def _quiet(before: AlertState, decision: Decision, at: datetime) -> Decision:
    state = decision.state
    onset = _is_onset(before, decision)
    decision = decision.with_state(state.but(quiet_onsets=state.quiet_onsets + onset))
    if _told_within_a_day(before, at) >= MOST_A_DAY:
        return replace(decision, quiet=True)
    if decision.reason in CLOSED or _is_daily_reminder(before, decision, at):
        return decision.with_state(_at_rest(_noted(before, decision, at)))
    worse = state.level is Level.CRITICAL and before.quiet_peak is Level.WARNING
    if worse and decision.event in {AlertEvent.FIRED, AlertEvent.ESCALATED}:
        told = _noted(before, decision, at)
        return decision.with_state(told.but(quiet_peak=Level.CRITICAL))
    return replace(decision, quiet=True)


def _settled(decision: Decision, at: datetime, timers: Timers) -> Decision:
    """End the quiet once all was well for long, unless that would be one message too many."""
    state = decision.state
    if state.quiet_since is None or state.phase is not Phase.OK or state.healthy is None:
        return decision
    calm = at - state.healthy.since >= timedelta(seconds=timers.settle_after_s)
    recent = [told for told in state.told if at - told.at < _DAY]
    healthy_now = state.seen is Evidence.HEALTHY and decision.reason is Reason.STILL_HEALTHY
    # The next thing that happens must find room in the day as well.
    if not calm or not healthy_now or len(recent) > MOST_A_DAY - 2:
        return decision
    told = Told(at=at, level=state.peak or Level.WARNING)
    settled = _at_rest(state).but(
        sequence=state.sequence + 1, last_notified_at=at, told=(*recent, told)
    )
    # How often it began stays for the message; the next quiet counts anew.
    return Decision(settled, AlertEvent.SETTLED, Reason.STABLE_AGAIN)


def _noted(before: AlertState, decision: Decision, at: datetime) -> AlertState:
    """Note that people hear of this."""
    state = decision.state
    assert state.peak is not None
    onsets = tuple(moment for moment in before.onsets if at - moment < _DAY)
    told = tuple(told for told in before.told if at - told.at < _DAY)
    return state.but(
        onsets=(*onsets, at) if _is_onset(before, decision) else onsets,
        told=(*told, Told(at=at, level=state.peak)),
    )


def _is_onset(before: AlertState, decision: Decision) -> bool:
    """Say whether something begins: an incident, or its critical part once more."""
    again = decision.event is AlertEvent.ESCALATED and before.peak is Level.CRITICAL
    return again or decision.event is AlertEvent.FIRED


def _is_daily_reminder(before: AlertState, decision: Decision, at: datetime) -> bool:
    if decision.event is not AlertEvent.REPEATED:
        return False
    return not before.told or at - before.told[-1].at >= _DAY


def _at_rest(state: AlertState) -> AlertState:
    return state.but(quiet_since=None, quiet_peak=None, onsets=())
