"""A judge that changes silently is found, and the app is not blamed for it."""

import numpy as np
import pytest

from monitor.stats.judge_shift import Cause
from support.judge_swaps import burst, pairs_until_found


@pytest.mark.parametrize("noise", [0.007, 0.06])
def test_judge_stricter_by_ten_points_is_found_within_180_pairs(noise):
    rng = np.random.default_rng(7)
    found = [pairs_until_found(rng, shift=-0.10, noise=noise, most=1_000) for _ in range(60)]
    assert None not in found
    assert np.median(found) <= 180


def test_unchanged_judge_is_rarely_reported_as_shifted():
    rng = np.random.default_rng(8)
    found = [pairs_until_found(rng, shift=0.0, noise=0.06, most=400) for _ in range(60)]
    # One in 4,000 pairs: 6 in 60 runs of 400.
    assert sum(item is not None for item in found) <= 10


def test_burst_of_judge_failures_is_blamed_on_the_judge_and_not_the_app():
    rng = np.random.default_rng(9)
    causes = [burst(rng, shift=-0.10, noise=0.06).cause for _ in range(200)]
    assert causes.count(Cause.APP) == 0
    assert causes.count(Cause.JUDGE) >= 160


def test_burst_of_app_failures_is_blamed_on_the_app():
    rng = np.random.default_rng(10)
    causes = [burst(rng, shift=0.0, noise=0.06, now=0.70).cause for _ in range(200)]
    assert causes.count(Cause.APP) >= 170
    assert causes.count(Cause.JUDGE) == 0
