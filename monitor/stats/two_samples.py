"""Tests whether two samples of scores differ: Kolmogorov-Smirnov, Mann-Whitney, Welch."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, kolmogorov, ndtr, stdtr, xlog1py, xlogy

from monitor.stats.distance import Histogram, check_pair, kolmogorov_smirnov
from monitor.stats.intervals import Interval

#: Beyond this size of the smaller sample the asymptotic p-value serves: it errs to the safe side.
MOST_EXACT: Final = 600
_TINY = 1e-9


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
    Test whether two samples of binned scores come from one distribution.

    First by the asymptotic p-value, which is too large when scores are tied: valid, and
    blind. Where that is below *exact_below* and the smaller sample has at most 600 scores,
    the p-value is exact given the ties: the probability, over all ways to deal the pooled
    scores out to two samples of these sizes, of a gap at least as large. Valid for
    independent scores and one look; neither knows of sessions or of looking again.

    Parameters
    ----------
    reference, current
        Whole counts, float arrays of the same shape (bins,), sums above 0.
    exact_below
        The asymptotic p-value below which the exact one is worth its time.
    design_effect
        At least 1; above 1, by how much correlation within sessions inflates the variance,
        the p-value is the asymptotic one for samples that are worth as much less.

    Returns
    -------
    KSResult
        Distance and p-value, both in [0, 1].

    Raises
    ------
    ValueError
        If the shapes differ or a histogram is empty.

    References
    ----------
    .. [1] M. A. Stephens, "Use of the Kolmogorov-Smirnov, Cramer-von Mises and related
       statistics without extensive tables", JRSS B 32 (1970), 115-122.
    .. [2] G. Schröer, D. Trenkler, "Exact and randomization distributions of
       Kolmogorov-Smirnov tests two or three samples", CSDA 20 (1995), 185-202.

    Examples
    --------
    >>> import numpy as np
    >>> ks_test(np.array([4.0, 0.0]), np.array([0.0, 4.0])).distance
    1.0
    """
    distance = kolmogorov_smirnov(reference, current)
    m, n = float(reference.sum()), float(current.sum())
    e = math.sqrt(m * n / (m + n) / design_effect)
    screen = float(kolmogorov((e + 0.12 + 0.11 / e) * distance))
    if screen >= exact_below or min(m, n) > MOST_EXACT or design_effect > 1:
        return KSResult(distance, screen, exact=False)
    smaller, larger = (reference, current) if m < n else (current, reference)
    return KSResult(distance, _exact(smaller, larger, distance), exact=True)


def _exact(smaller: Histogram, larger: Histogram, distance: float) -> float:
    """Sum the probability of all ways to deal the scores out that never reach the distance."""
    n, m = round(float(smaller.sum())), round(float(larger.sum()))
    rate = n / (n + m)
    taken = np.arange(n + 1)
    ways: NDArray[np.float64] = np.zeros(n + 1)
    ways[0] = 1.0
    dealt = 0
    for tied in (smaller + larger).round().astype(int):
        if tied == 0:
            continue
        dealt += int(tied)
        ways = np.convolve(ways, _binomial(int(tied), rate, n))[: n + 1]
        ways[np.abs(taken / n - (dealt - taken) / m) >= distance - _TINY] = 0.0
    stays_below = float(ways[n]) / float(_binomial(n + m, rate, n)[n])
    return min(1.0, max(0.0, 1.0 - stays_below))


def _binomial(trials: int, rate: float, most: int) -> NDArray[np.float64]:
    """Give the probabilities of 0 to min(trials, most) successes."""
    k = np.arange(min(trials, most) + 1)
    log = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(np.exp(log + xlogy(k, rate) + xlog1py(trials - k, -rate)), dtype=np.float64)


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

    By the normal approximation, corrected for ties and continuity: good from about 20
    scores a side. Valid for independent scores and one look.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), sums above 0.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.

    Returns
    -------
    MannWhitneyResult
        The p-value is 1 when all scores are equal.

    Raises
    ------
    ValueError
        If the shapes differ or a histogram is empty.

    References
    ----------
    .. [1] H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is
       stochastically larger than the other", Ann. Math. Stat. 18 (1947), 50-60.

    Examples
    --------
    >>> import numpy as np
    >>> mann_whitney(np.array([4.0, 0.0]), np.array([0.0, 4.0])).superiority
    1.0
    """
    check_pair(reference, current)
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

    Welch's test needs no equal variances and works from about 20 a side whatever the
    shape of the scores. Valid for one look. By convention 0.2 is small, 0.5 medium and
    0.8 large.

    Parameters
    ----------
    reference, current
        Each with n > 1.

    Returns
    -------
    Effect
        When neither sample varies, d is 0 or infinite and the p-value 1 or 0.

    Raises
    ------
    ValueError
        If a sample has one score or none.

    References
    ----------
    .. [1] L. V. Hedges, "Distribution theory for Glass's estimator of effect size",
       Journal of Educational Statistics 6 (1981), 107-128.
    .. [2] B. L. Welch, "The generalization of Student's problem when several different
       population variances are involved", Biometrika 34 (1947), 28-35.

    Examples
    --------
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
    p_value = float(2 * stdtr(welch, -abs(difference) / error))
    hedges = 1 - 3 / (4 * freedom - 1)
    half = 1.96 * error
    return Effect(
        difference / math.sqrt(pooled) * hedges,
        min(1.0, p_value),
        difference,
        Interval(difference - half, difference + half),
    )
