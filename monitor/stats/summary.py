"""Aggregate figures of scores: the plain ones, from values or from a histogram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.stats.intervals import Interval


class Summary(NamedTuple):
    """Figures of a set of scores in [0, 1]; the deviation is that of a sample (over n - 1)."""

    n: int
    mean: float
    median: float
    std_dev: float
    min: float
    max: float
    percentile_95: float
    histogram: tuple[tuple[str, int], ...]


def summarise(scores: Sequence[float], *, bins: int = 10) -> Summary:
    """
    Summarise scores in [0, 1]: mean, spread, percentile and histogram.

    Parameters
    ----------
    scores
        At least one, each in [0, 1].
    bins
        Bins of the histogram, of equal width over [0, 1]; empty ones are left out.

    Raises
    ------
    ValueError
        If there is no score.

    Examples
    --------
    >>> summarise([0.5, 0.7, 0.9, 0.9]).median
    0.8
    """
    values = np.asarray(scores, dtype=float)
    if len(values) == 0:
        raise ValueError("figures need at least one score")
    return _summary(values, np.ones(len(values)), bins)


def summarise_bins(counts: Mapping[int, int], *, bins: int = 10) -> Summary:
    """
    Summarise a histogram of bins centred on hundredths; right to 0.005.

    Parameters
    ----------
    counts
        Counts by bin, 0 to 100; at least one count.
    bins
        Bins of the histogram that is given back.

    Raises
    ------
    ValueError
        If there is no count.
    """
    positions = sorted(position for position, count in counts.items() if count > 0)
    if not positions:
        raise ValueError("figures need at least one score")
    values = np.array(positions) / 100
    return _summary(values, np.array([float(counts[p]) for p in positions]), bins)


def normal_interval(passed: float, n: float) -> Interval:
    """
    Bound a rate the plain way: p ± 1.96 s.e., cut to [0, 1].

    The normal approximation. Too narrow for small samples and for rates near 0 or 1;
    Wilson's interval is the better one.

    Examples
    --------
    >>> low, high = normal_interval(45, 50)
    >>> round(low, 3), round(high, 3)
    (0.817, 0.983)
    """
    p = passed / n
    half = 1.96 * math.sqrt(p * (1 - p) / n)
    return Interval(max(0.0, p - half), min(1.0, p + half))


def _summary(values: NDArray[np.float64], counts: NDArray[np.float64], bins: int) -> Summary:
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    n = float(counts.sum())
    mean = float((values * counts).sum() / n)
    squares = float((counts * (values - mean) ** 2).sum())
    # A hair to the right, so that 0.7, which is a little less in binary, opens its bin.
    position = np.minimum(bins - 1, np.floor(values * bins + 1e-9).astype(int))
    totals = np.bincount(position, weights=counts, minlength=bins)
    histogram = tuple(
        (f"{k / bins:.1f}-{(k + 1) / bins:.1f}", round(float(total)))
        for k, total in enumerate(totals)
        if total > 0
    )
    return Summary(
        n=round(n),
        mean=mean,
        median=_quantile(values, counts, 0.5),
        std_dev=math.sqrt(squares / (n - 1)) if n > 1 else 0.0,
        min=float(values[0]),
        max=float(values[-1]),
        percentile_95=_quantile(values, counts, 0.95),
        histogram=histogram,
    )


def _quantile(values: NDArray[np.float64], counts: NDArray[np.float64], share: float) -> float:
    """Interpolate between neighbouring scores, as numpy does by default."""
    ends = np.cumsum(counts)
    place = share * (ends[-1] - 1)
    low, high = (
        values[np.searchsorted(ends, k, side="right")] for k in (int(place), math.ceil(place))
    )
    return float(low + (high - low) * (place - int(place)))
