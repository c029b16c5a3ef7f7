"""Samples with unequal probabilities: estimates without bias, intervals that hold."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.tallies import DOUBT, window_stats

RUNS = 300


def sampled(rng, passed, rates):
    """Sample outcomes with their own probabilities, and sum them as the buckets do."""
    chosen = rng.random(len(passed)) < rates
    y, w = passed[chosen].astype(float), 1 / rates[chosen]
    return Tally(
        n=int(chosen.sum()),
        passed=int(y.sum()),
        sum_w=w.sum(),
        sum_w2=(w * w).sum(),
        sum_wy=(w * y).sum(),
        sum_w2y=(w * w * y).sum(),
        sum_w2yy=(w * w * y).sum(),
    )


def rare_but_watched(rng):
    """One twentieth of the traffic is bad and always sampled, the rest at 5 %."""
    watched = rng.random(8000) < 0.05
    passed = rng.random(8000) < np.where(watched, 0.5, 0.92)
    return passed, np.where(watched, 1.0, 0.05)


def rate_that_changes(rng):
    """The sample rate falls to a tenth in mid-window, just when the quality rises."""
    late = np.arange(6000) > 3000
    passed = rng.random(6000) < np.where(late, 0.97, 0.8)
    return passed, np.where(late, 0.05, 0.5)


@pytest.mark.parametrize("traffic", [rare_but_watched, rate_that_changes])
def test_estimate_is_unbiased_and_the_interval_contains_the_true_rate(traffic):
    rng = np.random.default_rng(7)
    errors, hits = [], 0
    for _ in range(RUNS):
        passed, rates = traffic(rng)
        window = window_stats(sampled(rng, passed, rates))
        errors.append(window.pass_rate - passed.mean())
        hits += window.interval.low <= passed.mean() <= window.interval.high
    assert abs(np.mean(errors)) <= 3 * np.std(errors) / np.sqrt(RUNS)
    assert hits >= (1 - DOUBT - 3 * np.sqrt((1 - DOUBT) * DOUBT / RUNS)) * RUNS


def test_unweighted_share_of_the_samples_is_far_off():
    rng = np.random.default_rng(8)
    passed, rates = rare_but_watched(rng)
    tally = sampled(rng, passed, rates)
    assert abs(tally.passed / tally.n - passed.mean()) > 0.1
