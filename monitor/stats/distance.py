"""
Whether two samples of scores differ, and how far they lie apart.

Scores come as histograms: float arrays of counts of the same shape (bins,), sums above 0; other
pairs raise ValueError. Every p-value is for one look at independent scores; ``design_effect``, at
least 1, says by how much correlation within sessions inflates the variance.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, kolmogorov, ndtr, rel_entr, stdtr

from monitor.stats.intervals import Interval, binomial

Histogram = NDArray[np.float64]

_PSI_BINS: Final = 10
_SMOOTHING: Final = 0.5
#: Beyond this size of the smaller sample the asymptotic p-value serves: it errs to the safe side.
MOST_EXACT: Final = 600
_TINY: Final = 1e-9


def population_stability_index(reference: Histogram, current: Histogram) -> float:
    """
    Return the population stability index, at least 0; by convention 0.25 is a major change.

    The bins are merged to ten of about equal mass in the reference, and half a count is added to
    each. Small samples raise the index by about (bins - 1)(1/m + 1/n) though nothing changed.

    Source: N. Siddiqi, "Credit Risk Scorecards", Wiley (2006), chapter 10.

    >>> population_stability_index(np.array([5.0, 5.0]), np.array([5.0, 5.0]))
    0.0
    """
    p, q = (
        (counts + _SMOOTHING) / (counts + _SMOOTHING).sum()
        for counts in merge_equal_mass(reference, current)
    )
    return float(np.sum((q - p) * np.log(q / p)))


def kolmogorov_smirnov(reference: Histogram, current: Histogram) -> float:
    """
    Return the largest gap between two cumulative distributions, in [0, 1].

    Exact for the binned scores; binning can only make it smaller.

    Source: N. Smirnov, "Table for estimating the goodness of fit of empirical distributions",
    Annals of Mathematical Statistics 19 (1948), 279-281.

    >>> kolmogorov_smirnov(np.array([4.0, 0.0]), np.array([1.0, 3.0]))
    0.75
    """
    _check_pair(reference, current)
    gaps = np.cumsum(reference) / reference.sum() - np.cumsum(current) / current.sum()
    return float(np.max(np.abs(gaps)))


def merge_equal_mass(reference: Histogram, current: Histogram) -> tuple[Histogram, Histogram]:
    """Merge the bins of both alike, to at most ten of about equal reference mass; none empty."""
    _check_pair(reference, current)
    filled = (reference + current) > 0
    reference, current = reference[filled], current[filled]
    # By the middle of each bin's mass: a bin that holds much keeps a group of its own.
    middle = np.cumsum(reference) - reference / 2
    groups = np.floor(_PSI_BINS * middle / reference.sum()).astype(np.int64)
    groups = np.unique(np.minimum(groups, _PSI_BINS - 1), return_inverse=True)[1]
    first, second = (
        np.asarray(np.bincount(groups, weights=counts), dtype=np.float64)
        for counts in (reference, current)
    )
    return first, second


class GTestResult(NamedTuple):
    """The statistic of the likelihood ratio, at least 0, and its p-value."""

    statistic: float
    p_value: float


def g_test(reference: Histogram, current: Histogram) -> GTestResult:
    """
    Test by the likelihood ratio whether two samples of counts share one distribution.

    Bins that are empty in both are left out. The chi-square approximation wants about
    five expected counts a bin; merge the bins first where there are fewer.
    """
    _check_pair(reference, current)
    table = np.stack([reference, current])[:, (reference + current) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = max(0.0, 2 * float(rel_entr(table, expected).sum()))
    freedom = table.shape[1] - 1
    return GTestResult(statistic, float(chdtrc(freedom, statistic)) if freedom else 1.0)


class KSResult(NamedTuple):
    """The largest gap between two cumulative distributions, in [0, 1], and its p-value."""

    distance: float
    p_value: float
    exact: bool


def ks_test(
    reference: Histogram,
    current: Histogram,
    *,
    exact_below: float = 1.0,
    design_effect: float = 1.0,
) -> KSResult:
    """
    Test whether two samples of binned scores, whole counts, come from one distribution.

    First by the asymptotic p-value, which is too large when scores are tied: valid, and blind.
    Where that is below *exact_below* and the smaller sample has at most 600 scores, the p-value is
    exact given the ties: the probability, over all ways to deal the pooled scores out to two
    samples of these sizes, of a gap at least as large. With a *design_effect* above 1 it is the
    asymptotic one for samples that are worth as much less.

    Sources: M. A. Stephens, "Use of the Kolmogorov-Smirnov, Cramer-von Mises and related
    statistics without extensive tables", JRSS B 32 (1970), 115-122; G. Schröer, D. Trenkler,
    "Exact and randomization distributions of Kolmogorov-Smirnov tests two or three samples",
    CSDA 20 (1995), 185-202.

    >>> ks_test(np.array([4.0, 0.0]), np.array([0.0, 4.0])).distance
    1.0
    """
    distance = kolmogorov_smirnov(reference, current)
    sizes = float(reference.sum()), float(current.sum())
    e = math.sqrt(sizes[0] * sizes[1] / sum(sizes) / design_effect)
    screen = float(kolmogorov((e + 0.12 + 0.11 / e) * distance))
    smaller, larger = sorted((reference, current), key=lambda counts: float(counts.sum()))
    if screen >= exact_below or smaller.sum() > MOST_EXACT or design_effect > 1:
        return KSResult(distance, screen, exact=False)
    n, m = round(float(smaller.sum())), round(float(larger.sum()))
    taken = np.arange(n + 1)
    ways: NDArray[np.float64] = np.zeros(n + 1)
    ways[0] = 1.0
    dealt = 0
    # Sum the probability of all ways to deal the scores out that never reach the distance.
    for tied in (smaller + larger).round().astype(int):
        if tied == 0:
            continue
        dealt += int(tied)
        ways = np.convolve(ways, binomial(int(tied), n / (n + m), n))[: n + 1]
        ways[np.abs(taken / n - (dealt - taken) / m) >= distance - _TINY] = 0.0
    stays_below = float(ways[n]) / float(binomial(n + m, n / (n + m), n)[n])
    return KSResult(distance, min(1.0, max(0.0, 1.0 - stays_below)), exact=True)


class MannWhitneyResult(NamedTuple):
    """
    The probability, in [0, 1], that a current score is above a reference one, and its p-value.

    A tie counts a half, so 0.5 means that neither tends to be higher.
    """

    superiority: float
    p_value: float


def mann_whitney(
    reference: Histogram, current: Histogram, *, design_effect: float = 1.0
) -> MannWhitneyResult:
    """
    Test, on both sides, whether scores tend to be higher or lower than they were.

    By the normal approximation, corrected for ties and continuity: good from about 20 scores a
    side. The p-value is 1 when all scores are equal.

    Source: H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Ann. Math. Stat. 18 (1947), 50-60.

    >>> mann_whitney(np.array([4.0, 0.0]), np.array([0.0, 4.0])).superiority
    1.0
    """
    _check_pair(reference, current)
    m, n = float(reference.sum()), float(current.sum())
    below = np.cumsum(reference) - reference
    u = float(np.sum(current * (below + reference / 2)))
    tied = reference + current
    size = m + n
    ties = float(np.sum(tied**3 - tied))
    variance = design_effect * m * n / 12 * (size + 1 - ties / (size * (size - 1)))
    if variance <= 0:
        return MannWhitneyResult(u / (m * n), 1.0)
    z = (abs(u - m * n / 2) - 0.5) / math.sqrt(variance)
    return MannWhitneyResult(u / (m * n), float(min(1.0, 2 * ndtr(-max(0.0, z)))))


class Moments(NamedTuple):
    """Size, mean and variance (over n - 1) of a sample; the size may be an effective one."""

    n: float
    mean: float
    variance: float


class Effect(NamedTuple):
    """Cohen's d with Hedges' correction, and Welch's t test of the difference of means."""

    d: float
    p_value: float
    difference: float
    interval: Interval  #: at 95 %, of the difference; not cut to [0, 1]


def standardized_difference(reference: Moments, current: Moments) -> Effect:
    """
    Compare two means: current - reference, in pooled standard deviations.

    Welch's test needs no equal variances and works from about 20 a side whatever the shape of the
    scores. By convention 0.2 is small, 0.5 medium and 0.8 large. Where neither sample varies, d is
    0 or infinite and the p-value 1 or 0.

    Raise ValueError if a sample has one score or none.

    Sources: L. V. Hedges, "Distribution theory for Glass's estimator of effect size", Journal
    of Educational Statistics 6 (1981), 107-128; B. L. Welch, "The generalization of Student's
    problem when several different population variances are involved", Biometrika 34 (1947),
    28-35.

    >>> round(standardized_difference(Moments(50, 0.8, 0.04), Moments(50, 0.7, 0.04)).d, 3)
    -0.496
    """
    if not (reference.n > 1 and current.n > 1):
        raise ValueError("need more than one score a side")
    difference = current.mean - reference.mean
    freedom = reference.n + current.n - 2
    pooled = ((reference.n - 1) * reference.variance + (current.n - 1) * current.variance) / freedom
    first, second = reference.variance / reference.n, current.variance / current.n
    if first + second <= 0:
        same = difference == 0
        d = 0.0 if same else math.copysign(math.inf, difference)
        return Effect(d, float(same), difference, Interval(difference, difference))
    error = math.sqrt(first + second)
    welch = (first + second) ** 2 / (
        first * first / (reference.n - 1) + second * second / (current.n - 1)
    )
    p_value = min(1.0, float(2 * stdtr(welch, -abs(difference) / error)))
    hedges = 1 - 3 / (4 * freedom - 1)
    bounds = Interval(difference - 1.96 * error, difference + 1.96 * error)
    return Effect(difference / math.sqrt(pooled) * hedges, p_value, difference, bounds)


def _check_pair(reference: Histogram, current: Histogram) -> None:
    if reference.shape != current.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {current.shape}")
    if reference.sum() <= 0 or current.sum() <= 0:
        raise ValueError("a histogram is empty")
