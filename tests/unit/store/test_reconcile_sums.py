"""A sum and its counterpart: when they agree, and what is said where they do not."""

import pytest

from monitor.store.reconcile import Reconciliation, Sum, compare, window_start

HOUR, DAY = 3600, 86_400


def pair(found, expected, **slack):
    return Sum(check="a = b", where="shop", found=found, expected=expected, **slack)


@pytest.mark.parametrize(
    ("found", "holds"), [(7, False), (8, True), (10, True), (13, True), (14, False)]
)
def test_sum_may_differ_only_by_samples_in_flight(found, holds):
    assert pair(found, 10, below=2, above=3).holds is holds


@pytest.mark.parametrize(
    ("found", "expected", "holds"),
    [
        (2_000_001, 2_000_000, False),
        (2_000_001.0, 2_000_000, True),
        (2_000_000, 2_000_001.0, True),
        (2_000_003.0, 2_000_000.0, False),
        (-2_000_003.0, -2_000_000.0, False),
        (-2_000_001.0, -2_000_000.0, True),
        (0.0, 9e-7, True),
        (0.0, 2e-6, False),
    ],
)
def test_only_fractions_may_differ_by_rounding(found, expected, holds):
    assert pair(found, expected).holds is holds


def test_difference_is_the_excess_of_a_sum():
    assert pair(7, 10).difference == -3


def test_missing_key_counts_as_zero():
    sums = list(compare("a = b", {("shop", ""): 1}, {("shop", "late"): 2, "bot": 3}))
    assert [(item.where, item.found, item.expected) for item in sums] == [
        ("shop", 1, 0),
        ("shop late", 0, 2),
        ("bot", 0, 3),
    ]


def test_errors_that_cancel_out_are_both_reported():
    looked = Reconciliation(since_s=60, sums=[pair(9, 10), pair(11, 10), pair(5, 5)])
    [check] = looked.checks
    assert (check.sums, check.found, check.expected, check.difference) == (3, 25, 25, 2)
    assert [item.found for item in check.wrong] == [9, 11]
    assert not looked.holds


def test_reconciliation_fails_when_the_queue_cannot_be_read():
    assert Reconciliation(since_s=0, sums=[pair(1, 1)]).holds
    assert not Reconciliation(since_s=0, sums=[pair(1, 1)], complete=False).holds


def test_json_lists_wrong_sums_and_counts_correct_ones():
    looked = Reconciliation(since_s=60, sums=[pair(9, 10), pair(5, 5)], notes=("late",))
    assert looked.as_json() == {
        "holds": False,
        "complete": True,
        "since_s": 60,
        "checks": [
            {
                "check": "a = b", "sums": 2, "found": 14, "expected": 15, "difference": 1,
                "wrong": [{"where": "shop", "found": 9, "expected": 10, "difference": -1}],
            }
        ],
        "notes": ["late"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("window_s", "bucket_s", "starts_s"),
    [
        (HOUR, 60, 99 * DAY + 21 * HOUR),
        (2 * HOUR, 7200, 99 * DAY + 20 * HOUR),
        (30 * DAY, 60, 69 * DAY + 22 * HOUR),
        (30 * DAY + 1, 60, 69 * DAY),
    ],
)
def test_window_begins_with_an_hour_and_a_bucket_and_a_long_one_with_a_day(
    window_s, bucket_s, starts_s
):
    now_s = 99 * DAY + 22 * HOUR + 1800.5
    assert window_start(now_s, window_s, bucket_s) == starts_s
