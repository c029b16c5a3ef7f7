"""Movers: what is called certain, how wide its interval is, and how often chance gets in."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.tallies import Pair, movements


def tally(passed, n):
    return Tally(n=n, passed=passed, sum_w=n, sum_w2=n, sum_wy=passed, sum_w2y=passed,
                 sum_w2yy=passed)  # fmt: skip


def pair(before, after, n=400, metric="groundedness", **more):
    sides = tally(round(before * n), n), tally(round(after * n), n)
    return Pair("shop", metric, *sides, **more)


def test_large_fall_is_certain_and_a_small_one_is_not():
    fell, stayed = movements([pair(0.95, 0.6), pair(0.95, 0.94, metric="relevance")], min_n=30)
    assert (fell.metric, fell.certain, stayed.certain) == ("groundedness", True, False)
    assert fell.low < fell.difference < fell.high < 0 < stayed.high


def test_metric_with_few_scores_is_not_compared():
    assert movements([pair(0.9, 0.1, n=20)], min_n=30) == []


def test_interval_selected_from_many_is_wider():
    alone = movements([pair(0.95, 0.6)], min_n=30)[0]
    others = [pair(0.9, 0.9, metric=f"m{i}") for i in range(50)]
    picked = movements([pair(0.95, 0.6), *others], min_n=30)[0]
    assert picked.certain
    assert picked.low < alone.low < alone.high < picked.high


def test_correlated_samples_have_a_smaller_effective_size():
    plain, correlated = (
        movements([pair(0.9, 0.84, design_effect=effect)], min_n=30)[0] for effect in (1.0, 6.0)
    )
    assert (plain.certain, correlated.certain) == (True, False)
    assert correlated.n_after == pytest.approx(plain.n_after / 6)


def test_unchanged_perfect_rates_are_no_movement():
    (same,) = movements([pair(1.0, 1.0)], min_n=30)
    assert (same.certain, same.p_value) == (False, 1.0)


def test_movers_are_rarely_named_when_nothing_moved():
    rng = np.random.default_rng(20)
    wrong = 0
    for _ in range(400):
        counts = rng.binomial(300, 0.9, size=(12, 2))
        pairs = [Pair("shop", f"m{i}", tally(a, 300), tally(b, 300)) for i, (a, b) in
                 enumerate(counts.tolist())]  # fmt: skip
        wrong += any(item.certain for item in movements(pairs, min_n=30))
    assert wrong / 400 < 0.085  # 5 % and three standard errors


def test_intervals_of_selected_movers_keep_their_coverage():
    rng, missed, told = np.random.default_rng(21), 0, 0
    for _ in range(300):
        truth = [0.9] * 8 + [0.8] * 4
        pairs = [
            Pair("shop", f"m{i}", tally(int(rng.binomial(300, 0.9)), 300),
                 tally(int(rng.binomial(300, rate)), 300))
            for i, rate in enumerate(truth)
        ]  # fmt: skip
        for item in movements(pairs, min_n=30):
            if item.certain:
                told += 1
                difference = truth[int(item.metric[1:])] - 0.9
                missed += not item.low <= difference <= item.high
    assert told > 500
    assert missed / told < 0.07
