"""The tests behind drift equal scipy's, and stay exact where scipy is not."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from monitor.stats.distance import (
    Moments,
    g_test,
    ks_test,
    mann_whitney,
    standardized_difference,
)
from monitor.stats.multiplicity import (
    benjamini_hochberg,
    e_detector_bh,
    holm,
    stream_shares,
)

SEEDS = range(8)


def counts(values, bins=101):
    return np.bincount(values, minlength=bins).astype(float)


def two_samples(seed, m=300, n=80, levels=101):
    rng = np.random.default_rng(seed)
    return rng.integers(0, levels, m), np.minimum(rng.integers(0, levels + 4, n), levels - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_ks_equals_scipy_without_ties(seed):
    rng = np.random.default_rng(seed)
    pooled = rng.permutation(101)
    first, second = pooled[:60], pooled[60:100]
    found = ks_test(counts(first), counts(second))
    expected = stats.ks_2samp(first, second, method="exact")
    assert found.exact
    assert found.distance == pytest.approx(expected.statistic, abs=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_ks_with_ties_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    pooled = rng.integers(0, 4, 11)
    first, second = counts(pooled[:6], 4), counts(pooled[6:], 4)
    observed = ks_test(first, second)
    hits = total = 0
    for chosen in itertools.combinations(range(11), 6):
        mask = np.isin(np.arange(11), chosen)
        gap = ks_test(counts(pooled[mask], 4), counts(pooled[~mask], 4), exact_below=0).distance
        hits += gap >= observed.distance - 1e-9
        total += 1
    assert observed.p_value == pytest.approx(hits / total, abs=1e-12)


def test_ks_of_large_samples_takes_the_asymptotic_value():
    found = ks_test(np.full(101, 20.0), np.full(101, 20.0))
    assert (found.exact, found.p_value) == (False, pytest.approx(1.0))


@pytest.mark.parametrize("design_effect", [1.0, 3.0])
def test_asymptotic_ks_uses_stephens_formula(design_effect):
    first, second = two_samples(3, m=900, n=700)
    found = ks_test(counts(first), counts(second), design_effect=design_effect)
    size = math.sqrt(900 * 700 / 1600 / design_effect)
    expected = stats.ks_2samp(first, second).statistic * (size + 0.12 + 0.11 / size)
    assert not found.exact
    assert found.p_value == pytest.approx(stats.kstwobign.sf(expected), rel=1e-9)


def test_exact_ks_is_for_small_samples_that_look_different():
    first, second = counts(range(60)), counts(range(20, 100))
    assert ks_test(first, second).exact
    assert not ks_test(first, second, exact_below=0.0).exact
    assert not ks_test(first, second, design_effect=1.5).exact


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("levels", [5, 101])
def test_mann_whitney_equals_scipy(seed, levels):
    first, second = two_samples(seed, levels=levels)
    found = mann_whitney(counts(first), counts(second))
    expected = stats.mannwhitneyu(second, first, method="asymptotic")
    assert found.superiority == pytest.approx(expected.statistic / (len(first) * len(second)))
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)


def test_mann_whitney_detects_a_fall_as_well_as_a_rise():
    low, high = counts([20] * 50), counts([80] * 50)
    assert mann_whitney(high, low).p_value == mann_whitney(low, high).p_value < 1e-10


def test_equal_scores_give_no_evidence():
    same = counts([50] * 40)
    assert mann_whitney(same, same).p_value == 1.0
    assert ks_test(same, same).p_value == 1.0
    assert g_test(same, same).p_value == 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_g_test_equals_scipy(seed):
    first, second = two_samples(seed, levels=6)
    table = np.stack([counts(first, 6), counts(second, 6)])
    expected = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    found = g_test(*table)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_welch_equals_scipy_and_d_the_formula(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.beta(8, 2, 90), rng.beta(6, 2, 40)
    found = standardized_difference(
        *(Moments(len(x), x.mean(), x.var(ddof=1)) for x in (first, second))
    )
    expected = stats.ttest_ind(second, first, equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    pooled = math.sqrt((89 * first.var(ddof=1) + 39 * second.var(ddof=1)) / 128)
    d = (second.mean() - first.mean()) / pooled * (1 - 3 / (4 * 128 - 1))
    assert found.d == pytest.approx(d)


def test_standardized_difference_handles_zero_spread():
    flat = Moments(10, 0.5, 0.0)
    assert standardized_difference(flat, flat)[:2] == (0.0, 1.0)
    assert standardized_difference(flat, Moments(10, 0.4, 0.0))[:2] == (-math.inf, 0.0)
    with pytest.raises(ValueError, match="more than one"):
        standardized_difference(flat, Moments(1, 0.4, 0.0))


def test_bh_equals_scipy():
    p = np.random.default_rng(2).uniform(size=40) ** 4
    expected = stats.false_discovery_control(p) <= 0.1
    assert benjamini_hochberg(p.tolist(), 0.1) == expected.tolist()


def test_e_values_match_a_hand_calculation():
    assert e_detector_bh([50, 50, 1, 1], looks=1, budget=0.1) == [True, True, False, False]
    assert e_detector_bh([19, 1, 1, 1], looks=1, budget=0.1) == [False] * 4


def test_detectors_firing_together_need_less_evidence_each():
    alone = e_detector_bh([43_200 * 9, 0, 0, 0, 0, 0, 0, 0, 0, 0], looks=43_200, budget=1)
    together = e_detector_bh([43_200 * 9] * 2 + [0] * 8, looks=43_200, budget=1)
    assert not any(alone)
    assert together == [True, True] + [False] * 8


def test_stream_shares_add_up_to_the_budget():
    root, segment = stream_shares(4, 50)
    assert 4 * root + 50 * segment == pytest.approx(1)
    assert stream_shares(4, 0)[0] * 4 == 1


@given(st.integers(1, 4), st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.integers(2, 60))
def test_mean_difference_interval_is_1_96_standard_errors(effect, a, b, n):
    first, second = Moments(n, a, 0.01 * effect), Moments(2 * n, b, 0.02)
    found = standardized_difference(first, second)
    half = 1.96 * math.sqrt(0.01 * effect / n + 0.02 / (2 * n))
    assert found.difference == pytest.approx(b - a)
    assert found.interval == pytest.approx((b - a - half, b - a + half))


@pytest.mark.parametrize("least", [1.0, 0.5, 0.0])
def test_mean_of_fewer_than_two_scores_is_refused_on_either_side(least):
    few, many = Moments(least, 0.5, 0.1), Moments(10, 0.5, 0.1)
    for pair in ((few, many), (many, few)):
        with pytest.raises(ValueError, match="more than one"):
            standardized_difference(*pair)
    assert standardized_difference(Moments(1.5, 0.4, 0.1), many).difference == pytest.approx(0.1)


def test_dependent_samples_give_weaker_evidence_of_a_shift():
    """A design effect of four is a standard error of two."""
    first, second = two_samples(2)
    plain, dependent = (
        stats.norm.isf(
            mann_whitney(counts(first), counts(second), design_effect=effect).p_value / 2
        )
        for effect in (1.0, 4.0)
    )
    assert dependent == pytest.approx(plain / 2)


def test_balanced_ranks_give_a_p_value_of_one():
    """Within the half rank of the continuity correction, the p-value is one and no more."""
    assert mann_whitney(counts([40, 60]), counts([50, 50])).p_value == 1.0
    assert mann_whitney(counts([40]), counts([60])).p_value == pytest.approx(1.0)


def test_exact_ks_is_used_up_to_600_samples():
    def exact(n):
        spread = np.zeros(101)
        spread[:60] = n / 60
        return ks_test(spread, counts([70] * 2_000)).exact

    assert (exact(600), exact(660)) == (True, False)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_follows_the_step_down_rule(p_values):
    """Adjusted, each is the largest of what it and the smaller ones had to pass."""
    found = holm(p_values)
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i])
    worst = 0.0
    for rank, i in enumerate(ranked):
        worst = max(worst, min(1.0, p_values[i] * (len(p_values) - rank)))
        assert found[i] == pytest.approx(worst)


@given(st.lists(st.floats(0.001, 200), min_size=1, max_size=10), st.sampled_from([0.05, 0.5]))
def test_e_bh_selects_what_benjamini_hochberg_selects_on_inverses(levels, budget):
    """The e-BH rule is Benjamini and Hochberg's on one over each."""
    inverse = [1 / level for level in levels]
    n = len(levels)
    assume(all(abs(p * n / k - budget) > 1e-9 for p in inverse for k in range(1, n + 1)))
    assert e_detector_bh(levels, looks=1, budget=budget) == benjamini_hochberg(inverse, budget)


def test_single_app_gets_the_whole_budget():
    assert stream_shares(1, 0) == stream_shares(0, 0) == (1.0, 0.0)
    assert stream_shares(0, 2) == (0.5, 0.25)
