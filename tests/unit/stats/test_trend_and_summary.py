"""Trend and aggregate figures: the worked examples of the seeds, numpy, and noise."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from monitor.models import Tally
from monitor.rolling.tallies import figures_of, tally_of, trend_of
from monitor.stats.summary import (
    normal_interval,
    plain_trend,
    robust_trend,
    summarise,
    summarise_bins,
)
from monitor.testing import make_evaluation

HOURS = np.arange(24) / 24


def test_plain_trend_reproduces_the_documented_example():
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
def test_plain_trend_gives_the_direction(scores, trend):
    assert plain_trend(scores).trend == trend


def test_normal_interval_reproduces_the_documented_example():
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


def test_report_bins_have_the_documented_form():
    found = summarise([0.65, 0.7, 0.75, 1.0])
    assert found.histogram == (("0.6-0.7", 1), ("0.7-0.8", 2), ("0.9-1.0", 1))


def test_histogram_summary_is_accurate_to_half_a_hundredth():
    scores = np.random.default_rng(2).beta(5, 2, 400)
    bins = np.floor(scores * 100 + 0.5).astype(int)
    found = summarise_bins({int(b): int((bins == b).sum()) for b in set(bins.tolist())})
    plain = summarise(scores.tolist())
    for name in ("mean", "median", "std_dev", "min", "max", "percentile_95"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), abs=0.006)


def test_figures_have_each_category():
    def part(score):
        return Tally.total(
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
def test_slope_is_detected(end, direction):
    rng = np.random.default_rng(4)
    found = robust_trend(HOURS.tolist(), *passes(rng, np.linspace(0.88, end, 24)))
    assert found.direction == direction
    assert found.low < (end - 0.88) * 24 / 23 < found.high


def test_erratic_rate_is_unstable():
    rng = np.random.default_rng(5)
    jumping = np.where(np.arange(24) % 2, 0.95, 0.75)
    assert robust_trend(HOURS.tolist(), *passes(rng, jumping)).stability < 0.3


def test_little_data_has_no_trend():
    assert robust_trend([0, 1, 2], [9, 9, 9], [10, 10, 10]) is None
    assert robust_trend(HOURS.tolist(), [2] * 24, [2] * 24) is None


def test_few_scores_leave_the_trend_uncertain():
    found = robust_trend(HOURS.tolist(), [3] * 12 + [2, 4] * 6, [4] * 24)
    assert found.direction == "uncertain"


def test_trend_of_a_series_ignores_gaps():
    steps = {
        3600 * hour: Tally(n=50, passed=45, sum_w=50, sum_w2=50, sum_wy=45) for hour in range(12)
    }
    assert trend_of(steps | {3600 * 40: Tally()}).points == 12


def test_trend_interval_is_at_least_the_binomial_noise():
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


@settings(max_examples=40)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.integers(1, 3))
def test_figures_of_random_scores_equal_numpys(thousandths, times):
    """Counted by hundredths, a score that came several times is as many scores."""
    scores = [each / 1000 for each in thousandths]
    found, values = summarise(scores), np.array(scores)
    assert (found.n, found.mean) == (len(scores), pytest.approx(values.mean()))
    spread = values.std(ddof=1) if values.size > 1 else 0.0
    expected = (*np.quantile(values, [0.5, 0.95, 0.0, 1.0]), spread)
    shown = (found.median, found.percentile_95, found.min, found.max, found.std_dev)
    assert shown == pytest.approx(expected)
    hundredths = [round(100 * score) for score in scores] * times
    counted = summarise_bins(Counter(hundredths))
    plain = summarise([position / 100 for position in hundredths])
    assert counted.histogram == plain.histogram
    assert counted[:-1] == pytest.approx(plain[:-1])
    assert summarise_bins({101: 0} | Counter(hundredths)) == counted


@given(st.integers(0, 100))
def test_each_score_falls_into_the_tenth_of_its_first_digit(position):
    tenth = min(9, position // 10)
    name = f"{tenth / 10:.1f}-{(tenth + 1) / 10:.1f}"
    assert summarise([position / 100]).histogram == ((name, 1),)


@pytest.mark.parametrize("figures", [lambda: summarise([]), lambda: summarise_bins({40: 0})])
def test_no_scores_give_no_figures(figures):
    with pytest.raises(ValueError, match="at least one score"):
        figures()


@pytest.mark.parametrize(("passed", "low", "high"), [(49, 0.9412, 1.0), (1, 0.0, 0.0588)])
def test_normal_interval_is_clipped_to_zero_to_one(passed, low, high):
    assert normal_interval(passed, 50) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("last", "trend"),
    [(0.519, "stable"), (0.521, "improving"), (0.481, "stable"), (0.479, "declining")],
)
def test_plain_trend_is_stable_up_to_a_point_a_score(last, trend):
    """The whole change over the number of scores: two here."""
    found = plain_trend([0.5, last])
    assert (found.trend, found.change_rate) == (trend, pytest.approx((last - 0.5) / 2))
    assert plain_trend([0.5, last], tolerance=0.03).trend == "stable"


def test_plain_trend_needs_a_score_and_is_never_less_than_unstable():
    assert plain_trend([0.1, 0.9]).stability_score == 0.0
    with pytest.raises(ValueError, match="at least one score"):
        plain_trend([])


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(20, 300)), min_size=6, max_size=12),
    st.floats(-0.04, 0.04), st.integers(0, 99),
)  # fmt: skip
def test_trend_is_weighted_least_squares_with_an_error_that_grows_with_scatter(points, slope, seed):
    days, n = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    assume(np.ptp(days) > 0.1)
    passed = np.random.default_rng(seed).binomial(n.astype(int), 0.8 + slope * days / 3)
    found = robust_trend(days, passed, n)
    rate, overall = passed / n, (passed.sum() + 0.5) / (n.sum() + 1)
    noise = overall * (1 - overall)
    (fitted, level), covariance = np.polyfit(days, rate, 1, w=np.sqrt(n / noise), cov="unscaled")
    chi2 = float((n / noise * (rate - level - fitted * days) ** 2).sum())
    freedom = len(n) - 2
    half = 1.96 * np.sqrt(covariance[0, 0] * max(1.0, chi2 / freedom))
    assert found[1:4] == pytest.approx((fitted, fitted - half, fitted + half), rel=1e-6, abs=1e-9)
    tau = np.sqrt(max(0.0, (chi2 - freedom) * noise / (n.sum() - (n**2).sum() / n.sum())))
    assert found.stability == pytest.approx(np.exp(-tau / 0.05), rel=1e-6)
    assert (found.points, found.n) == (len(n), n.sum())
    certain = abs(fitted) > half and abs(fitted) >= 0.02
    expected = ("improving" if fitted > 0 else "declining") if certain else (
        "uncertain" if half > 0.1 else "stable"
    )  # fmt: skip
    assert found.direction == expected


def test_trend_begins_with_six_points_and_sixty_scores():
    days = list(range(6))
    assert robust_trend(days, [8] * 6, [10] * 6).points == 6
    assert robust_trend(days[:5], [18] * 5, [20] * 5) is None
    assert robust_trend(days, [8] * 6, [9] + [10] * 5) is None
    assert robust_trend([*days, 9], [8] * 6 + [0], [10] * 6 + [0]).points == 6
    assert robust_trend([3] * 6, [8] * 6, [10] * 6) is None
