"""Two rates: how far apart, and whether that may be believed at any time."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv, betaln, gammaln, logsumexp

from monitor.stats.intervals import Interval, wilson_interval

_STEPS = 60


def newcombe_interval(
    before: tuple[float, float], after: tuple[float, float], *, alpha: float = 0.05
) -> Interval:
    """
    Bound the difference of two rates, after - before, at one look.

    Newcombe's hybrid of two Wilson intervals; right for small samples and rates near 0
    or 1, for independent outcomes and sizes fixed beforehand.

    Parameters
    ----------
    before, after
        Each (passed, n) with 0 <= passed <= n and n > 0; effective counts are welcome.
    alpha
        Probability, in (0, 1), of missing the true difference.

    Returns
    -------
    Interval
        Bounds in [-1, 1].

    References
    ----------
    .. [1] R. G. Newcombe, "Interval estimation for the difference between independent
       proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890.

    Examples
    --------
    >>> low, high = newcombe_interval((48, 80), (56, 70))
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    p, q = before[0] / before[1], after[0] / after[1]
    first = wilson_interval(*before, alpha=alpha)
    second = wilson_interval(*after, alpha=alpha)
    down = math.hypot(q - second.low, first.high - p)
    up = math.hypot(second.high - q, p - first.low)
    return Interval(max(-1.0, q - p - down), min(1.0, q - p + up))


def exact_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a rate at one look so that it is missed with a probability of at most *alpha*.

    References
    ----------
    .. [1] C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits
       illustrated in the case of the binomial", Biometrika 26 (1934), 404-413.
    """
    low = float(betaincinv(passed, n - passed + 1, alpha / 2)) if passed > 0 else 0.0
    high = float(betaincinv(passed + 1, n - passed, 1 - alpha / 2)) if passed < n else 1.0
    return Interval(low, high)


def predictive_tail(passed: float, n: float, *, mean: float, size: float) -> float:
    """
    Tell how probable so few passes are, as a natural logarithm.

    The expected rate is itself an estimate, worth *size* samples: the passes then follow
    a beta-binomial distribution. Counts that are not whole are rounded to the safe side.

    Parameters
    ----------
    passed, n
        0 <= passed <= n.
    mean
        The rate that is expected, in (0, 1).
    size
        Above 0.
    """
    trials = max(1, math.floor(n))
    k = np.arange(min(trials, math.ceil(passed - 1e-9)) + 1)
    a, b = mean * size, (1 - mean) * size
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return min(0.0, float(logsumexp(ways + betaln(k + a, trials - k + b) - betaln(a, b))))
