"""Bounds on a rate and on the difference of two: for one look, and for any number of looks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln, gammaln, logsumexp, ndtri, xlog1py, xlogy


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


Floats = NDArray[np.float64]
_PRIOR = 0.5
_SEQUENCES_STEPS = 50


def log_wealth(passed: Floats, n: Floats, rate: Floats) -> Floats:
    """
    Weigh a Beta(1/2, 1/2) mixture against one pass rate: the log of a martingale.

    Theorem [1]_. For independent outcomes with that pass rate, the probability that this ever
    exceeds log(1/alpha), over all sample sizes, is at most alpha.

    Parameters
    ----------
    passed, n
        Counts, 0 <= passed <= n, of any shapes that broadcast; not whole when tempered.
    rate
        Pass rates in (0, 1).

    References
    ----------
    .. [1] J. Ville (1939); S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform,
       nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021).
    """
    failed = n - passed
    mixture = betaln(passed + _PRIOR, failed + _PRIOR) - betaln(_PRIOR, _PRIOR)
    return np.asarray(mixture - xlogy(passed, rate) - xlog1py(failed, -rate))


def anytime_bounds(passed: Floats, n: Floats, *, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """
    Bound pass rates at all sample sizes at once.

    Valid under continuous peeking, for independent outcomes counted from one fixed start: the
    probability that the true rate is *ever* outside is at most *alpha*. For a window that slides
    the start is not fixed, and it holds at the level only for each start by itself.

    Parameters
    ----------
    passed, n
        Arrays of one shape, 0 <= passed <= n; n = 0 gives [0, 1].
    alpha
        In (0, 1).

    Returns
    -------
    tuple of arrays
        Lower and upper bounds in [0, 1], around passed / n, of the same shape.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas, "Confidence sequences for sampling without replacement",
       NeurIPS (2020): the prior-posterior-ratio martingale.
    """
    passed, n = np.broadcast_arrays(
        np.asarray(passed, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    centre = np.divide(passed, n, out=np.full(n.shape, 0.5), where=n > 0)
    low = _edge(passed, n, centre, np.zeros_like(centre), alpha)
    high = _edge(passed, n, centre, np.ones_like(centre), alpha)
    return np.where(passed <= 0, 0.0, low), np.where(passed >= n, 1.0, high)


def anytime_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound one pass rate at all sample sizes at once; see `anytime_bounds`.

    Examples
    --------
    >>> low, high = anytime_interval(47, 50)
    >>> round(low, 3), round(high, 3)
    (0.773, 0.996)
    """
    low, high = anytime_bounds(np.asarray([passed]), np.asarray([n]), alpha=alpha)
    return Interval(float(low[0]), float(high[0]))


def _edge(passed: Floats, n: Floats, inside: Floats, outside: Floats, alpha: float) -> Floats:
    """Halve [inside, outside] until the edge of the rates that are not refuted is found."""
    limit = -np.log(alpha)
    for _ in range(_SEQUENCES_STEPS):
        middle = (inside + outside) / 2
        refuted = log_wealth(passed, n, middle) >= limit
        outside = np.where(refuted, middle, outside)
        inside = np.where(refuted, inside, middle)
    return np.asarray(outside)
