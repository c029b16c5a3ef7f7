"""When a pass rate fell: the most likely moment, and the moments that are nearly as likely."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

Floats = NDArray[np.float64]

#: Log likelihood that may be missing.
_MISSING: Final = 3.0


class Onset(NamedTuple):
    """A moment with its uncertainty, in epoch seconds: earliest <= at <= latest."""

    at_s: float
    earliest_s: float
    latest_s: float


def find_onset(start_s: Floats, passed: Floats, n: Floats) -> Onset | None:
    """
    Find the moment after which a pass rate was lower.

    Profile likelihood of one change between two unknown rates; all moments whose log
    likelihood is within 3 of the best are kept, which holds the truth in about nine of ten
    falls. Valid for one abrupt fall and independent outcomes; moments are starts of buckets.

    Parameters
    ----------
    start_s
        Starts of buckets, rising, shape (t,).
    passed, n
        Their sums, 0 <= passed <= n, shape (t,).

    Returns
    -------
    Onset or None
        None when no split has a lower rate after it than before.

    References
    ----------
    .. [1] D. V. Hinkley, "Inference about the change-point in a sequence of random variables",
       Biometrika 57 (1970), 1-17.
    """
    if len(n) < 2:  # noqa: PLR2004 - a split has two sides
        return None
    before_n, before_s = np.cumsum(n)[:-1], np.cumsum(passed)[:-1]
    after_n, after_s = n.sum() - before_n, passed.sum() - before_s
    falls = before_s * after_n > after_s * before_n
    if not falls.any():
        return None
    likely = np.where(falls, _fit(before_s, before_n) + _fit(after_s, after_n), -np.inf)
    near = np.flatnonzero(likely >= likely.max() - _MISSING)
    found = start_s[1:]
    return Onset(float(found[likely.argmax()]), float(found[near[0]]), float(found[near[-1]]))


def _fit(passed: Floats, n: Floats) -> Floats:
    """Give the log likelihood of counts at their own rate."""
    rate = np.divide(passed, n, out=np.zeros_like(n), where=n > 0)
    # Sums of weighted counts leave [0, n] by rounding.
    rate = np.clip(rate, 0.0, 1.0)
    return np.asarray(n * (xlogy(rate, rate) + xlogy(1.0 - rate, 1.0 - rate)))
