"""What people hear of an alert that flaps: ten messages in any day at most, and all that is new."""

import random
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.model import AlertKey, AlertState, Evidence, JudgedBy, Phase
from alerts.state import Observation, Timers, step
from monitor.models.alerting import AlertEvent

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
#: The last is healthy by another evaluator than the one before.
LETTERS = dict(
    zip("hwcus", ("healthy", "warning", "critical", "uncertain", "healthy"), strict=True)
)
PLANTED = tomllib.loads(Path(__file__).with_name("planted_bugs.toml").read_text("utf-8"))[
    "flapping"
]
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
                st.sampled_from("hhwccus"),
                st.sampled_from([1, 1, 2, 3, 8]),
                st.sampled_from([10, 60, 250, 500]),
            ),
            min_size=5,
            max_size=60,
        )
    )
    return [(letter, minutes) for letter, length, minutes in runs for _ in range(length)]


def run(history, timers=TIMERS, state=None, at=START, step=step):
    """Feed the machine; return its last state, and the events as (time, event, level, quiet)."""
    state, events = state or AlertState(key=AlertKey("app", "metric", "*", 60)), []
    by = 0 if state.basis is None else int(state.basis.evaluator)
    for letter, minutes in history:
        at += timedelta(minutes=minutes)
        by += letter == "s"
        observation = Observation(
            evidence=Evidence(LETTERS[letter]),
            at=at,
            n_total=int(at.timestamp()),
            basis=JudgedBy(evaluator=str(by)),
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


@settings(max_examples=150, deadline=None)
@given(days(), repeats, abandons)
def test_at_most_ten_messages_in_any_day(history, repeat_after_s, abandon_after_s):
    timers = replace(TIMERS, repeat_after_s=repeat_after_s, abandon_after_s=abandon_after_s)
    assert most_in_a_day(run(history, timers)[1]) <= 10


@settings(deadline=None)
@given(days())
def test_severity_unreported_for_a_day_is_sent(history):
    _, events, _ = run(history)
    for place, (at, event, level, quiet) in enumerate(events):
        if event in {AlertEvent.FIRED, AlertEvent.ESCALATED} and level == "critical" and quiet:
            recent = [e for e in told(events[:place]) if at - e[0] < DAY]
            quiet_began = max((e[0] for e in told(events[:place])), default=at)
            before = [e for e in told(events[:place]) if quiet_began - e[0] < DAY]
            assert any(e[2] == "critical" for e in before) or len(recent) >= 10


@settings(deadline=None)
@given(days())
def test_end_of_flapping_is_always_sent(history):
    state, _, at = run(history)
    calm = [("h", 60)] * 60
    state, events, _ = run(calm, state=state, at=at)
    assert (state.phase, state.quiet_since) == (Phase.OK, None)
    if run(history)[0].quiet_since:
        assert told(events)[-1][1] is AlertEvent.SETTLED


@settings(deadline=None)
@given(days())
def test_lasting_alert_is_sent_at_least_once_a_day(history):
    state, _, at = run(history)
    _, events, end = run([("c", 60)] * 72, state=state, at=at)
    times = [event[0] for event in told(events)]
    assert sum(end - time <= timedelta(hours=30) for time in times) >= 1


class Oracle:
    """What people should hear when every timer is 0, from the rules as they are written down."""

    def __init__(self, timers):
        self.timers, self.at = timers, START
        self.level = self.peak = self.no_data = self.healthy = self.last_event = None
        self.told, self.onsets, self.quiet, self.known = [], [], False, None

    def feed(self, letter, minutes):
        """Give what people hear of one evaluation, or None."""
        self.at += timedelta(minutes=minutes)
        before = self.peak
        event = self._superseded() if letter == "s" and (self.level or self.quiet) else None
        event = event or self._event(letter)
        if event is None:
            return self._settled(letter)
        if event == "deescalated":
            return None
        self.last_event = self.at
        return event if self._hears(event, before) else None

    def _superseded(self):
        self.level = self.no_data = self.healthy = None
        return "closed"

    def _event(self, letter):
        if letter == "u":
            return self._without_data()
        self.no_data = None
        if letter in "hs":
            # Another evaluator's good news starts over.
            self.healthy = self.at if letter == "s" else self.healthy or self.at
            self.level, was = None, self.level
            return "resolved" if was else None
        self.healthy, was, self.level = None, self.level, letter
        if was is None:
            self.peak = letter
            return "fired"
        if was != letter:
            self.peak = "c"
            return "escalated" if letter == "c" else "deescalated"
        every_s = self.timers.repeat_after_s if was == "c" else self.timers.warning_repeat_after_s
        return "repeated" if self._since(self.last_event) >= timedelta(seconds=every_s) else None

    def _without_data(self):
        if self.level is None:
            return None
        self.no_data = self.no_data or self.at
        if self._since(self.no_data) < timedelta(seconds=self.timers.abandon_after_s):
            return None
        self.level = self.no_data = self.healthy = None
        return "closed"

    def _since(self, moment):
        return self.at - moment

    def _today(self, moments):
        return [each for each in moments if self._since(each[0]) < DAY]

    def _settled(self, letter):
        calm = self.quiet and letter in "hs" and self._since(self.healthy) >= timedelta(hours=8)
        if not calm or len(self._today(self.told)) > 8:
            return None
        self.told = [*self._today(self.told), (self.at, self.peak)]
        self.quiet, self.onsets, self.last_event = False, [], self.at
        return "settled"

    def _hears(self, event, peak_before):
        full = len(self._today(self.told)) >= 10
        heard = not full and (not self.quiet or self._hears_while_quiet(event))
        if heard:
            again = event == "escalated" and peak_before == "c"
            onset = [(self.at,)] if event == "fired" or again else []
            self.told = [*self._today(self.told), (self.at, self.peak)]
            self.onsets = [*self._today(self.onsets), *onset]
        if self.quiet:
            if heard and event in {"closed", "repeated"}:
                self.quiet, self.onsets = False, []
            elif heard:
                self.known = "c"
        elif event not in {"resolved", "closed"} and (
            full or len(self.onsets) >= 4 or len(self.told) >= 9
        ):
            self.quiet, self.known = True, max((peak for _, peak in self.told), key="wc".index)
        return heard

    def _hears_while_quiet(self, event):
        if event == "repeated":
            return not self.told or self._since(self.told[-1][0]) >= DAY
        worse = self.level == "c" and self.known == "w"
        return event == "closed" or (worse and event in {"fired", "escalated"})


def expected(history, timers):
    """List what people should hear, and when."""
    oracle, heard = Oracle(timers), []
    for letter, minutes in history:
        event = oracle.feed(letter, minutes)
        if event:
            heard.append((oracle.at, "resolved" if event == "closed" else event))
    return heard


def heard(history, timers, step=step):
    return [(at, event.value) for at, event, _, _ in told(run(history, timers, step=step)[1])]


@settings(max_examples=100, deadline=None)
@given(days(), repeats, abandons)
def test_messages_follow_the_rules(history, repeat_after_s, abandon_after_s):
    timers = replace(TIMERS, repeat_after_s=repeat_after_s, abandon_after_s=abandon_after_s)
    assert heard(history, timers) == expected(history, timers)


def some_days(rng):
    """Draw evidence as `days` does, mostly of an alert that flaps."""
    letters = rng.choice(["hw", "hc", "hwc", "wc", "hwcu", "hwcs", "cs", "wu", "hhwccus"])
    history = [("w", 10), ("h", 10)] * rng.choice([0, 0, 4])
    for _ in range(rng.randint(10, 70)):
        letter, minutes = rng.choice(letters), rng.choice([10, 10, 60, 60, 250, 500])
        history += [(letter, minutes)] * rng.choice([1, 1, 1, 2, 3, 8])
    return history


def some_timers(rng):
    return replace(
        TIMERS,
        repeat_after_s=rng.choice([600, 3600, 14_400]),
        abandon_after_s=rng.choice([7_200, 86_400]),
    )


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug, plant):
    planted = plant("alerts.state", *PLANTED[bug])
    step, rng = (
        plant("alerts.state", suppress_flapping=planted.suppress_flapping).step,
        random.Random(7),
    )
    for _ in range(400):
        history, timers = some_days(rng), some_timers(rng)
        if heard(history, timers, step) != expected(history, timers):
            return
    pytest.fail("nobody noticed")


def test_oracle_accepts_the_correct_implementation():
    rng = random.Random(7)
    for _ in range(150):
        history, timers = some_days(rng), some_timers(rng)
        assert heard(history, timers) == expected(history, timers)
