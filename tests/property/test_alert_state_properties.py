"""What holds for every history of evidence; the oracle looks at whole histories, not at states."""

import random
import sys
import types
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alerts.state as state_module
from alerts.state import AlertKey, AlertState, Evidence, Observation, Phase, Timers, step

START = datetime(2026, 3, 1, tzinfo=UTC)
KEY = AlertKey("app", "metric", "*", 60)
GAP_S = 300


@dataclass(frozen=True)
class Seen:
    """One evaluation: a letter (h, w, c, u), seconds since the start, samples so far."""

    letter: str
    at_s: int
    n_total: int


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
            ),
            min_size=1,
            max_size=14,
        )
    )
    history, at_s, n_total = [], 0, 0
    for letter, length, every_s, new in runs:
        for place in range(length):
            # A long pause only in front of a run, or nothing would ever hold.
            at_s += every_s if place == 0 else min(every_s, 60)
            n_total += new
            history.append(Seen(letter, at_s, n_total))
    return history


timers_of_any_length = st.builds(
    Timers,
    warning_for_s=st.sampled_from([0, 120, 600]),
    critical_for_s=st.sampled_from([0, 60, 300, 900]),
    resolve_after_s=st.sampled_from([0, 120, 900]),
    repeat_after_s=st.sampled_from([240, 1800]),
    warning_repeat_after_s=st.sampled_from([300, 3600]),
    abandon_after_s=st.sampled_from([600, 86_400]),
    min_new_evaluations=st.sampled_from([1, 2, 3]),
    max_gap_s=st.just(float(GAP_S)),
)
LETTERS = dict(zip("hwcu", ("healthy", "warning", "critical", "uncertain"), strict=True))


def run(history, timers, *, through_json=False, step=step):
    """Feed the machine; return the states and the events as (seconds, name)."""
    state, states, events = AlertState(key=KEY), [], []
    for seen in history:
        at = START + timedelta(seconds=seen.at_s)
        evidence = Evidence(LETTERS[seen.letter])
        observation = Observation(evidence=evidence, at=at, n_total=seen.n_total)
        decision = step(state, observation, at, timers)
        state = decision.state
        if through_json:
            state = AlertState.model_validate_json(state.model_dump_json())
        states.append(state)
        if decision.event:
            events.append((seen.at_s, decision.event.value))
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
            before = [other for other in past[:place] if other.letter not in "ux"]
            informed += seen.n_total != (before[-1].n_total if before else 0)
        if place and seen.at_s - past[place - 1].at_s > GAP_S:
            break
    return past[-1].at_s - since_s >= for_s and informed >= timers.min_new_evaluations


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
    events, level, told_s = [], None, 0
    history = list(history)
    for place, seen in enumerate(history):
        if seen.letter == "u":
            if level and has_had_no_data(history[: place + 1], timers):
                events.append((seen.at_s, "resolved"))
                level = None
                # All timers start again, as after a pause.
                history[place] = replace(seen, letter="x")
            continue
        past = history[: place + 1]
        if level is None:
            event, level = at_rest(past, timers)
        elif seen.letter == "h":
            event = "resolved" if has_held(past, "h", timers.resolve_after_s, timers) else None
            level = None if event else level
        else:
            every_s = timers.repeat_after_s if level == "c" else timers.warning_repeat_after_s
            may_repeat = seen.at_s - told_s >= every_s
            event, level = in_trouble(past, level, may_repeat, timers)
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


def in_trouble(past, level, may_repeat, timers):
    """Say what one more bad evaluation means when something fires."""
    if level == "w":
        worse = has_held(past, "c", timers.critical_for_s, timers)
        return ("escalated", "c") if worse else ("repeated" if may_repeat else None, "w")
    if has_held(past, "hw", timers.resolve_after_s, timers):
        return "deescalated", "w"
    return ("repeated" if may_repeat and past[-1].letter == "c" else None), "c"


@settings(max_examples=300, deadline=None)
@given(histories(), timers_of_any_length)
def test_events_are_those_of_the_rules(history, timers):
    assert run(history, timers)[1] == expected_events(history, timers)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_fired_and_resolved_take_turns(history, timers):
    ends = [event for _, event in run(history, timers)[1] if event in {"fired", "resolved"}]
    assert ends == (["fired", "resolved"] * len(ends))[: len(ends)]


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_sequences_have_no_gaps(history, timers):
    states, _ = run(history, timers)
    numbers = {}
    for state in states:
        if state.incident_id is not None:
            numbers.setdefault(state.incident_id, []).append(state.sequence)
    for sequence in numbers.values():
        assert sequence[0] == 1
        assert {b - a for a, b in pairwise(sequence)} <= {0, 1}


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_no_message_repeats_the_level_before_its_time(history, timers):
    told_s = None
    for at_s, event in run(history, timers)[1]:
        if event == "repeated":
            every_s = min(timers.repeat_after_s, timers.warning_repeat_after_s)
            assert at_s - told_s >= every_s
        if event != "deescalated":
            told_s = at_s


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_the_state_may_be_stored_anywhere_on_the_way(history, timers):
    assert run(history, timers) == run(history, timers, through_json=True)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_a_replay_of_everything_is_a_no_op(history, timers):
    twice = [seen for seen in history for _ in range(2)]
    assert run(twice, timers)[1] == run(history, timers)[1]


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_uncertain_evidence_never_says_anything(history, timers):
    timers = replace(timers, abandon_after_s=10**6)
    states, events = run(history, timers)
    told = {at_s for at_s, _ in events}
    for before, after, seen in zip(states, states[1:], history[1:], strict=False):
        if seen.letter == "u":
            assert seen.at_s not in told
            assert (before.phase, before.level) == (after.phase, after.level)


@settings(deadline=None)
@given(histories(), timers_of_any_length)
def test_a_firing_alert_always_resolves_in_the_end(history, timers):
    last = history[-1]
    calm = [Seen("h", last.at_s + 60 * i, last.n_total + i) for i in range(1, 40)]
    assert run(history + calm, timers)[0][-1].phase is Phase.OK


#: Mistakes that somebody could make in the machine: a piece of its source, and what to put there.
PLANTED = {
    "uncertain evidence resolves": ("if _abandoned(state, at, timers):", "if True:"),
    "nothing ever expires": ("if _abandoned(state, at, timers):", "if False:"),
    "a pause does not start the timers again": ("if interrupted:\n", "if False:\n"),
    "replays count": ("at <= state.seen_at and not interrupted", "at < state.seen_at"),
    "ticks count as evidence": ("before.informed + new", "before.informed + 1"),
    "uncertain evidence ends a run": ("evidence is not Evidence.HEALTHY)", "evidence is None)"),
    "critical needs no time": ("timers.critical_for_s, at, timers):", "0, at, timers):"),
    "a warning waits for critical": ("Level.WARNING if _held", "None if _held"),
    "reminders never stop": (">= timedelta(seconds=every_s)", ">= timedelta(0)"),
    "reminders never come": (">= timedelta(seconds=every_s)", "> timedelta(days=999)"),
    "a level is lost for good": ("better = state.but(level=Level.WARNING,", "better = state.but("),
    "resolves without holding": ("timers.resolve_after_s, at, timers):", "0, at, timers):"),
}


def mutant(old, new):
    """Load the machine with one mistake in it."""
    source = Path(state_module.__file__).read_text(encoding="utf-8")
    assert old in source, old
    module = types.ModuleType("alerts.mutant")
    sys.modules[module.__name__] = module
    exec(compile(source.replace(old, new), "mutant", "exec"), vars(module))
    return module.step


def some_history(rng):
    """Draw evidence in runs, as `histories` does, without hypothesis."""
    history, at_s, n_total = [], 0, 0
    for _ in range(rng.randint(2, 14)):
        letter, every_s = rng.choice("hhwwccu"), rng.choice([20, 60, 60, 60, 299, 301, 2000])
        new = rng.choice([0, 1, 5])
        for place in range(rng.randint(1, 15)):
            at_s += every_s if place == 0 else min(every_s, 60)
            n_total += new
            history.append(Seen(letter, at_s, n_total))
    return history


def some_timers(rng):
    return Timers(
        warning_for_s=rng.choice([0, 120, 600]),
        critical_for_s=rng.choice([0, 60, 300, 900]),
        resolve_after_s=rng.choice([0, 120, 900]),
        repeat_after_s=rng.choice([240, 1800]),
        warning_repeat_after_s=rng.choice([300, 3600]),
        abandon_after_s=rng.choice([600, 86_400]),
        min_new_evaluations=rng.choice([1, 2, 3]),
        max_gap_s=float(GAP_S),
    )


@pytest.mark.parametrize("mistake", PLANTED)
def test_the_oracle_finds_a_mistake_that_is_planted(mistake):
    step, rng = mutant(*PLANTED[mistake]), random.Random(7)
    for _ in range(400):
        history, timers = some_history(rng), some_timers(rng)
        twice = [seen for seen in history for _ in range(2)]
        expected = expected_events(history, timers)
        try:
            told = [run(which, timers, step=step)[1] for which in (history, twice)]
        except (AssertionError, ValueError):
            return
        if told != [expected, expected]:
            return
    pytest.fail("nobody noticed")


def test_without_a_mistake_the_oracle_is_content():
    rng = random.Random(7)
    for _ in range(100):
        history, timers = some_history(rng), some_timers(rng)
        assert run(history, timers)[1] == expected_events(history, timers)
