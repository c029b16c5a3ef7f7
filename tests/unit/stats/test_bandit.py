"""Thompson sampling: shares are probabilities of being best, and the better variant wins."""

import numpy as np
import pytest

from monitor.stats.multiplicity import thompson_shares


@pytest.mark.parametrize(
    ("passed", "n"), [((90, 80), (100, 100)), ((5, 4, 6), (10, 5, 20)), ((900, 9), (1000, 10))]
)
def test_share_is_the_probability_of_being_best(passed, n):
    passed, n = np.array(passed, dtype=float), np.array(n, dtype=float)
    draws = np.random.default_rng(1).beta(passed + 1, n - passed + 1, (200_000, len(n)))
    best = np.bincount(draws.argmax(axis=1), minlength=len(n)) / 200_000
    assert thompson_shares(passed, n) == pytest.approx(best, abs=0.005)


def test_unknown_variants_are_split_evenly():
    assert thompson_shares(np.zeros(4), np.zeros(4)) == pytest.approx([0.25] * 4)


def test_certain_variant_gets_all_traffic_and_shares_sum_to_one():
    shares = thompson_shares(np.array([9e5, 1e5]), np.array([1e6, 1e6]))
    assert shares == pytest.approx([1.0, 0.0], abs=1e-9)


def better_share(seed, requests=2_000, batch=50):
    random = np.random.default_rng(seed)
    passed, n = np.zeros(2), np.zeros(2)
    for _ in range(requests // batch):
        chosen = random.random(batch) >= thompson_shares(passed, n)[0]
        for variant, rate in enumerate((0.9, 0.8)):
            count = int((chosen == variant).sum())
            n[variant] += count
            passed[variant] += random.binomial(count, rate)
    return n[0] / requests


def test_better_variant_gets_nearly_all_traffic():
    assert np.median([better_share(seed) for seed in range(15)]) >= 0.93
