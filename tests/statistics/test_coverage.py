"""Every interval holds at its stated level: at one look, or at all of them."""

import numpy as np
import pytest

from monitor.stats.evidence import accumulate, log_mean, log_payoffs, rate_grid
from monitor.stats.intervals import (
    anytime_bounds,
    exact_interval,
    newcombe_interval,
    wilson_interval,
)

RUNS = 1000
RATES = [0.2, 0.5, 0.85, 0.97]


def least(level, runs=RUNS):
    return level - 3 * np.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("interval", [wilson_interval, exact_interval])
def test_rate_interval_has_its_coverage_at_one_look(interval, rate):
    rng = np.random.default_rng(21)
    hits = [low <= rate <= high for low, high in _intervals(interval, rng.binomial(80, rate, RUNS))]
    # Wilson's is right on average over the rates, and two points off at the worst of them.
    assert np.mean(hits) >= least(0.95 if interval is exact_interval else 0.93)


def _intervals(interval, passed):
    return [interval(float(count), 80.0) for count in passed]


def test_difference_interval_has_its_coverage_at_one_look():
    rng = np.random.default_rng(22)
    pairs = zip(rng.binomial(300, 0.92, RUNS), rng.binomial(60, 0.85, RUNS), strict=True)
    found = [newcombe_interval((float(a), 300.0), (float(b), 60.0)) for a, b in pairs]
    assert np.mean([low <= 0.85 - 0.92 <= high for low, high in found]) >= least(0.95)


@pytest.mark.parametrize("rate", RATES)
def test_anytime_bounds_hold_at_every_look(rate):
    """Looked at after each of 400 samples; an interval for one look is missed by most."""
    rng = np.random.default_rng(23)
    passed = np.cumsum(rng.random((200, 400)) < rate, axis=1).astype(float)
    n = np.broadcast_to(np.arange(1.0, 401.0), passed.shape)
    low, high = anytime_bounds(passed.ravel(), n.ravel())
    held = ((low <= rate) & (rate <= high)).reshape(passed.shape).all(axis=1)
    assert held.mean() >= least(0.95, 200)
    error = np.sqrt(rate * (1 - rate) / n)
    assert (np.abs(passed / n - rate) <= 1.96 * error).all(axis=1).mean() < 0.8


@pytest.mark.parametrize("per_bucket", [1, 20])
def test_false_alarm_rate_holds_at_the_worst_rate(per_bucket):
    """The expected number of alarms in T buckets is at most T / A, with the rate on the line."""
    rng = np.random.default_rng(24)
    buckets, threshold, alarms = 2000, np.log(200.0), 0
    rates = rate_grid(0.85, 0.70).below
    for _ in range(40):
        passed = rng.binomial(per_bucket, 0.85, buckets).astype(float)
        start = 0
        while start < buckets:
            rest = passed[start:]
            gains = log_payoffs(rest, per_bucket - rest, 0.85, rates)[None]
            log_r, _ = accumulate(np.full((1, rates.size), -1e6), gains, np.ones((1, rest.size)))
            over = log_mean(log_r)[0] >= threshold
            if not over.any():
                break
            alarms += 1
            start += int(over.argmax()) + 1
    expected = 40 * buckets / 200
    assert 0.1 * expected <= alarms <= expected + 3 * np.sqrt(expected)
