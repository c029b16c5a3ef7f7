"""Trend and aggregate figures: the worked examples of the seeds, numpy, and noise."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.tallies import figures_of, tally_of, total, trend_of
from monitor.stats.summary import (
    normal_interval,
    plain_trend,
    robust_trend,
    summarise,
    summarise_bins,
)
from monitor.testing import make_evaluation

HOURS = np.arange(24) / 24


def test_plain_trend_gives_the_figures_of_the_example():
    found = plain_trend([0.78, 0.82, 0.85])
    assert (found.trend, round(found.change_rate, 2), round(found.stability_score, 2)) == (
        "improving",
        0.02,
        0.91,
    )


@pytest.mark.parametrize(
    ("scores", "trend"),
    [([0.9, 0.8, 0.7], "declining"), ([0.9, 0.9, 0.9], "stable"), ([0.5], "stable")],
)
def test_plain_trend_says_which_way(scores, trend):
    assert plain_trend(scores).trend == trend


def test_normal_interval_gives_the_figures_of_the_example():
    low, high = normal_interval(45, 50)
    assert (round(low, 3), round(high, 3)) == (0.817, 0.983)


def test_summary_equals_numpy():
    scores = np.random.default_rng(1).beta(8, 2, 501)
    found = summarise(scores.tolist())
    assert found.mean == pytest.approx(scores.mean())
    assert found.median == pytest.approx(np.median(scores))
    assert found.std_dev == pytest.approx(scores.std(ddof=1))
    assert found.percentile_95 == pytest.approx(np.percentile(scores, 95))
    assert (found.min, found.max) == (scores.min(), scores.max())
    assert sum(count for _, count in found.histogram) == 501


def test_bins_of_the_report_have_the_form_of_the_example():
    found = summarise([0.65, 0.7, 0.75, 1.0])
    assert found.histogram == (("0.6-0.7", 1), ("0.7-0.8", 2), ("0.9-1.0", 1))


def test_summary_of_a_histogram_is_right_to_half_a_hundredth():
    scores = np.random.default_rng(2).beta(5, 2, 400)
    bins = np.floor(scores * 100 + 0.5).astype(int)
    found = summarise_bins({int(b): int((bins == b).sum()) for b in set(bins.tolist())})
    plain = summarise(scores.tolist())
    for name in ("mean", "median", "std_dev", "min", "max", "percentile_95"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), abs=0.006)


def test_figures_have_each_category():
    def part(score):
        return total(
            tally_of(make_evaluation(score=score), sample_rate=0.5, pass_score=0.7)
            for _ in range(20)
        )

    good, bad = part(0.9), part(0.3)
    found = figures_of(good + bad, {"route=a": good, "route=b": bad})
    assert found.per_category["route=b"].pass_rate == 0.0
    assert found.wilson[0] < found.pass_rate == 0.5 < found.wilson[1]
    assert figures_of(Tally()) is None


def passes(rng, rates, n=200):
    return rng.binomial(n, rates).tolist(), [n] * len(rates)


def test_flat_rate_is_stable_nearly_always():
    rng = np.random.default_rng(3)
    found = [robust_trend(HOURS.tolist(), *passes(rng, np.full(24, 0.9))) for _ in range(100)]
    assert sum(trend.direction == "stable" for trend in found) >= 90
    assert np.median([trend.stability for trend in found]) > 0.7


@pytest.mark.parametrize(("end", "direction"), [(0.75, "declining"), (0.99, "improving")])
def test_slope_is_seen(end, direction):
    rng = np.random.default_rng(4)
    found = robust_trend(HOURS.tolist(), *passes(rng, np.linspace(0.88, end, 24)))
    assert found.direction == direction
    assert found.low < (end - 0.88) * 24 / 23 < found.high


def test_rate_that_jumps_about_is_unstable():
    rng = np.random.default_rng(5)
    jumping = np.where(np.arange(24) % 2, 0.95, 0.75)
    assert robust_trend(HOURS.tolist(), *passes(rng, jumping)).stability < 0.3


def test_little_data_has_no_trend():
    assert robust_trend([0, 1, 2], [9, 9, 9], [10, 10, 10]) is None
    assert robust_trend(HOURS.tolist(), [2] * 24, [2] * 24) is None


def test_few_scores_leave_the_trend_uncertain():
    found = robust_trend(HOURS.tolist(), [3] * 12 + [2, 4] * 6, [4] * 24)
    assert found.direction == "uncertain"


def test_trend_of_a_course_leaves_gaps_out():
    steps = {
        3600 * hour: Tally(n=50, passed=45, sum_w=50, sum_w2=50, sum_wy=45) for hour in range(12)
    }
    assert trend_of(steps | {3600 * 40: Tally()}).points == 12


def test_trend_is_never_surer_than_its_samples_allow():
    """Points right on a line: the interval is that of the binomial noise alone."""
    days, n = np.arange(10.0), np.full(10, 400.0)
    found = robust_trend(days, n * 0.9, n)
    level = (3600 + 0.5) / 4001
    half = 1.96 / np.sqrt(400 / (level * (1 - level)) * ((days - 4.5) ** 2).sum())
    assert (found.low, found.high) == (pytest.approx(-half), pytest.approx(half))
    assert found.stability == 1.0


@pytest.mark.parametrize(("scores", "stability"), [([0.0, 0.5], 0.0), ([0.0, 0.0], 1.0)])
def test_scores_that_begin_at_zero_are_stable_only_if_they_stay(scores, stability):
    assert plain_trend(scores).stability_score == stability
