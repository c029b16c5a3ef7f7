"""How far two histograms lie apart, and how much of that is the noise of small samples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, rel_entr

from monitor.stats.distance import (
    Histogram,
    check_pair,
    merge_equal_mass,
    population_stability_index,
)

_LEAST_DEVIATION = 0.001


class Divergence(NamedTuple):
    """
    A distance, what chance alone adds to it, and the probability of so much by chance.

    ``excess`` is the distance with the part that samples of these sizes show without any
    change taken away, at least 0. Where no p-value is known it is None.
    """

    value: float
    excess: float
    p_value: float | None


def psi_test(reference: Histogram, current: Histogram, *, design_effect: float = 1.0) -> Divergence:
    """
    Compare two histograms by the population stability index, in ten bins.

    Without a change, index × mn/(m+n) follows about a chi-square distribution with one
    degree of freedom less than there are bins. At 60 scores the p-value is somewhat too
    large; do not decide by it below 200.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), sums above 0.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.

    References
    ----------
    .. [1] B. Yurdakul, J. Naranjo, "Statistical properties of the population stability
       index", Journal of Risk Model Validation 14 (2020).
    """
    index = max(0.0, population_stability_index(reference, current))
    merged, _ = merge_equal_mass(reference, current)
    freedom, size = len(merged) - 1, _size(reference, current) / design_effect
    return Divergence(index, max(0.0, index - freedom / size), _chi2(freedom, index * size))


def jensen_shannon(
    reference: Histogram, current: Histogram, *, design_effect: float = 1.0
) -> Divergence:
    """
    Compare two histograms by the Jensen-Shannon distance, natural logarithm, all bins.

    Without a change, 8 mn/(m+n) × divergence follows about a chi-square distribution; with
    sparse bins that is too liberal, so the p-value is the one of ten merged bins. Below 200
    scores decide by the G test.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), sums above 0.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.

    Returns
    -------
    Divergence
        The distance is the square root of the divergence, at most sqrt(log 2).

    References
    ----------
    .. [1] J. Lin, "Divergence measures based on the Shannon entropy", IEEE Trans. Inf.
       Theory 37 (1991), 145-151.
    """
    check_pair(reference, current)
    size = _size(reference, current) / design_effect
    merged = merge_equal_mass(reference, current)
    freedom, within = len(merged[0]) - 1, _shannon(*merged)
    excess = math.sqrt(max(0.0, within - freedom / (8 * size)))
    distance = math.sqrt(_shannon(reference, current))
    return Divergence(distance, excess, _chi2(freedom, 8 * size * within))


def wasserstein(
    reference: Histogram, current: Histogram, *, width: float = 0.01, design_effect: float = 1.0
) -> Divergence:
    """
    Tell how far the scores moved on average, in standard deviations of the reference.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), sums above 0.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.
    width
        Distance between the centres of two bins, in units of the score.

    Returns
    -------
    Divergence
        Without a p-value: its distribution depends on the shape of the scores.
    """
    check_pair(reference, current)
    first, second = (np.cumsum(h) / h.sum() for h in (reference, current))
    pooled = np.cumsum(reference + current) / (reference.sum() + current.sum())
    spread = np.sqrt(np.clip(pooled * (1 - pooled), 0, None)).sum()
    deviation = max(_deviation(reference, width), _LEAST_DEVIATION)
    distance = width * float(np.abs(first - second).sum()) / deviation
    size = _size(reference, current) / design_effect
    noise = math.sqrt(2 / math.pi / size) * width * float(spread) / deviation
    return Divergence(distance, max(0.0, distance - noise), None)


def g_test(reference: Histogram, current: Histogram, *, design_effect: float = 1.0) -> Divergence:
    """
    Test by the likelihood ratio whether two samples of counts share one distribution.

    Bins that are empty in both are left out. The chi-square approximation wants about
    five expected counts a bin; merge the bins first where there are fewer.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), sums above 0.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.
    """
    check_pair(reference, current)
    table = np.stack([reference, current])[:, (reference + current) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = max(0.0, 2 * float(rel_entr(table, expected).sum()))
    freedom = table.shape[1] - 1
    excess = max(0.0, statistic - freedom * design_effect)
    return Divergence(statistic, excess, _chi2(freedom, statistic / design_effect))


def _size(reference: Histogram, current: Histogram) -> float:
    """Give mn/(m+n): what two samples together are worth."""
    m, n = float(reference.sum()), float(current.sum())
    return m * n / (m + n)


def _shannon(reference: Histogram, current: Histogram) -> float:
    p, q = reference / reference.sum(), current / current.sum()
    middle = (p + q) / 2
    return max(0.0, float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / 2)


def _deviation(counts: Histogram, width: float) -> float:
    x = width * np.arange(len(counts))
    mean = float((counts * x).sum() / counts.sum())
    return math.sqrt(max(0.0, float((counts * (x - mean) ** 2).sum() / counts.sum())))


def _chi2(freedom: int, statistic: float) -> float:
    return float(chdtrc(freedom, statistic)) if freedom > 0 else 1.0
