"""Sequential evidence on the difference of two rates: valid by enumeration, and strong enough."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest, ttest_1samp

from monitor.stats.evidence import bernoulli_kl
from monitor.stats.two_rates import (
    Blocks,
    PairedFall,
    drop_evidence,
    expected_gain,
    no_drop_evidence,
    paired_fall,
    pairs_needed,
    sign_test,
)

RATES = np.linspace(0.02, 0.99, 9)


def blocks(*rows):
    return Blocks(*np.array(rows, dtype=float).reshape(-1, 4).T)


def mean_payoff(evidence, p, q, m, n):
    """The exact mean, under rates p and q, of the payoff of two blocks in a row."""
    outcomes = list(product(range(m + 1), range(n + 1)))
    chance = [binom.pmf(s, m, p) * binom.pmf(r, n, q) for s, r in outcomes]
    return sum(
        one * two * np.exp(evidence(blocks((s, m, r, n), (s2, m, r2, n)))[-1])
        for ((s, r), one), ((s2, r2), two) in product(zip(outcomes, chance, strict=True), repeat=2)
    )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 1), (1, 2)])
def test_bets_on_a_drop_do_not_pay_when_no_larger_drop_exists(m, n):
    def evidence(some):
        return drop_evidence(some, above=0.0, bets=[0.06, 0.24])

    for p, q in product(RATES, repeat=2):
        if p - q <= 0:
            assert mean_payoff(evidence, p, q, m, n) <= 1 + 1e-9


def test_bets_on_no_drop_do_not_pay_when_the_drop_exists():
    def evidence(some):
        return no_drop_evidence(some, below=0.1, bets=[0.0, -0.1])

    for p, q in product(RATES, repeat=2):
        if p - q >= 0.1:
            assert mean_payoff(evidence, p, q, 2, 1) <= 1 + 1e-9


def test_block_with_one_side_only_gives_no_evidence():
    some = blocks((9, 10, 0, 0), (0, 0, 1, 10), (9, 10, 1, 10))
    found = drop_evidence(some, above=0.0, bets=[0.1])
    assert found[0] == found[1] == pytest.approx(0.0, abs=1e-12)
    assert found[2] > 1


def test_first_block_bets_around_a_rate_of_nine_in_ten():
    first = drop_evidence(blocks((18, 20, 16, 20)), above=0.0, bets=[0.1])[0]
    best = 18 * np.log(0.9 / 0.85) + 2 * np.log(0.1 / 0.15)
    best += 16 * np.log(0.8 / 0.85) + 4 * np.log(0.2 / 0.15)
    assert first == pytest.approx(best)


def test_no_blocks_give_no_evidence():
    assert drop_evidence(blocks(), above=0.0, bets=[0.1]).shape == (0,)


def test_evidence_grows_at_the_optimal_rate_when_the_bet_is_right():
    """The mean gain of a bet on the true pair is the information that tells it from the null."""
    best = expected_gain(0.9, 0.8, null=0.0, ratio=1.0)
    assert best == pytest.approx(bernoulli_kl(0.9, 0.85) + bernoulli_kl(0.8, 0.85), abs=1e-4)
    expected = blocks(*[(18, 20, 16, 20)] * 500)
    gained = np.diff(drop_evidence(expected, above=0.0, bets=[0.1]))[-1] / 20
    assert gained == pytest.approx(best, rel=0.02)


def test_gain_against_an_allowed_drop_uses_the_nearest_pair():
    pairs = np.linspace(0.04, 0.999, 2_000)
    nearest = min(bernoulli_kl(0.9, a) + bernoulli_kl(0.8, a - 0.03) for a in pairs)
    assert expected_gain(0.9, 0.8, null=0.03, ratio=1.0) == pytest.approx(nearest, rel=1e-3)


def test_pairs_needed_grow_with_the_square_of_precision():
    fall = PairedFall(20, 0.1, 0.2)
    assert pairs_needed(fall, 0.1) == 80
    assert pairs_needed(fall, 0.4) == 20
    assert pairs_needed(PairedFall(1, 0.1, np.inf), 0.1) is None


def test_block_with_one_side_only_is_no_evidence_against_a_drop():
    """Not even at the edge, where no rate before lies a tenth above the one after."""
    some = blocks(*[(0, 0, 200, 200)] * 4, *[(0, 200, 0, 0)] * 4)
    assert no_drop_evidence(some, below=0.1, bets=[0.0, -0.1]) == pytest.approx(0.0, abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20), st.sampled_from([0.025, 0.05, 0.2]))
def test_paired_fall_equals_students_t_interval(differences, alpha):
    assume(np.std(differences) > 1e-3)
    found = paired_fall(differences, alpha=alpha)
    expected = ttest_1samp(differences, 0.0).confidence_interval(1 - 2 * alpha)
    assert found.n == len(differences)
    bounds = found.mean - found.half_width, found.mean + found.half_width
    assert bounds == pytest.approx((expected.low, expected.high))


def test_equal_differences_give_a_zero_width_interval_and_one_gives_none():
    assert paired_fall([0.1] * 7).half_width == 0.0
    assert paired_fall([0.1]) == (1, 0.1, np.inf)
    assert paired_fall([0.1, 0.3, 0.2]) == paired_fall([0.1, 0.3, 0.2], alpha=0.05)


@given(st.integers(0, 40), st.integers(0, 40))
def test_sign_test_equals_scipys_binomial_test(worse, better):
    expected = 1.0
    if worse + better:
        expected = binomtest(worse, worse + better, alternative="greater").pvalue
    assert sign_test(worse, better) == pytest.approx(expected)


@given(
    st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(-0.2, 0.2), st.floats(0.2, 5)
)  # fmt: skip
def test_expected_gain_is_the_divergence_from_the_nearest_null_pair(before, after, null, ratio):
    def information(t):
        return ratio * bernoulli_kl(before, t) + bernoulli_kl(after, t - null)

    edges = max(0.001, 0.001 + null), min(0.999, 0.999 + null)
    assume(min(before, after + null) > edges[0] and max(before, after + null) < edges[1])
    nearest = minimize_scalar(information, bounds=edges, method="bounded", options={"xatol": 1e-9})
    found = expected_gain(before, after, null=null, ratio=ratio)
    assert found == pytest.approx(nearest.fun, abs=1e-6)
