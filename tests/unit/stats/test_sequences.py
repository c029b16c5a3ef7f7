"""Anytime bounds: they hold under peeking, and say so at the edges."""

import numpy as np
import pytest
from scipy.special import betaln

from monitor.stats.intervals import anytime_bounds, log_wealth, wilson_interval


def test_wealth_is_the_beta_mixture():
    expected = betaln(3.5, 1.5) - betaln(0.5, 0.5) - 3 * np.log(0.6) - np.log(0.4)
    assert log_wealth(np.array(3.0), np.array(4.0), np.array(0.6)) == pytest.approx(expected)


def test_bounds_lie_where_the_wealth_reaches_its_limit():
    low, high = anytime_bounds(80, 100)
    for edge in (low, high):
        wealth = log_wealth(np.array(80.0), np.array(100.0), np.array(edge))
        assert wealth == pytest.approx(np.log(20), abs=1e-6)


def test_bounds_are_wider_than_for_one_look():
    single, (low, high) = wilson_interval(80, 100), anytime_bounds(80, 100)
    assert low < single.low < single.high < high


@pytest.mark.parametrize(("passed", "n"), [(0, 0), (0, 5), (5, 5), (1, 10**9)])
def test_bounds_contain_the_rate_at_the_edges(passed, n):
    low, high = anytime_bounds(passed, n)
    rate = passed / n if n else 0.5
    assert 0.0 <= low <= rate <= high <= 1.0


def test_no_samples_give_the_widest_bounds():
    assert anytime_bounds(0, 0) == (0.0, 1.0)


def test_true_rate_stays_inside_the_bounds_at_every_size():
    rng = np.random.default_rng(7)
    n = np.arange(1, 1001)
    missed = 0
    for rate in (0.5, 0.85, 0.97):
        passed = (rng.random((400, 1000)) < rate).cumsum(axis=1)
        wealth = log_wealth(passed, n, np.asarray(rate))
        missed += int((wealth.max(axis=1) >= np.log(20)).sum())
    assert missed / 1200 <= 0.05


def test_anytime_bounds_accept_arrays():
    low, high = anytime_bounds(np.array([[80.0], [8.0]]), np.array([[100.0], [10.0]]))
    assert low.shape == high.shape == (2, 1)
    assert high[1, 0] - low[1, 0] > high[0, 0] - low[0, 0]
