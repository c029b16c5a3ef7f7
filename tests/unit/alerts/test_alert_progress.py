"""How far an alert has come: what the state machine does next is what was said."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from alerts.backtest import next_reminder, progress
from alerts.model import AlertKey, AlertState, Evidence, Phase
from alerts.state import Observation, Timers, step
from monitor.models.alerting import AlertEvent

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = AlertKey("support-bot", "groundedness", "*", 3600)
TIMERS = Timers(warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400)
LETTERS = {"h": Evidence.HEALTHY, "w": Evidence.WARNING, "c": Evidence.CRITICAL}


def fed(letters, timers=TIMERS, new=10):
    """Feed an evaluation a minute; give the state, the time, and the events."""
    state, now, n, events = AlertState(key=KEY), START, 0, []
    for letter in letters:
        now, n = now + timedelta(minutes=1), n + new
        observation = Observation(evidence=LETTERS[letter], at=now, n_total=n)
        found = step(state, observation, now, timers)
        state, events = found.state, [*events, found.event]
    return state, now, events


def said(letters, **options):
    state, now, _ = fed(letters, **options)
    return [(item.then, item.held_s, item.for_s) for item in progress(state, TIMERS, now)]


def test_healthy_alert_has_nothing_pending():
    assert said("hhh") == []


def test_pending_warning_shows_elapsed_and_required_time():
    assert said("hwww") == [("alert as a warning", 120, 600)]


def test_pending_critical_is_listed_before_the_warning():
    assert said("hwcc") == [
        ("alert as critical", 60, 300), ("alert as a warning", 120, 600),
    ]  # fmt: skip


def test_recovery_shows_when_it_resolves():
    assert said("c" * 7 + "hhh") == [("be resolved", 120, 900)]


def test_firing_warning_shows_its_pending_escalation():
    assert said("w" * 12 + "cc") == [("become critical", 60, 300)]


def test_evaluations_without_new_samples_do_not_make_an_alert_due():
    state, now, _ = fed("w" * 12, new=0)
    (found,) = progress(state, TIMERS, now)
    assert found.held_s >= found.for_s
    assert not found.is_due


@example("cccccwccccc")
@given(st.text("hwc", max_size=40))
def test_no_due_transition_is_left_pending(letters):
    state, now, _ = fed(letters)
    assert not [item for item in progress(state, TIMERS, now) if item.is_due]


def test_reminder_is_sent_at_its_announced_time():
    state, now, _ = fed("c" * 7)
    due = next_reminder(state, TIMERS)
    later = Observation(evidence=Evidence.CRITICAL, at=due, n_total=10**6)
    patient = Timers(
        warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400,
        max_gap_s=10**6,
    )  # fmt: skip
    assert step(state, later, due, patient).event is AlertEvent.REPEATED
    assert due > now


def test_healthy_alert_has_no_reminder():
    state, _, _ = fed("hhh")
    assert (state.phase, next_reminder(state, TIMERS)) == (Phase.OK, None)
