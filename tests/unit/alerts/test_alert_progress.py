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


def test_nothing_is_under_way_while_all_is_well():
    assert said("hhh") == []


def test_pending_warning_says_how_long_of_how_long():
    assert said("hwww") == [("alert as a warning", 120, 600)]


def test_pending_critical_is_the_nearer_one():
    assert said("hwcc") == [
        ("alert as critical", 60, 300), ("alert as a warning", 120, 600),
    ]  # fmt: skip


def test_recovery_says_when_it_is_resolved():
    assert said("c" * 7 + "hhh") == [("be resolved", 120, 900)]


def test_firing_warning_may_become_critical():
    assert said("w" * 12 + "cc") == [("become critical", 60, 300)]


def test_evaluations_without_new_samples_count_for_nothing():
    state, now, _ = fed("w" * 12, new=0)
    (found,) = progress(state, TIMERS, now)
    assert found.held_s >= found.for_s
    assert not found.is_due


@example("cccccwccccc")
@given(st.text("hwc", max_size=40))
def test_what_is_due_has_happened(letters):
    state, now, _ = fed(letters)
    assert not [item for item in progress(state, TIMERS, now) if item.is_due]


def test_reminder_comes_when_it_was_said():
    state, now, _ = fed("c" * 7)
    due = next_reminder(state, TIMERS)
    later = Observation(evidence=Evidence.CRITICAL, at=due, n_total=10**6)
    patient = Timers(
        warning_for_s=600, critical_for_s=300, resolve_after_s=900, repeat_after_s=14_400,
        max_gap_s=10**6,
    )  # fmt: skip
    assert step(state, later, due, patient).event is AlertEvent.REPEATED
    assert due > now


def test_nothing_reminds_of_what_is_well():
    state, _, _ = fed("hhh")
    assert (state.phase, next_reminder(state, TIMERS)) == (Phase.OK, None)
