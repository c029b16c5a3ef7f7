"""Before and after a deploy: the difference, the decision, and the time of the change."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.attribution import Mark, judge_deploy
from monitor.rolling.tallies import pass_counts
from monitor.stats.intervals import anytime_bounds, exact_interval, newcombe_interval

MARK = Mark("v12", 6000.0, "mark")


def tally(n, passed):
    return Tally(n=n, passed=passed, sum_w=n, sum_w2=n, sum_wy=passed, sum_w2y=passed)


def judge(before, after, around=()):
    rows = [(60 * k, n, n, n, passed, passed, passed) for k, (n, passed) in enumerate(around)]
    return judge_deploy(MARK, tally(*before), tally(*after), around=pass_counts(rows))


def test_clear_fall_is_worse():
    found = judge((500, 460), (200, 140))
    assert found.verdict == "worse"
    assert found.difference == pytest.approx(0.7 - 0.92)
    assert found.low < found.difference < found.high < 0


def test_clear_rise_is_better():
    assert judge((500, 350), (200, 190)).verdict == "better"


def test_small_difference_is_not_decided():
    assert judge((500, 460), (40, 35)).verdict == "not decided"


def test_deploy_side_without_scores_is_no_data():
    found = judge((500, 460), (0, 0))
    assert (found.verdict, found.rate_before, found.rate_after) == ("no data", 0.92, None)
    assert (found.n_before, found.n_after) == (500, 0)


def test_time_of_the_change_is_located():
    rng = np.random.default_rng(3)
    around = [(10, int(rng.binomial(10, 0.93 if k < 104 else 0.6))) for k in range(200)]
    found = judge((1040, 967), (960, 576), around)
    assert found.change_low.timestamp() <= 60 * 104 <= found.change_high.timestamp()
    assert (found.change_high - found.change_low).total_seconds() <= 1200


def test_no_change_time_is_given_without_a_change():
    assert judge((500, 450), (500, 450), [(10, 9)] * 100).change_at is None


def test_newcombe_interval_matches_the_published_example():
    low, high = newcombe_interval((48, 80), (56, 70))
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_exact_interval_equals_scipy():
    from scipy.stats import binomtest

    expected = binomtest(37, 50).proportion_ci(0.95, method="exact")
    assert exact_interval(37, 50) == pytest.approx((expected.low, expected.high))


def test_anytime_bounds_contain_the_rate_at_all_times():
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(60):
        passed = np.cumsum(rng.random(600) < 0.9)
        missed += any(
            not low <= 0.9 <= high
            for n in range(1, 601, 7)
            for low, high in [anytime_bounds(passed[n - 1], n)]
        )
    assert missed <= 0.05 * 60 + 4


def test_repeated_looks_at_an_unchanged_deploy_decide_wrongly_at_most_one_time_in_twenty():
    rng = np.random.default_rng(12)
    wrong = 0
    for _ in range(60):
        before = (400, int(rng.binomial(400, 0.9)))
        passed = np.cumsum(rng.random(800) < 0.9)
        wrong += any(
            judge(before, (n, int(passed[n - 1]))).verdict != "not decided"
            for n in range(10, 801, 20)
        )
    assert wrong <= 4
