"""A plan's delays: those that the live code really takes, by sample rate and size of the fall."""

import numpy as np
import pytest

from monitor.models import Status
from monitor.rolling.anytime import advance
from monitor.rolling.backtesting import delays_s, detections, planted_delays_s
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.stats.evidence import Samples, Worth

RULES = Rules(false_alarms_per_month=0.1)
PER_HOUR = 60.0


def looks(rng, start_s, n, rate):
    """Samples of a pass rate, one look each, at 60 an hour."""
    times = start_s + np.cumsum(rng.exponential(3600.0 / PER_HOUR, n))
    return Looks(times, np.ones(n), np.ones(n), (rng.random(n) < rate).astype(float))


def calm(seed):
    """A stream that is healthy at 0.92 after two days."""
    rng = np.random.default_rng(seed)
    state, _ = advance(EvidenceState.fresh(0.0), looks(rng, 0.0, 2_880, 0.92), RULES)
    return state.but(baseline=state.baseline._replace(effect=1.0, effect_known=True, rate=0.92))


def test_planned_delay_is_within_a_fifth_of_the_real_one():
    realised = []
    for seed in range(60):
        state, rng = calm(seed), np.random.default_rng(1_000 + seed)
        if not state.alarmed:
            _, turns = advance(state, looks(rng, state.at_s, 1_500, 0.6), RULES)
            alarms = [t.time_s for t in turns if t.status in {Status.WARNING, Status.CRITICAL}]
            realised.append(min(alarms) - state.at_s)
    planned = [
        np.median(delays_s(calm(seed), RULES, 0.6, PER_HOUR, seed)) for seed in (100, 101, 102)
    ]
    assert np.mean(planned) == pytest.approx(np.median(realised), rel=0.2)


def test_dependent_samples_are_planned_as_they_are_evaluated():
    """Samples worth two thirds take half as many again to an alarm, not twice that."""
    alone = calm(1)
    together = alone.but(baseline=alone.baseline._replace(effect=1.5))
    fast, slow = (np.median(delays_s(one, RULES, 0.6, PER_HOUR, 0)) for one in (alone, together))
    assert slow == pytest.approx(1.5 * fast, rel=0.2)


@pytest.mark.parametrize("kind", ["plain", "cascade"])
def test_simulated_falls_are_found_as_soon_as_real_ones(kind):
    rng, n, value = np.random.default_rng(3), 3_000, 1.0
    day = looks(rng, 0.0, n, 0.92)
    if kind == "cascade":
        value = 0.35
        predicted, probability = np.full(n, 0.92), np.full(n, 0.3)
        asked, passed = rng.random(n) < 0.3, rng.random(n) < 0.92
        row = (np.arange(n), predicted, probability, asked, passed, np.ones(n))
        day = Looks.of_samples(day.time_s, Samples(*row), Worth(value))
    baseline = Baseline((0.905,), 0.92, 9_000.0, value, 1.0, effect_known=True)
    state = EvidenceState.fresh(0.0).but(status=Status.HEALTHY, n_day=1_000.0, baseline=baseline)
    planted = planted_delays_s(
        day, state, RULES, share=0.32 / 0.92, onsets_s=np.linspace(20_000.0, 100_000.0, 40),
        horizon_s=80_000.0, seed=1,
    )  # fmt: skip
    drawn = delays_s(state, RULES, 0.6, PER_HOUR, 0)
    assert np.median(planted) == pytest.approx(np.median(drawn), rel=0.4)


def test_no_fall_is_planted_in_a_stream_already_in_alarm():
    rng = np.random.default_rng(5)
    first, then = looks(rng, 0.0, 300, 0.92), looks(rng, 20_000.0, 300, 0.2)
    day = Looks(*(np.r_[a, b] for a, b in zip(first[:4], then[:4], strict=True)))
    found = planted_delays_s(
        day, EvidenceState.fresh(0.0), RULES, share=0.5, onsets_s=np.array([15_000.0, 36_000.0]),
        horizon_s=3_600.0, seed=1,
    )  # fmt: skip
    assert np.isnan(found).tolist() == [False, True]


def test_more_samples_find_a_fall_sooner():
    found = detections(calm(1), RULES, after=0.6, seen_per_hour=600, rates=(0.05, 0.2, 1.0))
    medians = [each.median_s for each in found]
    assert medians == sorted(medians, reverse=True)
    assert [each.per_hour for each in found] == [30, 120, 600]


def test_larger_fall_is_found_sooner():
    small, large = (np.median(delays_s(calm(1), RULES, after, PER_HOUR, 0)) for after in (0.7, 0.4))
    assert large < small


def test_fall_that_stays_above_the_threshold_is_not_found():
    assert np.median(delays_s(calm(1), RULES, 0.91, PER_HOUR, 0)) == np.inf


def test_stream_in_an_alarm_has_no_plan():
    state, _ = advance(calm(1), looks(np.random.default_rng(5), 400_000.0, 300, 0.2), RULES)
    with pytest.raises(ValueError, match="without an alarm"):
        detections(state, RULES, after=0.5, seen_per_hour=60)
