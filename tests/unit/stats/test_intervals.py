"""Intervals against scipy's own."""

import pytest
from scipy.stats import binomtest

from monitor.stats.intervals import wilson_interval


@pytest.mark.parametrize(("passed", "n"), [(0, 1), (1, 1), (47, 50), (3, 1000), (500, 1000)])
def test_wilson_equals_scipy(passed, n):
    expected = binomtest(passed, n).proportion_ci(method="wilson")
    assert wilson_interval(passed, n) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("passed", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_no_rate(passed, n):
    with pytest.raises(ValueError, match="passed"):
        wilson_interval(passed, n)
