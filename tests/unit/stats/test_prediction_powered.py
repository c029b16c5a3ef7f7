"""Estimates from cheap predictions and a few dear verdicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.stats.intervals import difference_estimate, effective_size, wilson_interval

rates = st.floats(0.01, 0.99)


def sums(w, y):
    w, y = np.asarray(w, float), np.asarray(y, float)
    return {
        "n": len(w),
        "sum_w": w.sum(),
        "sum_w2": (w * w).sum(),
        "sum_w2y": (w * w * y).sum(),
        "sum_w2yy": (w * w * y * y).sum(),
        "rate": (w * y).sum() / w.sum(),
    }


@given(rates, st.sampled_from([0.0, 1.0]), rates)
def test_difference_estimate_is_unbiased(prediction, truth, probability):
    asked = difference_estimate(prediction, truth, probability)
    not_asked = difference_estimate(prediction, None, probability)
    mean = probability * asked + (1 - probability) * not_asked
    assert mean == pytest.approx(truth, abs=1e-9)


@given(rates, rates)
def test_variance_matches_the_theorem(prediction, probability):
    values = [difference_estimate(prediction, 1.0, probability), prediction]
    variance = np.cov(values, aweights=[probability, 1 - probability], ddof=0)
    expected = (1 / probability - 1) * (1 - prediction) ** 2
    assert variance == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.5])
def test_impossible_judge_probability_is_refused(probability):
    with pytest.raises(ValueError, match="probability"):
        difference_estimate(0.5, 1.0, probability)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.sampled_from([1.0, 20.0, 1 / 0.03]))
def test_equal_weight_samples_have_full_effective_size(outcomes, weight):
    found = effective_size(**sums([weight] * len(outcomes), outcomes))
    assert found == pytest.approx(len(outcomes), rel=1e-12)


@given(
    st.lists(st.tuples(st.floats(1, 50), st.floats(-4, 5)), min_size=2, max_size=40),
)
def test_effective_size_is_between_zero_and_n(pairs):
    size = effective_size(**sums(*zip(*pairs, strict=True)))
    assert 0 <= size <= len(pairs) * (1 + 1e-9)


def test_varying_estimates_reduce_the_size_of_a_certain_rate():
    size = effective_size(**sums([1.0] * 40, [1.0] * 38 + [10.0, -7.0]))
    assert size < 10


def test_interval_has_its_stated_coverage_of_the_rate():
    """Two thousand windows of 400 samples, a quarter judged, with a prediction that is off."""
    random = np.random.default_rng(3)
    covered = []
    for _ in range(2_000):
        chance = random.beta(4, 1.5, 400)
        truth = (random.random(400) < chance).astype(float)
        prediction = 0.7 * chance + 0.05
        probability = np.clip(0.6 * np.sqrt(prediction * (1 - prediction)), 0.05, 1)
        asked = random.random(400) < probability
        y = prediction + asked * (truth - prediction) / probability
        known = sums(np.ones(400), y)
        size = effective_size(**known)
        low, high = wilson_interval(min(1, max(0, known["rate"])) * size, size)
        covered.append(low <= 4 / 5.5 <= high)
    assert 0.93 <= np.mean(covered) <= 0.97
