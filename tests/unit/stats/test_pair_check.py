"""The check by pairs: exact against scipy, and its operating characteristics."""

import numpy as np
import pytest
from scipy.stats import boschloo_exact

from monitor.stats.two_rates import LOOKS, CheckAnswer, check_pairs, p_values, power


@pytest.mark.parametrize(
    ("good", "n"), [((9, 4), 10), ((10, 6), 10), ((28, 20), 30), ((45, 33), 50)]
)
def test_pair_check_p_value_equals_scipys(good, n):
    table = [list(good), [n - good[0], n - good[1]]]
    expected = boschloo_exact(table, alternative="greater", n=32).pvalue
    assert p_values(n, n)[good] == pytest.approx(expected, rel=1e-3)


def test_no_change_is_called_worse_in_at_most_4_of_100_at_any_rate():
    sizes = [power(rate, rate).worse for rate in np.linspace(0.02, 0.98, 25)]
    assert max(sizes) <= 0.04
    assert power(0.95, 0.95).worse == pytest.approx(0.010, abs=0.001)


def test_fall_from_95_to_70_is_found_in_nine_of_ten_with_few_labels():
    found = power(0.95, 0.70)
    assert found.worse >= 0.90
    assert found.mean_labels <= 60


def test_better_answers_are_never_called_worse():
    assert power(0.70, 0.95).worse < 1e-4


def test_check_asks_for_labels_until_the_next_look():
    good, bad = [True] * 50, [False] * 50
    assert check_pairs(good[:9], bad[:9]).next_look == 10
    assert check_pairs(good[:10], bad[:10]).answer is CheckAnswer.WORSE
    undecided = check_pairs(good[:10], (good[:8] + bad)[:10])
    assert (undecided.answer, undecided.next_look) == (CheckAnswer.GO_ON, 20)
    assert check_pairs(good, good).answer is CheckAnswer.NO_CHANGE


def test_unpaired_labels_wait_and_later_pairs_do_not_change_the_answer():
    good, bad = [True] * 50, [False] * 50
    assert check_pairs(good, bad[:9]).answer is CheckAnswer.GO_ON
    first = check_pairs(good[:10], bad[:10])
    assert check_pairs(good[:10] + bad, bad[:10] + good) == first
    assert first.pairs == LOOKS[0].pairs


def test_p_values_of_unequal_sides_equal_scipys():
    found = p_values(6, 11)
    for good in ((5, 3), (6, 7), (2, 9), (3, 1)):
        table = [[good[0], good[1]], [6 - good[0], 11 - good[1]]]
        expected = boschloo_exact(table, alternative="greater", n=256).pvalue
        assert found[good] == pytest.approx(expected, abs=2e-3)
