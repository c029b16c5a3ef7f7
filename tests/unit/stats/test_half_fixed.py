"""Whether a change fixes more than half of what fails: decided soon, and seldom wrongly."""

import numpy as np
import pytest

from monitor.stats.two_rates import half_fixed


def decided(share, seed, pairs=60):
    fixed = np.cumsum(np.random.default_rng(seed).random(pairs) < share)
    for n, count in enumerate(fixed.tolist(), start=1):
        found = half_fixed(count, n - count)
        if found.answer != "undecided":
            return found.answer, n
    return "undecided", pairs


@pytest.mark.parametrize(("share", "answer"), [(0.9, "explains"), (0.1, "does not")])
def test_clear_effect_is_decided_within_forty_pairs(share, answer):
    answers = [decided(share, seed, 40)[0] for seed in range(200)]
    assert answers.count(answer) >= 180


def test_effect_of_exactly_half_is_seldom_reported_as_explaining():
    answers = [decided(0.5, seed)[0] for seed in range(300)]
    assert answers.count("explains") <= 0.05 * 300 + 8


def test_undecided_result_says_how_many_more_pairs_it_needs():
    assert half_fixed(3, 0).more in range(1, 10)
    assert half_fixed(2, 2).more is None
