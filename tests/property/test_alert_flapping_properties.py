"""What people hear of an alert that flaps: ten messages in any day at most, and all that is new."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.state import AlertKey, AlertState, Evidence, Observation, Phase, Timers, step
from monitor.models.alerting import AlertEvent

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
LETTERS = dict(zip("hwcu", ("healthy", "warning", "critical", "uncertain"), strict=True))
#: Evaluations stand far apart, so that a history of days is short.
TIMERS = Timers(
    warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=14_400, max_gap_s=10**7
)


@st.composite
def days(draw):
    """Evidence in runs over several days, each run a few evaluations of some minutes."""
    runs = draw(
        st.lists(
            st.tuples(
                st.sampled_from("hhwccu"),
                st.sampled_from([1, 1, 2, 3, 8]),
                st.sampled_from([10, 60, 250, 500]),
            ),
            min_size=5,
            max_size=60,
        )
    )
    return [(letter, minutes) for letter, length, minutes in runs for _ in range(length)]


def run(history, timers=TIMERS, state=None, at=START):
    """Feed the machine; return its last state, and the events as (time, event, level, quiet)."""
    state, events = state or AlertState(key=AlertKey("app", "metric", "*", 60)), []
    for letter, minutes in history:
        at += timedelta(minutes=minutes)
        observation = Observation(
            evidence=Evidence(LETTERS[letter]), at=at, n_total=int(at.timestamp())
        )
        decision = step(state, observation, at, timers)
        state = decision.state
        if decision.event and decision.event is not AlertEvent.DEESCALATED:
            events.append((at, decision.event, state.peak, decision.quiet))
    return state, events, at


def told(events):
    return [event for event in events if not event[3]]


def most_in_a_day(events):
    times = [event[0] for event in told(events)]
    return max((sum(at <= other < at + DAY for other in times) for at in times), default=0)


repeats = st.sampled_from([600, 3600, 14_400])
abandons = st.sampled_from([7_200, 86_400])


@settings(max_examples=300, deadline=None)
@given(days(), repeats, abandons)
def test_nobody_gets_more_than_ten_messages_in_any_day(history, repeat_after_s, abandon_after_s):
    timers = replace(TIMERS, repeat_after_s=repeat_after_s, abandon_after_s=abandon_after_s)
    assert most_in_a_day(run(history, timers)[1]) <= 10


@settings(deadline=None)
@given(days())
def test_a_level_that_nobody_heard_of_for_a_day_is_told(history):
    _, events, _ = run(history)
    for place, (at, event, level, quiet) in enumerate(events):
        if event in {AlertEvent.FIRED, AlertEvent.ESCALATED} and level == "critical" and quiet:
            recent = [e for e in told(events[:place]) if at - e[0] < DAY]
            quiet_began = max((e[0] for e in told(events[:place])), default=at)
            before = [e for e in told(events[:place]) if quiet_began - e[0] < DAY]
            assert any(e[2] == "critical" for e in before) or len(recent) >= 10


@settings(deadline=None)
@given(days())
def test_the_end_of_flapping_is_always_told(history):
    state, _, at = run(history)
    calm = [("h", 60)] * 60
    state, events, _ = run(calm, state=state, at=at)
    assert (state.phase, state.quiet_since) == (Phase.OK, None)
    if run(history)[0].quiet_since:
        assert told(events)[-1][1] is AlertEvent.SETTLED


@settings(deadline=None)
@given(days())
def test_what_goes_on_for_days_is_told_at_least_once_a_day(history):
    state, _, at = run(history)
    _, events, end = run([("c", 60)] * 72, state=state, at=at)
    times = [event[0] for event in told(events)]
    assert sum(end - time <= timedelta(hours=30) for time in times) >= 1
