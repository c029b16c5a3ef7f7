"""How far below its past a rate may wander before that is a fall: what its past cannot rule out."""

import numpy as np
import pytest
from scipy.stats import beta

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
def test_reference_slack_shrinks_with_a_longer_steady_past(minutes, expected):
    assert slack(np.full(minutes, 0.92)) == pytest.approx(expected)


def test_slack_is_one_and_a_half_times_the_largest_past_spread():
    """24 blocks of 1,800, a point up or down; 13.09 is the 5 % point of chi-square."""
    rates = np.repeat(np.tile([0.93, 0.91], 16), 360)
    distance = 24 * 1800 * 0.01**2 / (0.92 * 0.08)
    spread = np.sqrt((distance / 13.09 - 1) * 0.92 * 0.08 / 1800)
    assert slack(rates) == pytest.approx(1.5 * spread, rel=1e-3)


def test_slack_is_four_points_at_most():
    assert slack(np.repeat(np.tile([0.97, 0.87], 4), DAY)) == pytest.approx(0.04)


def past(rates, weight=1.0, n=5.0, start=0):
    """Return *n* scores a minute at these rates, each of one weight."""
    n = np.full(rates.size, n)
    w, passed = n * weight, n * rates * weight
    bucket = np.arange(rates.size) + start
    return History(bucket, n, w, w * weight, passed, passed * weight, passed * weight)


def learned(history, now, begun=0, **options):
    options = {"warning_rate": 0.5} | options
    return learn(history, now_bucket=now, begun_bucket=begun, bucket_s=60, **options)


def test_reference_begins_seven_days_ago_and_ends_a_day_ago():
    now = 20 * DAY
    bucket = np.arange(now + 5)
    inside = (bucket >= now - 7 * DAY) & (bucket < now - DAY)
    found = learned(past(np.where(inside, 0.92, 0.0)), now)
    assert found.rate == pytest.approx(0.92, abs=1e-12)
    assert found.n * found.effect == pytest.approx(6 * DAY * 5)
    for edge, is_in in ((now - 7 * DAY - 1, False), (now - 7 * DAY, True), (now - DAY - 1, True),
                        (now - DAY, False)):  # fmt: skip
        marked = learned(past(np.where(bucket == edge, 0.0, 0.92)), now)
        assert (marked.rate < 0.92 - 1e-6) is is_in


@pytest.mark.parametrize(("age", "kept"), [(2 * DAY, DAY), (1000, 500), (3 * DAY, 2 * DAY)])
def test_newest_half_of_a_young_past_is_excluded(age, kept):
    begun = 7 * DAY
    rates = np.where(np.arange(age) < kept, 0.92, 0.0)
    found = learned(past(rates, start=begun), begun + age, begun)
    assert found.rate == pytest.approx(0.92)
    assert found.n * found.effect == pytest.approx(kept * 5)


def test_too_recent_past_gives_a_rate_but_no_reference():
    found = learned(past(np.full(700, 0.9), start=1000), 1700, 0)
    assert (found.rate, found.n, found.fallen_below) == (pytest.approx(0.9), 0.0, ())


def test_weights_are_read_from_the_past():
    mixed = past(np.full(8 * DAY, 0.9), weight=4.0)
    heavy = mixed._replace(sum_w2=np.where(mixed.bucket == 2 * DAY, 140.0, mixed.sum_w2))
    found = learned(heavy, 8 * DAY)
    assert (found.mean_weight, found.most_weight) == (pytest.approx(4.0), pytest.approx(7.0))
    assert found.worth == pytest.approx(1 / 4, rel=1e-3)


@pytest.mark.parametrize("bucket_s", [60, 30])
def test_hourly_limit_includes_two_hundred_scores_at_the_usual_rate(bucket_s):
    a_day = 86_400 // bucket_s
    minute = np.arange(8 * DAY)
    hour = minute * 24 // a_day % 24
    of_hour = 0.90 + 0.06 * np.sin(2 * np.pi * np.arange(24) / 24)
    found = learn(
        past(of_hour[hour]), now_bucket=8 * DAY, begun_bucket=0, bucket_s=bucket_s,
        warning_rate=0.5,
    )  # fmt: skip
    known = hour[DAY : 7 * DAY]
    n = np.bincount(known, minlength=24) * 5.0 / found.effect
    alike = n * of_hour + 200 * found.rate, n * (1 - of_hour) + 200 * (1 - found.rate)
    assert found.fallen_below == pytest.approx(beta(*alike).ppf(0.01) - 0.012, abs=1e-6)


def test_hours_that_differ_by_three_points_at_most_have_one_limit():
    minute = np.arange(8 * DAY)
    for size, limits in ((0.012, 1), (0.02, 24)):
        rates = 0.9 + size * np.sin(2 * np.pi * minute / DAY)
        assert len(learned(past(rates, n=20.0), 8 * DAY).fallen_below) == limits


def test_limits_are_never_below_the_warning_threshold():
    minute = np.arange(8 * DAY)
    rates = 0.9 + 0.06 * np.sin(2 * np.pi * minute / DAY)
    found = learned(past(rates), 8 * DAY, warning_rate=0.88)
    assert min(found.fallen_below) == 0.88 < max(found.fallen_below)
    assert learned(past(np.full(8 * DAY, 0.87)), 8 * DAY, warning_rate=0.88).fallen_below == ()


@pytest.mark.parametrize(("per_minute", "known"), [(0.087, 1), (0.0865, 0)])
def test_reference_has_five_hundred_scores(per_minute, known):
    """Of 5,760 minutes; each counts once, as they do not depend on each other."""
    history = past(np.full(5 * DAY, 0.95), n=per_minute)
    found = learned(history, 5 * DAY)
    assert found.effect == 1.0
    assert len(found.fallen_below) == known
