"""Intervals and probabilities against scipy's own."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, binomtest

from monitor.stats.intervals import (
    answered_probability,
    binomial,
    exact_interval,
    newcombe_interval,
    predictive_tail,
    wilson_interval,
)

SIZES = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
ALPHAS = st.sampled_from([0.01, 0.05, 0.1, 0.3])
FEW = settings(max_examples=30)


@FEW
@given(SIZES, ALPHAS)
def test_wilson_and_exact_equal_scipy(counts, alpha):
    for ours, method in ((wilson_interval, "wilson"), (exact_interval, "exact")):
        expected = binomtest(*counts).proportion_ci(1 - alpha, method)
        assert ours(*counts, alpha=alpha) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("interval", [wilson_interval, exact_interval])
def test_interval_is_95_percent_by_default(interval):
    assert interval(47, 50) == interval(47, 50, alpha=0.05)


@pytest.mark.parametrize(("passed", "n"), [(0, 0), (-1, 5), (6, 5), (0.5, 0.4)])
def test_wilson_refuses_an_invalid_rate(passed, n):
    with pytest.raises(ValueError, match="passed"):
        wilson_interval(passed, n)


@FEW
@given(SIZES, SIZES, ALPHAS)
def test_difference_of_two_rates_uses_newcombes_method_10(before, after, alpha):
    low, high = newcombe_interval(before, after, alpha=alpha)
    p, q = before[0] / before[1], after[0] / after[1]
    first, second = (wilson_interval(*counts, alpha=alpha) for counts in (before, after))
    assert q - p - low == pytest.approx(math.hypot(second.low - q, first.high - p), abs=1e-12)
    assert high - q + p == pytest.approx(math.hypot(second.high - q, first.low - p), abs=1e-12)
    assert -1.0 <= low <= q - p <= high <= 1.0
    assert newcombe_interval(after, before, alpha=alpha) == pytest.approx((-high, -low))


@FEW
@given(SIZES, st.floats(0.02, 0.98), st.floats(0.5, 500))
def test_tail_of_an_estimated_rate_equals_scipys_beta_binomial(counts, mean, size):
    passed, n = counts
    expected = betabinom.cdf(passed, n, mean * size, (1 - mean) * size)
    assert math.exp(predictive_tail(passed, n, mean=mean, size=size)) == pytest.approx(
        expected, rel=1e-6, abs=1e-12
    )


def test_tail_of_fractional_counts_is_rounded_conservatively():
    whole = predictive_tail(8, 10, mean=0.9, size=50)
    assert predictive_tail(7.2, 10.9, mean=0.9, size=50) == whole
    assert predictive_tail(0.0, 0.3, mean=0.9, size=50) == predictive_tail(0, 1, mean=0.9, size=50)
    assert predictive_tail(1, 1, mean=0.9, size=50) == pytest.approx(0.0, abs=1e-12)


@FEW
@given(
    st.integers(0, 60), st.sampled_from([0.0, 0.005, 0.3, 0.8, 1.0]), st.none() | st.integers(0, 80)
)
def test_success_probabilities_equal_scipys(n, rate, most):
    expected = binom.pmf(np.arange(min(n, n if most is None else most) + 1), n, rate)
    np.testing.assert_allclose(binomial(n, rate, most), expected, rtol=1e-9, atol=1e-12)


@FEW
@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_answered_probability_follows_bayes_rule(asked, answered):
    """Of those with a score, not asked or answered, the part that is answered."""
    expected = asked * answered / (asked * answered + (1 - asked))
    assert answered_probability(asked, answered) == pytest.approx(expected)
