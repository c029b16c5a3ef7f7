"""`monitor.rolling.backtest`: what it takes, what it gives, and that it never looks ahead."""

from itertools import pairwise

import numpy as np
import pytest

import monitor.rolling
from monitor.errors import SettingsError
from monitor.models import Status


def stream(seed=1, n=6000, fall_at=4000):
    rng = np.random.default_rng(seed)
    times = 1.7e9 + np.cumsum(rng.exponential(20.0, n))
    passed = rng.random(n) < np.where(np.arange(n) < fall_at, 0.93, 0.4)
    return times, np.where(passed, 0.9, 0.2), passed


@pytest.mark.parametrize("policy", ["anytime", "anytime_strict", "wilson", "point_min_n", "point"])
def test_fall_is_found_by_every_policy(policy):
    times, scores, passed = stream()
    changes = monitor.rolling.backtest(times, scores, passed, policy=policy)
    assert changes[-1][1] == "critical"
    assert [time_s for time_s, _ in changes] == sorted(time_s for time_s, _ in changes)
    assert all(before != after for (_, before), (_, after) in pairwise(changes))


@pytest.mark.parametrize("policy", ["anytime", "wilson"])
@pytest.mark.parametrize("cut", [1, 500, 4010, 4030, 5999])
def test_cutting_the_stream_changes_nothing_before_the_cut(policy, cut):
    columns = stream(2)
    rng = np.random.default_rng(3)
    late = columns[0] + (rng.random(6000) < 0.05) * rng.exponential(600, 6000)
    order = np.argsort(late, kind="stable")
    columns = [column[order] for column in columns]
    whole = monitor.rolling.backtest(*columns, policy=policy)
    part = monitor.rolling.backtest(*(column[:cut] for column in columns), policy=policy)
    assert part == whole[: len(part)]
    assert len(whole) == len(part) or whole[len(part)][0] >= columns[0][:cut].max()


def test_backtest_of_no_samples_is_empty():
    assert monitor.rolling.backtest([], [], []) == []


def test_first_status_is_too_little_data():
    assert monitor.rolling.backtest([5.0], [1.0], [True]) == [(5.0, Status.INSUFFICIENT_DATA)]


def test_samples_without_a_score_count_nowhere():
    times, scores, passed = stream()
    holes = np.repeat(np.arange(6000), 2)
    blank = np.where(np.arange(12_000) % 2, np.nan, scores[holes])
    found = monitor.rolling.backtest(times[holes], blank, passed[holes])
    assert found == monitor.rolling.backtest(times, scores, passed)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (([1.0], [1.0, 1.0], [1]), "of one length"),
        (([float("nan")], [1.0], [1]), "finite"),
        (([1.0], [1.0], [2]), "0 and 1"),
    ],
)
def test_wrong_columns_are_named(columns, said):
    with pytest.raises(ValueError, match=said):
        monitor.rolling.backtest(*columns)


def test_unknown_policy_lists_the_known_ones():
    with pytest.raises(SettingsError, match="anytime, anytime_strict, point"):
        monitor.rolling.backtest([1.0], [1.0], [1], policy="anytim")


def test_smaller_budget_needs_more_evidence():
    times, scores, passed = stream()
    found = {
        budget: monitor.rolling.backtest(times, scores, passed, false_alarms_per_month=budget)
        for budget in (1.0, 0.001)
    }
    fell = {
        budget: next(t for t, s in changes if s in {"warning", "critical"})
        for budget, changes in found.items()
    }
    assert fell[1.0] < fell[0.001]
