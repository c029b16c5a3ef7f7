"""Planted causes are found, and none is invented."""

import numpy as np
import pytest

from support.incidents import Incident, explain


def incident(seed, guilty_rate, uniform=1.0):
    return explain(np.random.default_rng(seed), Incident(guilty_rate, uniform))


@pytest.mark.parametrize("guilty_rate", [0.3, 0.5])
def test_guilty_segment_is_named_first(guilty_rate):
    found = [incident(seed, guilty_rate) for seed in range(100)]
    assert sum(named[:1] == [guilty] for guilty, named in found) >= 95


@pytest.mark.parametrize("uniform", [1.0, 0.8, 0.6])
def test_no_segment_is_named_when_all_changed_alike_or_nothing_changed(uniform):
    found = [incident(seed, None, uniform) for seed in range(100)]
    assert sum(not named for _, named in found) >= 95
