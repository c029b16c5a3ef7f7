"""How far two histograms lie apart, and how much of that is the noise of small samples."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, rel_entr

Histogram = NDArray[np.float64]

_PSI_BINS: Final = 10
_SMOOTHING: Final = 0.5


def population_stability_index(reference: Histogram, current: Histogram) -> float:
    """
    Compare two histograms by the population stability index.

    The bins are merged to ten of about equal mass in the reference, and half a
    count is added to each, so that an empty bin gives no infinity. Small samples
    raise the index by about (bins - 1)(1/m + 1/n) though nothing changed.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), none negative, sums above 0.

    Returns
    -------
    float
        At least 0; by convention 0.1 is a small change and 0.25 a major one.

    Raises
    ------
    ValueError
        If the shapes differ or a histogram is empty.

    References
    ----------
    .. [1] N. Siddiqi, "Credit Risk Scorecards", Wiley (2006), chapter 10.

    Examples
    --------
    >>> import numpy as np
    >>> population_stability_index(np.array([5.0, 5.0]), np.array([5.0, 5.0]))
    0.0
    """
    p, q = (_shares(counts) for counts in merge_equal_mass(reference, current))
    return float(np.sum((q - p) * np.log(q / p)))


def kolmogorov_smirnov(reference: Histogram, current: Histogram) -> float:
    """
    Give the largest gap between two cumulative distributions.

    Exact for the binned scores; binning can only make it smaller.

    Parameters
    ----------
    reference, current
        Counts, float arrays of the same shape (bins,), none negative, sums above 0.

    Returns
    -------
    float
        In [0, 1]; 0 when the distributions agree, 1 when they do not overlap.

    Raises
    ------
    ValueError
        If the shapes differ or a histogram is empty.

    References
    ----------
    .. [1] N. Smirnov, "Table for estimating the goodness of fit of empirical
       distributions", Annals of Mathematical Statistics 19 (1948), 279-281.

    Examples
    --------
    >>> import numpy as np
    >>> kolmogorov_smirnov(np.array([4.0, 0.0]), np.array([1.0, 3.0]))
    0.75
    """
    check_pair(reference, current)
    gaps = np.cumsum(reference) / reference.sum() - np.cumsum(current) / current.sum()
    return float(np.max(np.abs(gaps)))


def merge_equal_mass(reference: Histogram, current: Histogram) -> tuple[Histogram, Histogram]:
    """
    Merge the bins of two histograms alike, to at most ten of about equal reference mass.

    Bins in which neither has a count belong to no group.
    """
    check_pair(reference, current)
    filled = (reference + current) > 0
    reference, current = reference[filled], current[filled]
    groups = _equal_mass_groups(reference)
    return _merge(groups, reference), _merge(groups, current)


def check_pair(reference: Histogram, current: Histogram) -> None:
    """Refuse two histograms that cannot be compared."""
    if reference.shape != current.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {current.shape}")
    if reference.sum() <= 0 or current.sum() <= 0:
        raise ValueError("a histogram is empty")


def _equal_mass_groups(reference: Histogram) -> NDArray[np.int64]:
    """Assign each bin to one of at most ten groups of about equal reference mass."""
    # By the middle of each bin's mass: a bin that holds much keeps a group of its own.
    middle = np.cumsum(reference) - reference / 2
    groups = np.floor(_PSI_BINS * middle / reference.sum()).astype(np.int64)
    return np.unique(np.minimum(groups, _PSI_BINS - 1), return_inverse=True)[1].astype(np.int64)


def _merge(groups: NDArray[np.int64], counts: Histogram) -> Histogram:
    return np.asarray(np.bincount(groups, weights=counts), dtype=np.float64)


def _shares(counts: Histogram) -> Histogram:
    smooth = counts + _SMOOTHING
    return np.asarray(smooth / smooth.sum())


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
