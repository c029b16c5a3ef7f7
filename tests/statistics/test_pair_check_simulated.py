"""Checks played label by label find what their exact figures promise."""

import numpy as np
import pytest

from monitor.stats.two_rates import CheckAnswer, check_pairs, power

RUNS = 400


@pytest.mark.parametrize(
    ("before", "after"), [(0.95, 0.95), (0.85, 0.85), (0.95, 0.70), (0.93, 0.73)]
)
def test_simulated_pair_checks_meet_their_promised_error_rates(before, after):
    rng = np.random.default_rng(11)
    worse, labels = 0, 0
    for _ in range(RUNS):
        sides = rng.random((2, 50)) < np.array([[before], [after]])
        found = check_pairs(list(sides[0]), list(sides[1]))
        worse += found.answer is CheckAnswer.WORSE
        labels += 2 * found.pairs
    exact = power(before, after)
    error = 4 * np.sqrt(max(exact.worse * (1 - exact.worse), 1 / RUNS) / RUNS)
    assert abs(worse / RUNS - exact.worse) <= error
    assert labels / RUNS == pytest.approx(exact.mean_labels, abs=5)
