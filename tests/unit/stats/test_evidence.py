"""The e-detector equals its recursion, and what it says of a fall is what theory says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.stats.evidence import NOTHING, bets, falls_below, follow, log_mean

BET = bets(0.85, falls_below(0.85))
LOOKS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(0, 5)), min_size=1, max_size=40
)


def recursion(looks, r=0.0):
    r = np.full(5, r)
    path = []
    for passed, failed, stake in looks:
        r = (r + stake) * np.exp(passed * BET.on_pass + failed * BET.on_fail)
        path.append(r)
    return np.array(path)


def follow_looks(log_r, looks):
    passed, failed, stakes = np.array(looks, dtype=float).T
    return follow(log_r, BET, passed=passed, failed=failed, stakes=stakes)


@given(LOOKS)
def test_path_is_the_recursion(looks):
    looks = [(1, 0, 1.0), *looks]
    expected = recursion(looks)
    found = follow_looks(np.full(5, NOTHING), looks).log_r
    with np.errstate(divide="ignore"):
        assert found == pytest.approx(np.log(expected), abs=1e-8)


@given(LOOKS, st.integers(0, 40))
def test_going_on_from_what_is_remembered_changes_nothing(looks, cut):
    looks = [(0, 1, 1.0), *looks]
    cut = max(1, min(cut, len(looks) - 1))
    whole = follow_looks(np.full(5, NOTHING), looks).log_r[-1]
    if cut == len(looks):
        return
    first = follow_looks(np.full(5, NOTHING), looks[:cut]).log_r[-1]
    assert follow_looks(first, looks[cut:]).log_r[-1] == pytest.approx(whole, abs=1e-8)


def test_bet_at_the_line_is_fair():
    mean = 0.85 * np.exp(BET.on_pass) + 0.15 * np.exp(BET.on_fail)
    assert mean == pytest.approx(1.0)


def test_rate_above_the_line_makes_the_bet_lose():
    assert (0.95 * np.exp(BET.on_pass) + 0.05 * np.exp(BET.on_fail) < 1).all()


def test_improvement_is_a_bet_on_the_other_side():
    upward = bets(0.70, np.array([0.9]))
    assert upward.on_pass[0] > 0 > upward.on_fail[0]


def test_each_line_has_its_bets():
    several = bets(np.array([0.8, 0.9]), np.array([[0.4], [0.45]]))
    assert several.on_pass.shape == (2, 1)


def test_log_mean_does_not_overflow():
    assert log_mean(np.array([[1000.0, 1000.0]]))[0] == pytest.approx(1000.0)
