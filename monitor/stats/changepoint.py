"""When a pass rate changed, and how sure that is."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp

Floats = NDArray[np.float64]

_PRIOR_SIZE: Final = 2000.0
_MASS: Final = 0.95


class ChangePoint(NamedTuple):
    """
    The bucket with which a new rate began, and the range it began in with 95 % probability.

    ``evidence`` is the natural logarithm of the Bayes factor of one change somewhere against
    none: 3 is strong.
    """

    bucket: int
    low: int
    high: int
    evidence: float
    rate_after: float


class Onset(NamedTuple):
    """A moment with its uncertainty, in epoch seconds: earliest <= at <= latest."""

    at_s: float
    earliest_s: float
    latest_s: float


def locate_change(
    passed: Floats,
    n: Floats,
    *,
    reference_passed: float = 0.0,
    reference_n: float = 0.0,
    falls: bool = False,
) -> ChangePoint | None:
    """
    Locate one change of a rate in a series of buckets.

    Before the change the rate is that of the reference, after it any; every bucket is equally
    likely beforehand. The range is the highest-density part of the posterior. It holds for
    independent outcomes and one change; divide the counts by the design effect where outcomes
    hang together.

    *passed* and *n*: arrays of shape (buckets,), 0 <= passed <= n. *reference_passed* and
    *reference_n*: counts of the reference; more than 2,000 count as 2,000. *falls*: consider
    only changes after which the rate is lower than before in this series. None for a series
    without any, as for one without any score.

    Source: A. F. M. Smith, "A Bayesian approach to inference about a change-point in a sequence
    of random variables", Biometrika 62 (1975), 407-416.
    """
    if n.sum() <= 0:
        return None
    shrink = min(1.0, _PRIOR_SIZE / reference_n) if reference_n > 0 else 0.0
    a, b = 0.5 + shrink * reference_passed, 0.5 + shrink * (reference_n - reference_passed)
    before_p, before_n = (np.cumsum(values) - values for values in (passed, n))
    after_p, after_n = passed.sum() - before_p, n.sum() - before_n
    log = betaln(a + before_p, b + before_n - before_p) - betaln(a, b)
    log = log + betaln(0.5 + after_p, 0.5 + after_n - after_p) - betaln(0.5, 0.5)
    none = float(betaln(a + passed.sum(), b + (n - passed).sum()) - betaln(a, b))
    if falls:
        log = np.where(before_p * after_n > after_p * before_n, log, -np.inf)
        if np.isneginf(log).all():
            return None
    posterior = np.exp(log - logsumexp(log))
    order = np.argsort(-posterior, kind="stable")
    inside = order[: int(np.searchsorted(np.cumsum(posterior[order]), _MASS)) + 1]
    index = int(order[0])
    return ChangePoint(
        index,
        int(inside.min()),
        int(inside.max()),
        float(logsumexp(log) - np.log(len(n)) - none),
        float(after_p[index] / after_n[index]) if after_n[index] > 0 else 0.0,
    )


def find_onset(start_s: Floats, passed: Floats, n: Floats) -> Onset | None:
    """
    Return the moment after which a pass rate was lower: a start of one of its buckets.

    `locate_change` without a reference; *start_s* rises, all of shape (t,). None when no split has
    a lower rate after it than before.
    """
    found = locate_change(passed, n, falls=True)
    return found and Onset(*(float(start_s[k]) for k in (found.bucket, found.low, found.high)))
