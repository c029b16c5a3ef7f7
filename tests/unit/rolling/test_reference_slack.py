"""How far below its past a rate may wander before that is a fall: what its past cannot rule out."""

import numpy as np
import pytest

from monitor.rolling.baseline import History, learn
from monitor.stats.intervals import wilson_interval

DAY = 1440  # buckets of a minute


def slack(rates):
    """Learn from 5 scores a minute at these rates; return how far the limit is below Wilson's."""
    n = np.full(rates.size, 5.0)
    history = History(np.arange(rates.size), n, n, n, *[n * rates] * 3)
    found = learn(history, now_bucket=rates.size, begun_bucket=0, bucket_s=60, warning_rate=0.5)
    (limit,) = found.fallen_below
    return wilson_interval(found.rate * found.n, found.n, alpha=0.04).low - limit


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (2000, 0.03),  # less than a day is known: it may be the best part of it
        (2400, 0.012),
        (2 * DAY + 1080, 0.012),  # seven quarters of a day are too few to measure
        (3 * DAY, 0.006),
        (8 * DAY, 0.006),
    ],
)
def test_longer_a_rate_was_steady_the_less_it_may_wander(minutes, expected):
    assert slack(np.full(minutes, 0.92)) == pytest.approx(expected)


def test_slack_is_half_as_much_again_as_the_largest_spread_that_the_past_allows():
    """24 blocks of 1,800, a point up or down; 13.09 is the 5 % point of chi-square."""
    rates = np.repeat(np.tile([0.93, 0.91], 16), 360)
    distance = 24 * 1800 * 0.01**2 / (0.92 * 0.08)
    spread = np.sqrt((distance / 13.09 - 1) * 0.92 * 0.08 / 1800)
    assert slack(rates) == pytest.approx(1.5 * spread, rel=1e-3)


def test_slack_is_four_points_at_most():
    assert slack(np.repeat(np.tile([0.97, 0.87], 4), DAY)) == pytest.approx(0.04)
