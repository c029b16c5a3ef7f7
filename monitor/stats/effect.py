"""How large a difference of means is, and whether it is more than chance."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import stdtr

from monitor.stats.intervals import Interval


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
