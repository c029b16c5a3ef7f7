"""Distances between histograms against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from monitor.stats.distance import (
    kolmogorov_smirnov,
    merge_equal_mass,
    population_stability_index,
)


def counts(values):
    return np.bincount(values, minlength=101).astype(float)


def test_ks_equals_scipy_on_binned_scores():
    rng = np.random.default_rng(7)
    first, second = rng.integers(0, 101, 300), rng.integers(20, 101, 200)
    expected = ks_2samp(first, second).statistic
    assert kolmogorov_smirnov(counts(first), counts(second)) == pytest.approx(expected)


def test_psi_is_zero_for_the_same_shape():
    same = counts(np.arange(100))
    assert population_stability_index(same, same) == pytest.approx(0)


def test_psi_matches_a_hand_calculation():
    # Two groups, with half a count added to each: 10.5/21 and 15.5/21 against 5.5/21.
    first, second = np.array([10.0, 10.0]), np.array([15.0, 5.0])
    p, q = np.array([0.5, 0.5]), np.array([15.5, 5.5]) / 21
    assert population_stability_index(first, second) == pytest.approx(
        float(np.sum((q - p) * np.log(q / p)))
    )


def test_psi_is_major_when_scores_collapse():
    assert population_stability_index(counts([95] * 200), counts([5] * 200)) > 0.25


def test_psi_is_finite_when_bins_are_empty():
    assert np.isfinite(population_stability_index(counts([0] * 50), counts([100] * 50)))


@pytest.mark.parametrize("distance", [kolmogorov_smirnov, population_stability_index])
def test_empty_histogram_is_refused(distance):
    with pytest.raises(ValueError, match="empty"):
        distance(np.zeros(101), counts([1]))


def test_bins_are_merged_to_ten_of_equal_mass_in_the_reference():
    """Two hundred bins of one score each: ten groups of twenty."""
    first, second = merge_equal_mass(np.ones(200), np.arange(200.0))
    assert first.tolist() == [20] * 10
    assert second.tolist() == np.arange(200.0).reshape(10, 20).sum(axis=1).tolist()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=101))
def test_merging_loses_no_score_and_leaves_no_group_empty(bins):
    reference, current = np.array(bins, dtype=float).T
    assume(reference.sum() and current.sum())
    first, second = merge_equal_mass(reference, current)
    assert (first.sum(), second.sum()) == (reference.sum(), current.sum())
    assert len(first) == len(second) <= 10
    assert (first + second).min() > 0


def test_large_bin_keeps_its_own_group():
    first, second = merge_equal_mass(np.array([5.0, 90.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    assert (first.tolist(), second.tolist()) == ([5, 90, 5], [1, 2, 3])


@pytest.mark.parametrize("other", [np.ones(100), np.ones(102)])
def test_histograms_of_different_shapes_are_refused(other):
    with pytest.raises(ValueError, match="shapes differ"):
        kolmogorov_smirnov(np.ones(101), other)
