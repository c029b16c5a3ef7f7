"""The sums equal their recursion, bets are fair, and the bound reads what the posterior says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.stats.evidence import (
    BELOW,
    CELLS,
    NOTHING,
    Samples,
    Worth,
    accumulate,
    gain_of_share,
    log_mean,
    log_payoffs,
    rate_grid,
    sample_log_payoffs,
)

GRID = rate_grid(0.85, 0.70)
LOOKS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(0, 5)), min_size=1, max_size=40
)
LOG_P = st.lists(st.floats(-30, 0), min_size=CELLS, max_size=CELLS)


def payoffs(passed, failed, null=0.85, rates=GRID.below):
    counts = (np.asarray(count, dtype=float) for count in (passed, failed))
    return log_payoffs(*counts, null, rates)


def follow(log_r, looks):
    passed, failed, stakes = np.array(looks, dtype=float).T
    return accumulate(log_r[None], payoffs(passed, failed)[None], stakes[None])[0][0]


@given(LOOKS)
def test_evidence_path_matches_its_recursion(looks):
    looks = [(1, 0, 1.0), *looks]
    r, expected = np.zeros(BELOW), []
    for passed, failed, stake in looks:
        r = (r + stake) * np.exp(payoffs(passed, failed))
        expected.append(r)
    with np.errstate(divide="ignore"):
        found = follow(np.full(BELOW, NOTHING), looks)
        assert found == pytest.approx(np.log(expected), abs=1e-8)


@given(LOOKS, st.integers(0, 40))
def test_resuming_from_stored_evidence_changes_nothing(looks, cut):
    looks = [(0, 1, 1.0), *looks]
    cut = max(1, min(cut, len(looks) - 1))
    whole = follow(np.full(BELOW, NOTHING), looks)[-1]
    if cut == len(looks):
        return
    first = follow(np.full(BELOW, NOTHING), looks[:cut])[-1]
    assert follow(first, looks[cut:])[-1] == pytest.approx(whole, abs=1e-8)


def test_bet_at_the_threshold_is_fair():
    mean = 0.85 * np.exp(payoffs(1, 0)) + 0.15 * np.exp(payoffs(0, 1))
    assert mean == pytest.approx(1.0)


def test_rate_above_the_threshold_makes_the_bet_lose():
    assert (0.95 * np.exp(payoffs(1, 0)) + 0.05 * np.exp(payoffs(0, 1)) < 1).all()


def test_bet_on_improvement_pays_on_passes():
    upward = (payoffs(1, 0, 0.70, np.array([0.9])), payoffs(0, 1, 0.70, np.array([0.9])))
    assert upward[0] > 0 > upward[1]


def test_each_threshold_has_its_own_bets():
    null, rates = np.array([[0.8], [0.9]]), np.array([[0.4], [0.45]])
    assert payoffs([1, 2], [0, 0], null, rates).shape == (2, 1)


def test_log_mean_does_not_overflow():
    assert log_mean(np.array([[1000.0, 1000.0]]))[0] == pytest.approx(1000.0)


@given(LOG_P, st.sampled_from([(0.85, 0.70), (0.95, 0.5), (0.6, 0.3)]), st.floats(0.96, 0.999))
def test_bound_below_a_threshold_is_the_posterior_mass_below_it(log_p, thresholds, top):
    grid = rate_grid(*thresholds)
    weights = np.exp(np.array(log_p))
    share = weights / weights.sum()
    for line, level in zip(thresholds, (0.9, 0.95), strict=True):
        below = share[:BELOW][grid.below < line].sum()
        if abs(below - level) < 1e-9:
            continue
        found = grid.quantile(np.array(log_p), np.asarray(top), level)
        assert (found < line) == (below > level)


@given(LOG_P, st.floats(0.86, 0.99))
def test_quantiles_rise_with_the_level_and_end_at_the_top(log_p, top):
    levels = [0.05, 0.5, 0.9, 0.95, 1.0 - 1e-13]
    found = [float(GRID.quantile(np.array(log_p), np.asarray(top), level)) for level in levels]
    assert found == sorted(found)
    assert 0.0 <= found[0] <= found[-1] <= top


def test_grid_of_other_thresholds_is_scaled_and_keeps_its_edges():
    other = rate_grid(0.95, 0.5)
    assert (other.below < 0.5).sum() == (GRID.below < 0.70).sum() == 9
    assert other.below[-1] < 0.95 < other.rates(np.asarray(0.98))[BELOW]


@pytest.mark.parametrize("top", [0.86, 0.95, 1.0])
def test_rates_bet_on_rise_through_both_thresholds_and_stay_below_the_reference(top):
    rates = GRID.rates(np.array([top, top]))
    assert (np.diff(rates) > 0).all()
    assert (rates[:, BELOW - 1] < GRID.warning_rate).all()
    assert (rates[:, BELOW] > GRID.warning_rate).all()
    assert (rates[:, -1] < top).all()


PART = st.floats(0.0, 1.0)


@given(
    f=PART,
    pi=st.floats(1e-4, 1.0),
    m=st.floats(0.3, 0.97),
    depth=st.floats(0.05, 0.95),
    size=st.floats(0.01, 1.0),
    heavy=st.floats(1.0, 30.0),
    part=st.floats(0.05, 1.0),
)
def test_payoff_stays_positive_and_judging_preserves_its_mean(f, pi, m, depth, size, heavy, part):
    """Averaged over asking, a sample pays the plain bet; at the null that has a mean of 1."""
    worth = Worth(size, heavy * part, heavy)
    q = np.array([[m * (1 - depth)]])

    def paid(asked, passed):
        one = Samples(
            np.array([0]), np.array([f]), np.array([pi]), np.array([asked]), np.array([passed]),
            np.array([heavy]),
        )  # fmt: skip
        return float(np.exp(sample_log_payoffs(one, np.array([[m]]), q, worth))[0, 0])

    over_asking = {y: pi * paid(True, y) + (1 - pi) * paid(False, y) for y in (True, False)}
    assert min(paid(True, True), paid(True, False), paid(False, True)) > 0
    assert m * over_asking[True] + (1 - m) * over_asking[False] == pytest.approx(1.0, abs=1e-9)
    assert over_asking[False] >= over_asking[True]


def test_plain_samples_pay_the_plain_bet():
    passed = np.array([True, False, True])
    one = np.ones(3)
    samples = Samples(np.arange(3), one * 0.3, one, one > 0, passed, one)
    found = sample_log_payoffs(samples, np.array([[0.85]]), GRID.below[None], Worth())
    expected = payoffs(passed.astype(float), 1.0 - passed)
    assert found == pytest.approx(expected, abs=1e-12)


def test_gain_rises_with_the_judged_share_up_to_a_plain_sample():
    """A prediction that tells nothing is worth its share; the usual share gains nothing."""
    gains = gain_of_share(0.1, 0.1, np.array([0.1, 0.5, 1.0]))
    assert gains == pytest.approx([1.0, 5.0, 10.0])
    assert gain_of_share(0.3, 0.1, np.array([1.0]))[0] * 0.3 == pytest.approx(1.0)
    assert gain_of_share(1.0, 1.0, np.array([1.0])) == pytest.approx([1.0])


def test_mean_payoff_does_not_depend_on_the_assumed_sample_worth():
    one = np.ones(1)

    def paid(*, asked, passed):
        samples = Samples(
            np.zeros(1, dtype=np.int64), one * 0.8, one * 0.3, one < asked * 2, one < passed * 2,
            one, one * 4.0,
        )  # fmt: skip
        found = sample_log_payoffs(samples, one[:, None] * 0.85, one[:, None] * 0.6, Worth(0.2))
        return float(np.exp(found[0, 0]))

    mean = sum(
        p * (0.3 * paid(asked=1, passed=y) + 0.7 * paid(asked=0, passed=y))
        for p, y in ((0.85, 1), (0.15, 0))
    )
    assert mean == pytest.approx(1.0)


@given(LOG_P, st.floats(0.86, 0.99), st.floats(0.01, 0.99))
def test_quantile_lies_between_the_edges_of_its_cell_in_proportion(log_p, top, level):
    between = 0.85 + (top - 0.85) * np.array([0.2, 0.4, 0.6, 0.8, 1.0])
    edges = [0.0]
    for middle in GRID.below:  # each lies halfway between two edges
        edges.append(2 * middle - edges[-1])
    weights = np.exp(np.array(log_p))
    reached = np.r_[0.0, np.cumsum(weights) / weights.sum()]
    expected = np.interp(level, reached, np.r_[edges, between])
    found = float(GRID.quantile(np.array(log_p), np.asarray(top), level))
    assert found == pytest.approx(expected, abs=1e-6)


@given(LOG_P)
def test_upper_bound_is_90_percent_and_95_percent_for_critical(log_p):
    log_p, top = np.array(log_p), np.asarray(0.95)
    usual, strict = (float(GRID.quantile(log_p, top, level)) for level in (0.90, 0.95))
    expected = strict if strict < 0.70 else max(usual, 0.70)
    assert float(GRID.upper(log_p, top)) == pytest.approx(expected)


def test_grid_without_a_reference_ends_a_tenth_above_the_threshold_or_halfway_to_one():
    known, unknown = GRID.top(np.array([0.93, np.nan]))
    assert (known, unknown) == (0.93, pytest.approx(0.925))
    assert rate_grid(0.6, 0.5).top(np.array(np.nan)) == pytest.approx(0.7)


@given(st.lists(st.floats(-40, 40), min_size=1, max_size=8))
def test_log_mean_is_the_log_of_the_mean(values):
    expected = np.log(np.mean(np.exp(values)))
    assert float(log_mean(np.array(values))) == pytest.approx(expected, abs=1e-9)


@given(st.floats(0.05, 1.0), st.floats(0.05, 0.95), st.floats(0.05, 1.0))
def test_gain_of_a_share_is_the_variance_ratio_of_the_estimates(left, usual, share):
    """A part that the prediction leaves whoever is asked, and a part that falls with the share."""

    def variance(asked):
        return left + (1 - left) / asked

    found = gain_of_share(1 / variance(usual), usual, np.array([share, usual]))
    assert found == pytest.approx([variance(usual) / variance(share), 1.0])
