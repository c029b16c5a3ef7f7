"""When a pass rate changed, and how sure that is."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp, xlogy

_PRIOR_SIZE = 2000.0


class ChangePoint(NamedTuple):
    """
    The bucket with which a new rate began, and the range it began in with 95 % probability.

    ``evidence`` is the natural logarithm of the Bayes factor of one change somewhere
    against none: 3 is strong.
    """

    bucket: int
    low: int
    high: int
    evidence: float
    rate_after: float


def locate_change(
    passed: NDArray[np.float64],
    n: NDArray[np.float64],
    *,
    reference_passed: float = 0.0,
    reference_n: float = 0.0,
) -> ChangePoint | None:
    """
    Locate one change of a rate in a series of buckets.

    Before the change the rate is that of the reference, after it any; every bucket is
    equally likely beforehand. The range is the highest-density part of the posterior. It
    holds for independent outcomes and one change; divide the counts by the design effect
    where outcomes hang together.

    Parameters
    ----------
    passed, n
        Arrays of shape (buckets,), 0 <= passed <= n.
    reference_passed, reference_n
        Counts of the reference; more than 2,000 count as 2,000.

    Returns
    -------
    ChangePoint or None
        None for a series without any score.

    References
    ----------
    .. [1] A. F. M. Smith, "A Bayesian approach to inference about a change-point in a
       sequence of random variables", Biometrika 62 (1975), 407-416.
    """
    if n.sum() <= 0:
        return None
    shrink = min(1.0, _PRIOR_SIZE / reference_n) if reference_n > 0 else 0.0
    a, b = 0.5 + shrink * reference_passed, 0.5 + shrink * (reference_n - reference_passed)
    before_p, before_n = _before(passed), _before(n)
    after_p, after_n = passed.sum() - before_p, n.sum() - before_n
    log = betaln(a + before_p, b + before_n - before_p) - betaln(a, b)
    log = log + betaln(0.5 + after_p, 0.5 + after_n - after_p) - betaln(0.5, 0.5)
    none = float(betaln(a + passed.sum(), b + (n - passed).sum()) - betaln(a, b))
    posterior = np.exp(log - logsumexp(log))
    order = np.argsort(-posterior, kind="stable")
    inside = order[: int(np.searchsorted(np.cumsum(posterior[order]), 0.95)) + 1]
    index = int(order[0])
    return ChangePoint(
        index,
        int(inside.min()),
        int(inside.max()),
        float(logsumexp(log) - np.log(len(n)) - none),
        float(after_p[index] / after_n[index]) if after_n[index] > 0 else 0.0,
    )


def _before(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(values)[:-1]])


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
