"""What holds for every history of evidence; the oracle looks at whole histories, not at states."""

import random
import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.model import AlertKey, AlertState, Evidence, JudgedBy, Phase, Reason
from alerts.state import Observation, Timers, step

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = AlertKey("app", "metric", "*", 60)
GAP_S = 300


@dataclass(frozen=True)
class Seen:
    """One evaluation: a letter (h, w, c, u), seconds since the start, samples so far, by whom."""

    letter: str
    at_s: int
    n_total: int
    evaluator: str = "v1"


@st.composite
def histories(draw):
    """Evidence in runs, as it comes in life; uniform noise would hardly ever fire."""
    runs = draw(
        st.lists(
            st.tuples(
                st.sampled_from("hhwwccu"),
                st.integers(1, 15),
                st.sampled_from([20, 60, 60, 60, 299, 301, 2000]),
                st.sampled_from([0, 1, 5]),
                st.sampled_from(["v1", "v1", "v1", "v2"]),
            ),
            min_size=1,
            max_size=14,
        )
    )
    history, at_s, n_total = [], 0, 0
    for letter, length, every_s, new, evaluator in runs:
        for place in range(length):
            # A long pause only in front of a run, or nothing would ever hold.
            at_s += every_s if place == 0 else min(every_s, 60)
            n_total += new
            history.append(Seen(letter, at_s, n_total, evaluator))
    return history


timers_of_any_length = st.builds(
    Timers,
    warning_for_s=st.sampled_from([0, 120, 600]),
    critical_for_s=st.sampled_from([0, 60, 300, 900]),
    resolve_after_s=st.sampled_from([0, 120, 900]),
    repeat_after_s=st.sampled_from([240, 1800]),
    warning_repeat_after_s=st.sampled_from([300, 3600]),
    abandon_after_s=st.sampled_from([600, 86_400]),
    reopen_within_s=st.sampled_from([0, 600, 1800]),
    min_new_evaluations=st.sampled_from([1, 2, 3]),
    max_gap_s=st.just(float(GAP_S)),
)
#: What the oracle calls events that end or begin in a way of their own.
NAMES = {Reason.REOPENED: "reopened", Reason.SUPERSEDED: "superseded"}
LETTERS = dict(zip("hwcu", ("healthy", "warning", "critical", "uncertain"), strict=True))


def run(history, timers, *, through_json=False, step=step):
    """Feed the machine; return the states and the events as (seconds, name)."""
    state, states, events = AlertState(key=KEY), [], []
    for seen in history:
        at = START + timedelta(seconds=seen.at_s)
        evidence = Evidence(LETTERS[seen.letter])
        observation = Observation(
            evidence=evidence,
            at=at,
            n_total=seen.n_total,
            basis=JudgedBy(evaluator=seen.evaluator),
        )
        decision = step(state, observation, at, timers)
        # Flapping has an oracle of its own.
        state = decision.state.but(quiet_since=None, onsets=(), told=())
        if through_json:
            state = AlertState.model_validate_json(state.model_dump_json())
        states.append(state)
        if decision.event:
            events.append((seen.at_s, NAMES.get(decision.reason, decision.event.value)))
    return states, events


def has_held(past, letters, for_s, timers):
    """Look back from the last evaluation: how long has it been one of these letters?"""
    if past[-1].letter not in letters:
        return False
    if for_s == 0:
        return True
    since_s, informed = past[-1].at_s, 0
    for place in range(len(past) - 1, -1, -1):
        seen = past[place]
        if seen.letter != "u":
            if seen.letter not in letters:
                break
            since_s = seen.at_s
            before = [
                other for other in same_evaluator(past[:place], seen) if other.letter in "hwc"
            ]
            informed += seen.n_total != (before[-1].n_total if before else 0)
        if place and seen.at_s - past[place - 1].at_s > GAP_S:
            break
        if place and seen.evaluator != past[place - 1].evaluator:
            break
    return past[-1].at_s - since_s >= for_s and informed >= timers.min_new_evaluations


def same_evaluator(past, seen):
    """Take the last evaluations, as far as *seen*'s evaluator made all of them."""
    others = [place for place, other in enumerate(past) if other.evaluator != seen.evaluator]
    return past[others[-1] + 1 :] if others else past


def has_had_no_data(past, timers):
    """Look back over uncertain evaluations, as far as no pause interrupts them."""
    since_s = past[-1].at_s
    for before, seen in zip(reversed(past[:-1]), reversed(past), strict=False):
        if before.letter != "u" or seen.at_s - before.at_s > GAP_S:
            break
        since_s = before.at_s
    return past[-1].at_s - since_s >= timers.abandon_after_s


def expected_events(history, timers):
    """What people should have been told, from the rules as they are written down."""
    events, level, told_s, over_s = [], None, 0, None
    history = list(history)
    for place, seen in enumerate(history):
        past = history[: place + 1]
        if place and seen.evaluator != history[place - 1].evaluator:
            over_s = None
            if level:
                events.append((seen.at_s, "superseded"))
                level, history[place] = None, replace(seen, letter="s")
                continue
        if seen.letter == "u":
            event = "resolved" if level and has_had_no_data(past, timers) else None
            # All timers start again, as after a pause.
            history[place] = replace(seen, letter="x") if event else seen
        elif level is None:
            event, level = at_rest(past, timers)
            soon = over_s is not None and seen.at_s - over_s <= timers.reopen_within_s
            event = "reopened" if event and soon else event
        else:
            event, level = in_trouble(past, level, seen.at_s - told_s, timers)
        if event == "resolved":
            level, over_s = None, seen.at_s
        if event:
            events.append((seen.at_s, event))
            told_s = told_s if event == "deescalated" else seen.at_s
    return events


def at_rest(past, timers):
    """Say what a bad evaluation means when nothing fires."""
    if past[-1].letter == "c" and has_held(past, "c", timers.critical_for_s, timers):
        return "fired", "c"
    may_warn = past[-1].letter == "w" or timers.critical_for_s > timers.warning_for_s
    if may_warn and has_held(past, "wc", timers.warning_for_s, timers):
        return "fired", "w"
    return None, None


def in_trouble(past, level, since_told_s, timers):
    """Say what one more evaluation with data means when something fires."""
    if past[-1].letter == "h":
        return ("resolved" if has_held(past, "h", timers.resolve_after_s, timers) else None), level
    if level == "w":
        if has_held(past, "c", timers.critical_for_s, timers):
            return "escalated", "c"
        return ("repeated" if since_told_s >= timers.warning_repeat_after_s else None), "w"
    if has_held(past, "hw", timers.resolve_after_s, timers):
        return "deescalated", "w"
    may_repeat = since_told_s >= timers.repeat_after_s and past[-1].letter == "c"
    return ("repeated" if may_repeat else None), "c"


@settings(max_examples=300, deadline=None)
@given(histories(), timers_of_any_length)
def test_alert_events_follow_the_rules(history, timers):
    assert run(history, timers)[1] == expected_events(history, timers)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_fired_and_resolved_alternate(history, timers):
    same = {"reopened": "fired", "superseded": "resolved"}
    events = [same.get(event, event) for _, event in run(history, timers)[1]]
    ends = [event for event in events if event in {"fired", "resolved"}]
    assert ends == (["fired", "resolved"] * len(ends))[: len(ends)]


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_incident_sequence_numbers_have_no_gaps(history, timers):
    assert numbers_are_whole(run(history, timers)[0])


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_no_severity_is_repeated_before_its_interval(history, timers):
    told_s = None
    for at_s, event in run(history, timers)[1]:
        if event == "repeated":
            every_s = min(timers.repeat_after_s, timers.warning_repeat_after_s)
            assert at_s - told_s >= every_s
        if event != "deescalated":
            told_s = at_s


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_state_survives_storage_after_any_step(history, timers):
    assert run(history, timers) == run(history, timers, through_json=True)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_replaying_every_verdict_changes_nothing(history, timers):
    twice = [seen for seen in history for _ in range(2)]
    assert run(twice, timers)[1] == run(history, timers)[1]


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_uncertain_evidence_never_emits_an_event(history, timers):
    timers = replace(timers, abandon_after_s=10**6)
    history = [replace(seen, evaluator="v1") for seen in history]
    states, events = run(history, timers)
    told = {at_s for at_s, _ in events}
    for before, after, seen in zip(states, states[1:], history[1:], strict=False):
        if seen.letter == "u":
            assert seen.at_s not in told
            assert (before.phase, before.level) == (after.phase, after.level)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_firing_alert_always_resolves_in_the_end(history, timers):
    last = history[-1]
    by = last.evaluator
    calm = [Seen("h", last.at_s + 60 * i, last.n_total + i, by) for i in range(1, 40)]
    assert run(history + calm, timers)[0][-1].phase is Phase.OK


PLANTED = tomllib.loads(Path(__file__).with_name("planted_bugs.toml").read_text("utf-8"))["state"]


def some_history(rng):
    """Draw evidence in runs, as `histories` does, without hypothesis."""
    history, at_s, n_total = [], 0, 0
    for _ in range(rng.randint(2, 14)):
        letter, every_s = rng.choice("hhwwccu"), rng.choice([20, 60, 60, 60, 299, 301, 2000])
        new, evaluator = rng.choice([0, 1, 5]), rng.choice(["v1", "v1", "v1", "v2"])
        for place in range(rng.randint(1, 15)):
            at_s += every_s if place == 0 else min(every_s, 60)
            n_total += new
            history.append(Seen(letter, at_s, n_total, evaluator))
    return history


def some_timers(rng):
    return Timers(
        warning_for_s=rng.choice([0, 120, 600]),
        critical_for_s=rng.choice([0, 60, 300, 900]),
        resolve_after_s=rng.choice([0, 120, 900]),
        repeat_after_s=rng.choice([240, 1800]),
        warning_repeat_after_s=rng.choice([300, 3600]),
        abandon_after_s=rng.choice([600, 86_400]),
        reopen_within_s=rng.choice([0, 600, 1800]),
        min_new_evaluations=rng.choice([1, 2, 3]),
        max_gap_s=float(GAP_S),
    )


def numbers_are_whole(states):
    """Say whether the events of each incident are numbered from 1, without a gap."""
    last = {}
    for state in states:
        if state.incident_id is not None:
            before = last.get(state.incident_id, 0)
            if state.sequence - before not in {0, 1}:
                return False
            last[state.incident_id] = state.sequence
    return True


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug, plant):
    step, rng = plant("alerts.state", *PLANTED[bug]).step, random.Random(7)
    for _ in range(400):
        history, timers = some_history(rng), some_timers(rng)
        twice = [seen for seen in history for _ in range(2)]
        expected = expected_events(history, timers)
        try:
            found = [run(which, timers, step=step) for which in (history, twice)]
        except (AssertionError, ValueError):
            return
        if any(told != expected or not numbers_are_whole(states) for states, told in found):
            return
    pytest.fail("nobody noticed")


def test_oracle_accepts_the_correct_implementation():
    rng = random.Random(7)
    for _ in range(100):
        history, timers = some_history(rng), some_timers(rng)
        states, told = run(history, timers)
        assert told == expected_events(history, timers)
        assert numbers_are_whole(states)
