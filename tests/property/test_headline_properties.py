"""The status and the figures beside it never disagree, whatever arrives and however it is cut."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.models import Status, StreamKey, Tally
from monitor.rolling.anytime import advance, advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, from_json, idle, to_json
from monitor.rolling.looks import Looks
from monitor.rolling.policies import POLICIES, PolicyFinding, Rules, Thresholds, status_of
from monitor.rolling.verdicts import WindowData, headline, judge_window

HOURLY = tuple(0.86 + 0.003 * hour for hour in range(24))
BASELINES = [
    Baseline(),
    Baseline((0.9,), 0.92, 9000.0, 1.0, 1.3, effect_known=True),
    Baseline(HOURLY, 0.92, 9000.0, 1.0, 1.0, effect_known=True),
]
RULES = [
    Rules(),
    Rules(use_reference=False, min_n=5),
    Rules(warning_rate=0.95, critical_rate=0.5, false_alarms_per_month=0.01),
]
LEVELS = st.sampled_from([0.0, 0.2, 0.5, 0.65, 0.7, 0.75, 0.8, 0.84, 0.86, 0.92, 0.99, 1.0])
PIECE = st.tuples(LEVELS, st.integers(1, 150), st.sampled_from([6.0, 60.0, 900.0, 90_000.0]))


def drawn(pieces, worth, seed):
    """Return looks at a stream whose level jumps; samples come alone or in handfuls."""
    rng = np.random.default_rng(seed)
    rate = np.repeat([level for level, *_ in pieces], [n for _, n, _ in pieces])
    gap_s = np.repeat([gap for *_, gap in pieces], [n for _, n, _ in pieces])
    n = rng.integers(1, 4, rate.size).astype(float)
    passed = rng.binomial(n.astype(int), rate) * worth
    return Looks(np.cumsum(gap_s), n, n * worth, passed)


def assert_agree(state, rules):
    shown = headline(state, rules)
    if shown.interval is None:
        assert not state.alarmed
        return
    low, high = shown.interval
    assert 0.0 <= low <= shown.pass_rate <= high <= 1.0
    expected = {
        Status.CRITICAL: high < rules.critical_rate,
        Status.WARNING: rules.critical_rate <= high < rules.warning_rate,
    }
    assert expected.get(state.status, high >= rules.warning_rate)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(PIECE, min_size=1, max_size=5),
    worth=st.sampled_from([1.0, 0.4]),
    seed=st.integers(0, 2**32),
    base=st.sampled_from(BASELINES),
    rules=st.sampled_from(RULES),
    each=st.integers(3, 60),
)
def test_status_and_interval_agree_at_every_look(pieces, worth, seed, base, rules, each):
    looks = drawn(pieces, worth, seed)
    state = EvidenceState.fresh(0.0).but(baseline=base)
    for start in range(0, looks.n.size, each):
        state, _ = advance(state, looks.part(start, start + each), rules)
        assert_agree(state, rules)
        state = from_json(json.loads(json.dumps(to_json(state))))
        assert_agree(state, rules)
        assert_agree(idle(state, state.at_s + 1e6, rules)[0], rules)


@settings(max_examples=30, deadline=None)
@given(
    streams=st.lists(
        st.tuples(st.lists(PIECE, min_size=1, max_size=3), st.sampled_from(BASELINES)),
        min_size=1,
        max_size=5,
    ),
    rules=st.sampled_from(RULES),
    seed=st.integers(0, 2**32),
)
def test_batched_streams_advance_like_single_ones(streams, rules, seed):
    looks = [drawn(pieces, 1.0, seed + i) for i, (pieces, _) in enumerate(streams)]
    states = [EvidenceState.fresh(0.0).but(baseline=base) for _, base in streams]
    together = advance_all(states, looks, rules)
    for state, look, (found, changes) in zip(states, looks, together, strict=True):
        alone, expected = advance(state, look, rules)
        assert changes == expected
        assert (found.status, found.count) == (alone.status, alone.count)
        np.testing.assert_allclose(found.bets.log_r, alone.bets.log_r, rtol=1e-9, atol=1e-9)


def harsh(window, _):
    return PolicyFinding(Status.CRITICAL if window.n else Status.INSUFFICIENT_DATA, "always")


@given(
    samples=st.lists(st.tuples(st.booleans(), st.sampled_from([1.0, 1.0, 20.0])), max_size=60),
    policy=st.sampled_from([*POLICIES, f"{__name__}:harsh"]),
)
def test_no_policy_shows_an_interval_contradicting_its_status(samples, policy):
    y, w = np.array(samples, dtype=float).reshape(-1, 2).T
    sums = (w, w * w, w * y, w * w * y, w * w * y * y)
    names = ("sum_w", "sum_w2", "sum_wy", "sum_w2y", "sum_w2yy")
    tally = Tally(
        n=y.size, passed=int(y.sum()), sum_wx=float((w * y).sum()),
        **{name: float(column.sum()) for name, column in zip(names, sums, strict=True)},
    )  # fmt: skip
    key = StreamKey("bot", "groundedness", "*", "local-1")
    data = WindowData(stream=key, window_s=3600, current=tally, reference=Tally())
    lines = Thresholds()
    found = judge_window(data, policy_name=policy, thresholds=lines, now=datetime.now(UTC))
    alarmed = found.status in {Status.WARNING, Status.CRITICAL}
    if found.high is None:
        assert not alarmed or "may be chance" in found.reason
        return
    assert found.low <= found.pass_rate <= found.high
    assert status_of(found.high, lines) is (found.status if alarmed else Status.HEALTHY)


def test_rate_after_a_second_change_lies_inside_its_interval():
    rng, looks_at, cut = np.random.default_rng(12), 0, 0
    for _ in range(6):
        levels = rng.choice([0.2, 0.5, 0.65, 0.75, 0.8, 0.84], 3)
        passed = (rng.random(1_100) < np.repeat([0.92, *levels], [200, 300, 300, 300])) * 1.0
        state = EvidenceState.fresh(0.0).but(baseline=BASELINES[1])
        for k in range(0, passed.size, 20):
            one = np.ones(20)
            look = Looks(60.0 * np.arange(k, k + 20), one, one, passed[k : k + 20])
            state, _ = advance(state, look, Rules())
            shown = headline(state, Rules())
            looks_at += state.alarmed
            cut += state.alarmed and shown.pass_rate >= shown.interval.high - 1e-12
    assert looks_at > 200
    assert cut <= looks_at / 100


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(PIECE, min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_changed_thresholds_keep_status_and_interval_consistent(pieces, seed):
    looks = drawn(pieces, 1.0, seed)
    half = looks.n.size // 2
    state, _ = advance(EvidenceState.fresh(0.0), looks.part(0, half), RULES[0])
    for rules in (RULES[2], RULES[0]):
        state, _ = advance(state, looks.part(0, 0), rules)
        assert_agree(state, rules)
    later = looks.part(half)
    state, _ = advance(state, later, RULES[0])
    assert_agree(state, RULES[0])


def test_stored_state_takes_at_most_two_kilobytes():
    rng = np.random.default_rng(1)
    looks = drawn([(0.92, 300, 7.0), (0.7, 12, 60.0)], 1.0, 1)
    state = EvidenceState.fresh(1.7e9).but(baseline=BASELINES[1])
    state, _ = advance(state, looks._replace(time_s=1.7e9 + looks.time_s + rng.random()), Rules())
    assert not state.alarmed
    assert len(json.dumps(to_json(state), separators=(",", ":"))) <= 2048


@pytest.mark.parametrize("status", ["healthy", "warning", "critical", "insufficient_data"])
def test_state_of_the_previous_form_restarts_and_agrees(status):
    rows = [[-1e6] * 5] * 6
    old = {
        "form": 1,
        "status": status,
        "certainty": "probable",
        "times_s": [0.0, 9e5, 8e5, 0.0],
        "counts": [0.0, 900.0, 300.0],
        "log_r": rows,
        "since": dict.fromkeys(("gain", "n", "passed", "at_s"), rows),
        "alarm": [60.0, 20.0, 8e5],
        "onset": None,
        "incidents": [[10, 20]],
        "baseline": [[0.9], 0.92, 9000.0, 1.0, 1.2, True],
        "learned_s": 8e5,
    }
    state, _ = advance(from_json(old), Looks(*np.zeros((4, 0))), Rules())
    assert_agree(state, Rules())
    assert state.alarmed == (status in {"warning", "critical"})
    assert (state.incidents[0], state.baseline.effect) == ((10, 20), 1.2)


def test_batched_streams_include_every_kind():
    """Fall, silence and recovery go with the calm ones, and arrive."""
    calm = EvidenceState.fresh(0.0).but(
        status=Status.HEALTHY, n_day=90.0, baseline=BASELINES[1], thresholds=(0.85, 0.70)
    )

    def look(time_s, n, rate):
        return Looks(*np.array([[time_s], [n], [n], [n * rate]]))

    fall = look(60.0, 40.0, 0.0)
    alarmed, _ = advance(calm, fall, Rules())
    news = [look(60.0, 40.0, 1.0), fall, look(90_000.0, 40.0, 1.0), look(120.0, 1.0, 1.0)]
    found = advance_all([calm, calm, calm, alarmed], news, Rules())
    assert [bool(changes) for _, changes in found] == [False, True, True, False]
    assert found[1][0].alarmed
