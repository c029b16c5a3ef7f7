"""Bounds on a rate and on the difference of two: for one look, and for any number of looks."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, betaln, gammaln, logsumexp, ndtri, xlog1py, xlogy

Floats = NDArray[np.float64]

_PRIOR: Final = 0.5
_HALVINGS: Final = 50


class Interval(NamedTuple):
    """Bounds on a rate, 0 <= low <= high <= 1."""

    low: float
    high: float


def wilson_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a pass rate at one fixed sample size.

    Valid for ONE look at a size fixed beforehand, and independent outcomes. Looked
    at again and again it misses the true rate far more often than *alpha*.

    *passed* and *n*: 0 <= passed <= n, n > 0; not whole, but what they are worth, when
    weighted. *alpha*: probability, in (0, 1), that the interval misses the true rate.

    Raise ValueError if *n* is not above 0 or *passed* is outside [0, n].

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927), 209-212.

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


def newcombe_interval(
    before: tuple[float, float], after: tuple[float, float], *, alpha: float = 0.05
) -> Interval:
    """
    Bound the difference of two rates, after - before, at one look; bounds in [-1, 1].

    Newcombe's hybrid of two Wilson intervals; right for small samples and rates near 0 or 1, for
    independent outcomes and sizes fixed beforehand. *before* and *after* are (passed, n) as for
    `wilson_interval`; *alpha* is the probability of missing the true difference.

    Source: R. G. Newcombe, "Interval estimation for the difference between independent
    proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890.

    >>> low, high = newcombe_interval((48, 80), (56, 70))
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    p, q = before[0] / before[1], after[0] / after[1]
    first, second = (wilson_interval(*counts, alpha=alpha) for counts in (before, after))
    down = math.hypot(q - second.low, first.high - p)
    up = math.hypot(second.high - q, p - first.low)
    return Interval(max(-1.0, q - p - down), min(1.0, q - p + up))


def exact_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a rate at one look so that it is missed with a probability of at most *alpha*.

    Source: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated
    in the case of the binomial", Biometrika 26 (1934), 404-413.
    """
    low = float(betaincinv(passed, n - passed + 1, alpha / 2)) if passed > 0 else 0.0
    high = float(betaincinv(passed + 1, n - passed, 1 - alpha / 2)) if passed < n else 1.0
    return Interval(low, high)


def predictive_tail(passed: float, n: float, *, mean: float, size: float) -> float:
    """
    Return the log of the probability of so few passes, 0 <= passed <= n.

    The expected rate *mean*, in (0, 1), is itself an estimate, worth *size* samples: the passes
    then follow a beta-binomial distribution. Counts that are not whole are rounded to the safe
    side.
    """
    trials = max(1, math.floor(n))
    k = np.arange(min(trials, math.ceil(passed - 1e-9)) + 1)
    a, b = mean * size, (1 - mean) * size
    ways = log_choose(trials, k) + betaln(k + a, trials - k + b) - betaln(a, b)
    return min(0.0, float(logsumexp(ways)))


def log_choose(n: int, k: NDArray[np.int_]) -> Floats:
    """Return the log of the number of ways to choose *k* of *n*."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), dtype=np.float64)


def binomial(n: int, rate: float, most: int | None = None) -> Floats:
    """Return the probabilities of 0 to min(n, most) successes in *n* trials."""
    k = np.arange(n + 1 if most is None else min(n, most) + 1)
    return np.asarray(np.exp(log_choose(n, k) + xlogy(k, rate) + xlog1py(n - k, -rate)))


def log_wealth(passed: Floats, n: Floats, rate: Floats) -> Floats:
    """
    Weigh a Beta(1/2, 1/2) mixture against pass rates in (0, 1): the log of a martingale.

    Theorem. For independent outcomes with that pass rate, the probability that this ever
    exceeds log(1/alpha), over all sample sizes, is at most alpha. Counts, 0 <= passed <= n, of any
    shapes that broadcast; not whole when tempered.

    Source: J. Ville (1939); S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform,
    nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021).
    """
    failed = n - passed
    mixture = betaln(passed + _PRIOR, failed + _PRIOR) - betaln(_PRIOR, _PRIOR)
    return np.asarray(mixture - xlogy(passed, rate) - xlog1py(failed, -rate))


def anytime_bounds(
    passed: ArrayLike, n: ArrayLike, *, alpha: float = 0.05
) -> tuple[Floats, Floats]:
    """
    Bound pass rates at all sample sizes at once, in [0, 1] and around passed / n.

    Valid under continuous peeking, for independent outcomes counted from one fixed start: the
    probability that the true rate is *ever* outside is at most *alpha*. For a window that slides
    the start is not fixed, and it holds at the level only for each start by itself. *passed* and
    *n* are of one shape, 0 <= passed <= n; n = 0 gives [0, 1].

    Source: I. Waudby-Smith, A. Ramdas, "Confidence sequences for sampling without replacement",
    NeurIPS (2020): the prior-posterior-ratio martingale.

    >>> [round(float(bound), 3) for bound in anytime_bounds(47, 50)]
    [0.773, 0.996]
    """
    passed, n = np.broadcast_arrays(
        np.asarray(passed, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    centre = np.divide(passed, n, out=np.full(n.shape, 0.5), where=n > 0)
    # Halve what lies between the rate and each end, until the edge of what is refuted is found.
    inside, outside = np.stack([centre, centre]), np.stack([0.0 * centre, 1.0 + 0.0 * centre])
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        refuted = log_wealth(passed, n, middle) >= -np.log(alpha)
        outside, inside = np.where(refuted, middle, outside), np.where(refuted, inside, middle)
    return np.where(passed <= 0, 0.0, outside[0]), np.where(passed >= n, 1.0, outside[1])
