"""Where a rate is going: the plain way, and one that knows the noise of sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

Direction = Literal["improving", "declining", "stable", "uncertain"]

_LEAST_POINTS, _LEAST_N = 6, 60
_WORTH_PER_DAY, _TOO_WIDE_PER_DAY = 0.02, 0.10
#: A spread beyond sampling noise of this much gives a stability of 1/e.
_SPREAD: Final = 0.05


class PlainTrend(NamedTuple):
    """What the figures of a series say by themselves, without regard to their noise."""

    trend: Literal["improving", "declining", "stable"]
    change_rate: float
    stability_score: float


class RobustTrend(NamedTuple):
    """A trend with its uncertainty; slopes are a day."""

    direction: Direction
    change_per_day: float
    low: float
    high: float
    stability: float
    points: int
    n: int


def plain_trend(scores: Sequence[float], *, tolerance: float = 0.01) -> PlainTrend:
    """
    Describe a series of scores, oldest first: its trend and stability.

    The rate of change is the whole change over the number of scores, and the stability is
    one less the range over the lowest score.

    Parameters
    ----------
    scores
        At least one; above 0.
    tolerance
        A rate of change within this of 0 is stable.

    Raises
    ------
    ValueError
        If there is no score.

    Examples
    --------
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


def robust_trend(
    days: Sequence[float], passed: Sequence[float], n: Sequence[float]
) -> RobustTrend | None:
    """
    Fit a line through pass rates by weighted least squares, and say what it is worth.

    Its error grows where the points scatter more than their samples explain. A slope is
    called one when its 95 % interval excludes 0 and it is at least 0.02 a day; it is
    uncertain when the interval is wider than 0.1 a day on either side. Stability is
    exp(-t / 0.05) with t the spread of the rates around the line beyond sampling noise:
    1 when there is none. No alert rests on a trend.

    Parameters
    ----------
    days
        Times of the points, in days from any origin.
    passed, n
        Passes and scores of each point, 0 <= passed <= n; points with n = 0 are left out.

    Returns
    -------
    RobustTrend or None
        None with fewer than 6 points or 60 scores.

    References
    ----------
    .. [1] R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical
       Trials 7 (1986), 177-188.
    """
    t, y, size = (np.asarray(values, dtype=float) for values in (days, passed, n))
    t, y, size = t[size > 0], y[size > 0], size[size > 0]
    if len(t) < _LEAST_POINTS or size.sum() < _LEAST_N:
        return None
    rate = y / size
    overall = (y.sum() + 0.5) / (size.sum() + 1)
    noise = overall * (1 - overall)
    weights = size / noise
    middle = float((weights * t).sum() / weights.sum())
    spread = float((weights * (t - middle) ** 2).sum())
    if spread <= 0:
        return None
    level = float((weights * rate).sum() / weights.sum())
    slope = float((weights * (t - middle) * (rate - level)).sum() / spread)
    rest = rate - level - slope * (t - middle)
    chi2, freedom = float((weights * rest**2).sum()), len(t) - 2
    half = 1.96 * math.sqrt(max(1.0, chi2 / freedom) / spread)
    denominator = float(size.sum() - (size**2).sum() / size.sum())
    beyond = max(0.0, (chi2 - freedom) * noise / denominator) if denominator > 0 else 0.0
    return RobustTrend(
        _direction(slope, half),
        slope,
        slope - half,
        slope + half,
        math.exp(-math.sqrt(beyond) / _SPREAD),
        len(t),
        round(float(size.sum())),
    )


def _direction(slope: float, half: float) -> Direction:
    if abs(slope) > half and abs(slope) >= _WORTH_PER_DAY:
        return "improving" if slope > 0 else "declining"
    return "uncertain" if half > _TOO_WIDE_PER_DAY else "stable"
