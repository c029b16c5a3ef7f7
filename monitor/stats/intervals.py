"""Bounds on a rate, and the size a weighted sample is worth."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import ndtri


class Interval(NamedTuple):
    """Bounds on a rate, 0 <= low <= high <= 1."""

    low: float
    high: float


def wilson_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a pass rate at one fixed sample size.

    Valid for ONE look at a size fixed beforehand, and independent outcomes. Looked
    at again and again it misses the true rate far more often than *alpha*.

    Parameters
    ----------
    passed
        Evaluations that passed, 0 <= passed <= n; not whole when weighted.
    n
        Evaluations that count, n > 0: the number, or what a weighted sample is worth.
    alpha
        Probability, in (0, 1), that the interval misses the true rate.

    Returns
    -------
    Interval
        Bounds on the rate, both in [0, 1]; they contain passed / n.

    Raises
    ------
    ValueError
        If *n* is not above 0 or *passed* is outside [0, n].

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and
       statistical inference", JASA 22 (1927), 209-212.

    Examples
    --------
    >>> low, high = wilson_interval(47, 50)
    >>> round(low, 4), round(high, 4)
    (0.8378, 0.9794)
    """
    if not n > 0 or not 0 <= passed <= n:
        raise ValueError(f"need 0 <= passed <= n and n > 0, got {passed=} {n=}")
    z = float(ndtri(1 - alpha / 2))
    p = passed / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Interval(max(0.0, min(centre - half, p)), min(1.0, max(centre + half, p)))


def wilson_lower(passed: float, n: float, *, alpha: float = 0.02) -> float:
    """
    Bound a pass rate from below at one fixed sample size, one-sided; see `wilson_interval`.

    The true rate is below it in a share *alpha* of all cases, about.

    Examples
    --------
    >>> round(wilson_lower(950, 1000), 4)
    0.9337
    """
    return wilson_interval(passed, n, alpha=2 * alpha).low


def kish_size(sum_w: float, sum_w2: float) -> float:
    """
    Tell how many equally weighted samples a weighted one is worth.

    Exact for the variance of a mean of outcomes that do not depend on the weights;
    an approximation otherwise.

    Parameters
    ----------
    sum_w, sum_w2
        Sums of the weights (inverse sample rates, each >= 1) and of their squares.

    Returns
    -------
    float
        Between 1 and the number of samples; 0 for an empty sample.

    References
    ----------
    .. [1] L. Kish, "Survey Sampling", Wiley (1965), section 11.7.

    Examples
    --------
    >>> kish_size(sum_w=4.0, sum_w2=4.0)
    4.0
    """
    return sum_w * sum_w / sum_w2 if sum_w2 > 0 else 0.0
