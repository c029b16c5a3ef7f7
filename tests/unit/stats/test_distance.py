"""Distances between histograms against scipy and by hand."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from monitor.stats.distance import kolmogorov_smirnov, population_stability_index


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


def test_psi_by_hand():
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
