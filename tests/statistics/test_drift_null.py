"""When nothing changed: p-values keep their level, and detectors their run length."""

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.drift import ScoreDetector, advance, null_mean, score_reference, threshold
from monitor.rolling.tallies import tally_of
from monitor.stats.distance import (
    Moments,
    g_test,
    ks_test,
    mann_whitney,
    merge_equal_mass,
    standardized_difference,
)
from monitor.stats.evidence import locate_change, log_mean
from monitor.testing import make_evaluation

RUNS = 600


def graded(rng, n):
    """Scores of a judge that gives only five grades."""
    return np.bincount(rng.choice(5, n, p=[0.03, 0.05, 0.12, 0.3, 0.5]) * 25, minlength=101) * 1.0


def fine(rng, n):
    """Scores as a continuous scorer gives them, in their bins."""
    return np.bincount(np.floor(rng.beta(8, 2, n) * 100 + 0.5).astype(int), minlength=101) * 1.0


def welch(first, second):
    x = np.arange(101) / 100
    return standardized_difference(*(_moments(x, h) for h in (first, second)))


def merged_g_test(first, second):
    return g_test(*merge_equal_mass(first, second))


def _moments(x, counts):
    n = counts.sum()
    mean = (counts * x).sum() / n
    return Moments(n, mean, (counts * (x - mean) ** 2).sum() / (n - 1))


@pytest.mark.parametrize("scores", [graded, fine])
@pytest.mark.parametrize(
    ("test", "n", "most"),
    [
        (ks_test, 60, 0.05),
        (mann_whitney, 60, 0.05),
        (welch, 60, 0.055),
        (merged_g_test, 60, 0.065),
    ],
)
def test_p_values_keep_their_level_with_ties_and_bins(scores, test, n, most):
    rng = np.random.default_rng(11)
    found = np.array([test(scores(rng, 1000), scores(rng, n)).p_value for _ in range(RUNS)])
    for level in (0.05, 0.2):
        noise = 3 * np.sqrt(level * (1 - level) / RUNS)
        allowed = level * most / 0.05
        assert np.mean(found <= level) <= allowed + noise
        # And they do not sleep: a test that never says anything would pass the line above.
        assert np.mean(found <= level) >= 0.4 * level


def test_mean_detector_keeps_its_run_length():
    rng = np.random.default_rng(5)
    days, budget = 30, 1.0
    base = score_reference(
        Tally.total(
            tally_of(make_evaluation(score=s), sample_rate=1.0, pass_score=0.7)
            for s in rng.beta(8, 2, 3000)
        )
    )
    line, alarms = np.log(threshold(600, budget)), 0
    for turned in (False, True):
        null = null_mean(base._replace(mean=1 - base.mean) if turned else base)
        for _ in range(2):
            counts = np.stack([
                np.bincount(np.floor(rng.beta(8, 2, n) * 100 + 0.5).astype(int), minlength=101)
                for n in rng.poisson(10, days * 144)
            ])  # fmt: skip
            left = counts[:, ::-1] if turned else counts
            while left.size:
                path = advance(ScoreDetector(), left, null=null)
                over = np.flatnonzero(log_mean(path) >= line)
                alarms += over.size > 0
                left = left[over[0] + 1 :] if over.size else left[:0]
    assert alarms <= 1


def test_mean_detector_finds_a_fall_quickly():
    rng = np.random.default_rng(6)
    base = score_reference(
        Tally.total(
            tally_of(make_evaluation(score=s), sample_rate=1.0, pass_score=0.7)
            for s in rng.beta(8, 2, 3000)
        )
    )
    counts = np.stack([
        np.bincount(np.floor(rng.beta(5, 3, 10) * 100 + 0.5).astype(int), minlength=101)
        for _ in range(15)
    ])  # fmt: skip
    path = advance(ScoreDetector(), counts, null=null_mean(base))
    assert (log_mean(path) >= np.log(threshold(60, 0.1))).any()


def test_onset_range_contains_the_true_onset():
    rng = np.random.default_rng(8)
    hits, widths = 0, []
    for _ in range(300):
        onset = int(rng.integers(20, 100))
        rate = np.where(np.arange(120) < onset, 0.92, 0.7)
        n = rng.poisson(6, 120).astype(float)
        found = locate_change(
            rng.binomial(n.astype(int), rate).astype(float),
            n,
            reference_passed=1840.0,
            reference_n=2000.0,
        )
        hits += found.low <= onset <= found.high
        widths.append(found.high - found.low)
    assert hits >= 0.92 * 300
    assert np.median(widths) <= 15


def test_series_without_a_change_gives_no_evidence_of_one():
    rng = np.random.default_rng(9)
    strong = 0
    for _ in range(300):
        n = rng.poisson(6, 120).astype(float)
        passed = rng.binomial(n.astype(int), 0.92).astype(float)
        found = locate_change(passed, n, reference_passed=1840.0, reference_n=2000.0)
        strong += found.evidence > 3
    assert strong <= 15


def test_correlated_sessions_raise_no_drift_once_their_effect_is_measured():
    """Three scores of a session that are mostly alike: worth less, and tested as such."""
    rng = np.random.default_rng(13)

    def sessions(n):
        shared = rng.beta(8, 2, n // 3).repeat(3)
        alike = rng.random(n) < 0.8
        scores = np.where(alike, shared, rng.beta(8, 2, n))
        return np.bincount(np.floor(scores * 100 + 0.5).astype(int), minlength=101) * 1.0

    # The share of a session that agrees, squared, times two others.
    effect = 1 + 2 * 0.8**2
    pairs = [(sessions(1500), sessions(120)) for _ in range(400)]
    for test in (ks_test, mann_whitney):
        naive = np.mean([test(*pair).p_value <= 0.05 for pair in pairs])
        known = np.mean([test(*pair, design_effect=effect).p_value <= 0.05 for pair in pairs])
        assert naive > 0.1
        assert known <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
