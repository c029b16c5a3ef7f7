"""The Kolmogorov-Smirnov test on binned scores, exact under ties."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, kolmogorov, xlog1py, xlogy

from monitor.stats.distance import Histogram, kolmogorov_smirnov

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
