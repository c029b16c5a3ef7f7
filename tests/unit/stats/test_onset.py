"""The moment of a fall, with its uncertainty."""

import numpy as np

from monitor.stats.evidence import find_onset


def fall(rng, after=0.65, per_bucket=5):
    rate = np.where(np.arange(240) < 200, 0.92, after)
    n = np.full(240, float(per_bucket))
    return np.arange(240) * 60.0, rng.binomial(per_bucket, rate).astype(float), n


def test_truth_lies_within_the_bounds_in_about_nine_of_ten():
    rng = np.random.default_rng(3)
    found = [find_onset(*fall(rng)) for _ in range(300)]
    inside = np.mean([onset.earliest_s <= 200 * 60 <= onset.latest_s for onset in found])
    assert inside >= 0.88
    assert abs(np.median([onset.at_s for onset in found]) - 200 * 60) <= 120


def test_larger_fall_is_dated_more_closely():
    rng = np.random.default_rng(4)
    small, large = find_onset(*fall(rng, 0.75)), find_onset(*fall(rng, 0.2))
    assert large.latest_s - large.earliest_s < small.latest_s - small.earliest_s


def test_rise_is_no_fall():
    assert find_onset(np.arange(2.0), np.array([1.0, 5.0]), np.array([5.0, 5.0])) is None


def test_one_bucket_has_no_moment():
    assert find_onset(np.zeros(1), np.ones(1), np.ones(1)) is None
