"""How far two histograms of scores lie apart."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

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
