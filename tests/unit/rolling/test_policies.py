"""The simple threshold, and what the other policies add to it."""

import pytest

from monitor.models import Status, Tally
from monitor.rolling.policies import Thresholds, point, point_min_n, wilson
from monitor.rolling.tallies import window_stats


def window(passed, n, **counts):
    weights = {"sum_w": float(n), "sum_w2": float(n)}
    weights |= dict.fromkeys(("sum_wy", "sum_w2y", "sum_w2yy"), float(passed))
    return window_stats(Tally(n=n, passed=passed, **weights, **counts))


@pytest.mark.parametrize(
    ("passed", "status"),
    [(100, "healthy"), (85, "healthy"), (84, "warning"), (70, "warning"), (69, "critical")],
)
def test_point_policy_compares_the_rate_with_the_thresholds(passed, status):
    assert point(window(passed, 100), Thresholds()).status == status


def test_point_counts_each_sample_as_one_and_the_others_by_its_weight():
    sums = {"sum_w": 90.0, "sum_w2": 190.0, "sum_wy": 85.0, "sum_w2y": 185.0, "sum_w2yy": 185.0}
    rare_passes_weigh_more = window_stats(Tally(n=60, passed=39, **sums))
    assert point(rare_passes_weigh_more, Thresholds()).status is Status.CRITICAL
    assert point_min_n(rare_passes_weigh_more, Thresholds()).status is Status.HEALTHY


def test_point_judges_a_single_score():
    assert point(window(0, 1), Thresholds()).status is Status.CRITICAL


def test_point_is_insufficient_when_empty():
    assert point(window(0, 0), Thresholds()).status is Status.INSUFFICIENT_DATA


def test_point_min_n_waits_for_enough_scores_and_says_how_many():
    status, reason = point_min_n(window(0, 29), Thresholds(min_n=30))
    assert status is Status.INSUFFICIENT_DATA
    assert "about 1 more" in reason


def test_point_min_n_counts_the_effective_sample_size():
    sums = dict.fromkeys(("sum_w2", "sum_w2y", "sum_w2yy"), 10_039.0)
    lopsided = Tally(n=40, passed=40, sum_w=139.0, sum_wy=139.0, **sums)
    assert point_min_n(window_stats(lopsided), Thresholds()).status is Status.INSUFFICIENT_DATA


def test_wilson_is_healthy_when_the_interval_reaches_the_threshold():
    assert wilson(window(33, 40), Thresholds()).status is Status.HEALTHY
    assert point_min_n(window(33, 40), Thresholds()).status is Status.WARNING


def test_reason_names_the_rate_and_the_threshold():
    assert (
        point(window(60, 100), Thresholds()).reason
        == "pass rate 60.0 % is below the 70 % critical threshold"
    )


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ({"skipped": 12}, ": 12 skipped"), ({"failed": 4}, ": 4 failed"),
        ({"failed": 4, "skipped": 12}, ": 4 failed and 12 skipped"), ({}, ""),
    ],
)  # fmt: skip
def test_reason_says_what_became_of_samples_without_a_score(without, said):
    found = point_min_n(window(0, 0, **without), Thresholds())
    assert found.reason == f"no scores in the window{said}"
