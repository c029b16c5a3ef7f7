"""A course of the day is told from noise and from bad days, and like hours are found."""

import numpy as np
import pytest
from scipy.stats import f

from monitor.models import Tally
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import has_course, same_hours

HOUR, DAY = 3600, 86_400


def week(mean, seed=1, n=60):
    """Seven days of hours; *mean* gives the mean score of a day and hour."""
    rng = np.random.default_rng(seed)
    hours = {}
    for k in range(7 * 24):
        scores = np.clip(rng.normal(mean(k // 24, k % 24), 0.12, n), 0, 1)
        hours[k * HOUR] = Tally(n=n, sum_x=float(scores.sum()))
    return hours


def sine(_day, hour):
    return 0.8 + 0.02 * np.sin(2 * np.pi * hour / 24)


def test_small_daily_cycle_is_found():
    assert has_course(week(sine))


def test_noise_is_not_a_daily_cycle():
    found = [has_course(week(lambda _day, _hour: 0.8, seed)) for seed in range(200)]
    assert sum(found) <= 2


def test_daily_cycle_test_matches_textbook_anova():
    """Days times hours without repetition, as in Montgomery's Design and Analysis, section 4.1."""

    def significant(mean):
        days = mean - mean.mean(axis=1, keepdims=True)
        course = days.mean(axis=0)
        d, h = mean.shape
        left = ((days - course) ** 2).sum() / (d - 1) / (h - 1)
        return f.sf(d * (course**2).sum() / (h - 1) / left, h - 1, (d - 1) * (h - 1)) < 0.001

    rng = np.random.default_rng(4)
    wave = np.sin(2 * np.pi * np.arange(24) / 24)
    weeks = [
        0.7 + rng.normal(0, 0.01, (7, 24)) + size * wave for size in rng.uniform(0.003, 0.009, 300)
    ]
    expected = [significant(mean) for mean in weeks]
    found = [
        has_course({k * HOUR: Tally(n=50, sum_x=50 * x) for k, x in enumerate(mean.flat)})
        for mean in weeks
    ]
    assert 50 < sum(expected) < 250
    assert found == expected


def test_bad_days_and_bad_hours_are_not_a_daily_cycle():
    assert not has_course(week(lambda day, _hour: 0.6 + 0.05 * day))
    assert not has_course(week(lambda day, hour: 0.3 if (day, hour) == (3, 5) else 0.8))


def test_daily_cycle_needs_more_than_two_days_and_two_hours():
    hours = week(sine)
    assert not has_course({s: t for s, t in hours.items() if s < 2 * DAY})
    assert not has_course({s: t for s, t in hours.items() if s % DAY < 2 * HOUR})


@pytest.mark.parametrize(
    "window", [ReferenceSpan(900_000, 903_000), ReferenceSpan(950_400, 954_000)]
)
def test_comparable_hours_are_those_around_the_window_on_every_day(window):
    found = same_hours([ReferenceSpan(0, 3 * DAY), ReferenceSpan(4 * DAY, 7 * DAY)], window)
    hours = {s % DAY // HOUR for span in found for s in range(*span, HOUR)}
    middle = window.from_s % DAY // HOUR
    assert hours == {(middle + k) % 24 for k in (-1, 0, 1)}
    assert sum(span.to_s - span.from_s for span in found) == 6 * 3 * HOUR
    assert found == sorted(found)


def test_window_of_a_day_is_compared_with_all_hours():
    spans = [ReferenceSpan(0, 3 * DAY)]
    assert same_hours(spans, ReferenceSpan(10 * DAY, 11 * DAY)) == spans
