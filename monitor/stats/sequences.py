"""Bounds on a rate that hold at every sample size at once, however often one looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from monitor.stats.intervals import Interval

Floats = NDArray[np.float64]
_PRIOR = 0.5
_STEPS = 50


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
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        refuted = log_wealth(passed, n, middle) >= limit
        outside = np.where(refuted, middle, outside)
        inside = np.where(refuted, inside, middle)
    return np.asarray(outside)
