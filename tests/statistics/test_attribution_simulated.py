"""Planted causes are found, and none is invented."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.attribution import explain_change

SEGMENTS = 50


def tally(n, passed):
    return Tally(n=n, passed=passed, sum_w=n, sum_w2=n, sum_wy=passed, sum_w2y=passed)


def period(rng, shares, rates, n):
    sizes = rng.multinomial(n, shares)
    found = {
        f"route=r{k:02}": tally(int(size), int(rng.binomial(size, rate)))
        for k, (size, rate) in enumerate(zip(sizes, rates, strict=True))
    }
    return found, sum(found.values(), start=Tally())


def incident(seed, guilty_rate, uniform=1.0):
    """One guilty segment among fifty of unequal size and rate, or a change of all alike."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(SEGMENTS, 3.0))
    rates = rng.uniform(0.85, 0.97, SEGMENTS)
    guilty = int(rng.choice(np.flatnonzero(shares > 0.01)))
    worse = rates * uniform
    if guilty_rate is not None:
        worse[guilty] = guilty_rate
    before, root_before = period(rng, shares, rates, 20_000)
    after, root_after = period(rng, shares, worse, 3_000)
    found = explain_change(before, after, root_before=root_before, root_after=root_after)
    return f"route=r{guilty:02}", [item.segment for item in found.named]


@pytest.mark.parametrize("guilty_rate", [0.3, 0.5])
def test_guilty_segment_is_named_first(guilty_rate):
    found = [incident(seed, guilty_rate) for seed in range(100)]
    assert sum(named[:1] == [guilty] for guilty, named in found) >= 95


@pytest.mark.parametrize("uniform", [1.0, 0.8, 0.6])
def test_none_is_named_when_all_changed_alike_or_nothing_did(uniform):
    found = [incident(seed, None, uniform) for seed in range(100)]
    assert sum(not named for _, named in found) >= 95
