"""Aggregate figures of scores, and curves: the trend of a rate, a logistic fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monitor.stats.intervals import Interval

Floats = NDArray[np.float64]

_BINS: Final = 10
_LEAST_POINTS, _LEAST_N = 6, 60
_WORTH_PER_DAY, _TOO_WIDE_PER_DAY = 0.02, 0.10
#: A spread beyond sampling noise of this much gives a stability of 1/e.
_SPREAD: Final = 0.05


class Summary(NamedTuple):
    """Figures of scores in [0, 1]; the deviation is over n - 1, the histogram of ten bins."""

    n: int
    mean: float
    median: float
    std_dev: float
    min: float
    max: float
    percentile_95: float
    histogram: tuple[tuple[str, int], ...]


def summarise(scores: Sequence[float]) -> Summary:
    """
    Summarise scores in [0, 1]; raise ValueError if there is none.

    >>> summarise([0.5, 0.7, 0.9, 0.9]).median
    0.8
    """
    values = np.asarray(scores, dtype=float)
    return _summary(values, np.ones(len(values)))


def summarise_bins(counts: Mapping[int, int]) -> Summary:
    """Summarise counts by hundredth, 0 to 100; right to 0.005; raise ValueError if all are 0."""
    filled = {position: float(count) for position, count in counts.items() if count > 0}
    return _summary(np.array([*filled]) / 100, np.array([*filled.values()]))


def _summary(values: NDArray[np.float64], counts: NDArray[np.float64]) -> Summary:
    if not values.size:
        raise ValueError("figures need at least one score")
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    n = float(counts.sum())
    mean = float((values * counts).sum() / n)
    squares = float((counts * (values - mean) ** 2).sum())
    # A hair to the right, so that 0.7, which is a little less in binary, opens its bin.
    position = np.minimum(_BINS - 1, np.floor(values * _BINS + 1e-9).astype(int))
    totals = np.bincount(position, weights=counts, minlength=_BINS)
    histogram = tuple(
        (f"{k / _BINS:.1f}-{(k + 1) / _BINS:.1f}", round(float(total)))
        for k, total in enumerate(totals)
        if total > 0
    )
    ends = np.cumsum(counts)

    def quantile(share: float) -> float:
        """Interpolate between neighbouring scores, as numpy does by default."""
        place = share * (ends[-1] - 1)
        low, high = (
            values[np.searchsorted(ends, k, side="right")] for k in (int(place), math.ceil(place))
        )
        return float(low + (high - low) * (place - int(place)))

    deviation = math.sqrt(squares / (n - 1)) if n > 1 else 0.0
    return Summary(
        round(n), mean, quantile(0.5), deviation, float(values[0]), float(values[-1]),
        quantile(0.95), histogram,
    )  # fmt: skip


def normal_interval(passed: float, n: float) -> Interval:
    """
    Bound a rate the plain way: p ± 1.96 s.e., cut to [0, 1].

    The normal approximation. Too narrow for small samples and for rates near 0 or 1;
    Wilson's interval is the better one.

    >>> low, high = normal_interval(45, 50)
    >>> round(low, 3), round(high, 3)
    (0.817, 0.983)
    """
    p = passed / n
    half = 1.96 * math.sqrt(p * (1 - p) / n)
    return Interval(max(0.0, p - half), min(1.0, p + half))


class PlainTrend(NamedTuple):
    """What the figures of a series say by themselves, without regard to their noise."""

    trend: Literal["improving", "declining", "stable"]
    change_rate: float
    stability_score: float


def plain_trend(scores: Sequence[float], *, tolerance: float = 0.01) -> PlainTrend:
    """
    Describe a series of scores above 0, oldest first; raise ValueError if there is none.

    The rate of change is the whole change over the number of scores, stable within *tolerance* of
    0, and the stability is one less the range over the lowest score.

    >>> trend = plain_trend([0.78, 0.82, 0.85])
    >>> trend.trend, round(trend.change_rate, 2), round(trend.stability_score, 2)
    ('improving', 0.02, 0.91)
    """
    if not scores:
        raise ValueError("a trend needs at least one score")
    change = (scores[-1] - scores[0]) / len(scores)
    lowest = min(scores)
    spread = (max(scores) - lowest) / lowest if lowest > 0 else float(max(scores) > lowest)
    trend: Literal["improving", "declining", "stable"] = "stable"
    if abs(change) > tolerance:
        trend = "improving" if change > 0 else "declining"
    return PlainTrend(trend, change, max(0.0, 1.0 - spread))


class RobustTrend(NamedTuple):
    """A trend with its uncertainty; slopes are a day."""

    direction: Literal["improving", "declining", "stable", "uncertain"]
    change_per_day: float
    low: float
    high: float
    stability: float
    points: int
    n: int


def robust_trend(
    days: Sequence[float], passed: Sequence[float], n: Sequence[float]
) -> RobustTrend | None:
    """
    Fit a line through pass rates by weighted least squares, and say what it is worth.

    Its error grows where the points scatter more than their samples explain. A slope is
    called one when its 95 % interval excludes 0 and it is at least 0.02 a day; it is
    uncertain when the interval is wider than 0.1 a day on either side. Stability is
    exp(-t / 0.05) with t the spread of the rates around the line beyond sampling noise:
    1 when there is none. No alert is based on a trend.

    *days*: times of the points, in days from any origin. *passed* and *n*: passes and scores of
    each point, 0 <= passed <= n; points with n = 0 are left out. None with fewer than 6 points or
    60 scores, or where all points are of one time.

    Source: R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical
    Trials 7 (1986), 177-188.
    """
    t, y, size = (np.asarray(values, dtype=float) for values in (days, passed, n))
    t, y, size = np.stack([t, y, size])[:, size > 0]
    if len(t) < _LEAST_POINTS or size.sum() < _LEAST_N or not np.ptp(t) > 0:
        return None
    rate = y / size
    overall = (y.sum() + 0.5) / (size.sum() + 1)
    noise = overall * (1 - overall)
    weights = size / noise
    middle = float((weights * t).sum() / weights.sum())
    spread = float((weights * (t - middle) ** 2).sum())
    level = float((weights * rate).sum() / weights.sum())
    slope = float((weights * (t - middle) * (rate - level)).sum() / spread)
    rest = rate - level - slope * (t - middle)
    chi2, freedom = float((weights * rest**2).sum()), len(t) - 2
    half = 1.96 * math.sqrt(max(1.0, chi2 / freedom) / spread)
    denominator = float(size.sum() - (size**2).sum() / size.sum())
    beyond = max(0.0, (chi2 - freedom) * noise / denominator) if denominator > 0 else 0.0
    direction: Literal["improving", "declining", "stable", "uncertain"] = "stable"
    if abs(slope) > half and abs(slope) >= _WORTH_PER_DAY:
        direction = "improving" if slope > 0 else "declining"
    elif half > _TOO_WIDE_PER_DAY:
        direction = "uncertain"
    stability = math.exp(-math.sqrt(beyond) / _SPREAD)
    bounds = slope - half, slope + half
    return RobustTrend(direction, slope, *bounds, stability, len(t), round(float(size.sum())))


_MOST_STEPS = 50
_PRECISE = 1e-5
_SHORTEST = 1e-6  # of a step, when nothing but rounding is left to gain
_GAIN = 1e-4  # of what the slope promises (Armijo)


def ridge_logistic(
    design: Floats, targets: Floats, centre: Floats, precision: Floats, counts: Floats | float = 1
) -> Floats:
    """
    Fit log odds that are linear in *design*, by penalised likelihood.

    The mode of the posterior under independent normal beliefs about the weights. It exists
    and is unique for every *design*, also without a row (then it is *centre*), because the
    penalty is strictly convex. Newton's steps are halved until they gain, so they arrive from
    any start.

    *design* and *targets*: shapes (n, d) and (n,); targets in [0, 1]: outcomes, or shares
    (quasi-likelihood). *centre* and *precision*: shape (d,): the weights believed beforehand,
    and how firmly, as 1 / variance, above 0. *counts*: shape (n,): for how many rows
    each row stands.

    Source: S. le Cessie, J. C. van Houwelingen, "Ridge estimators in logistic regression",
    Applied Statistics 41 (1992), 191-201.

    >>> belief = np.array([0.0]), np.array([1.0])
    >>> ridge_logistic(np.empty((0, 1)), np.empty(0), *belief).tolist()
    [0.0]
    >>> ridge_logistic(np.ones((8, 1)), np.repeat([1.0, 0.0], [6, 2]), *belief).round(3).tolist()
    [0.684]
    """

    def cost(weights: Floats) -> float:
        odds, away = design @ weights, weights - centre
        misfit = counts * (np.logaddexp(0, odds) - targets * odds)
        return float(misfit.sum() + away @ (precision * away) / 2)

    weights = centre.astype(float)
    before = cost(weights)
    for _ in range(_MOST_STEPS):
        chance = expit(design @ weights)
        gradient = design.T @ (counts * (chance - targets)) + precision * (weights - centre)
        curvature = (design.T * (counts * chance * (1 - chance))) @ design + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        size, promised = 1.0, _GAIN * float(gradient @ step)
        while (now := cost(weights - size * step)) > before - size * promised and size > _SHORTEST:
            size /= 2
        weights, before = weights - size * step, now
        if float(np.abs(step).max(initial=0.0)) < _PRECISE:
            break
    return weights
