"""Thompson sampling: how often each variant is to be used, so that the better ones are learned."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

Floats = NDArray[np.float64]

_POINTS: Final = 400
_TAIL: Final = 1e-6


def thompson_shares(passed: Floats, n: Floats) -> Floats:
    """
    Return the probability that each variant has the highest pass rate.

    Traffic that is split by these shares is what Thompson sampling does, a batch at a time.
    Priors are Beta(1, 1); shares are even while nothing is known.

    *passed* and *n*, 0 <= passed <= n, not necessarily whole, are of shape (k,), and so are the
    shares, whose sum is 1: the integral of each density times the other distribution functions.

    References
    ----------
    .. [1] W. R. Thompson, "On the likelihood that one unknown probability exceeds another in view
       of the evidence of two samples", Biometrika 25 (1933), 285-294.
    .. [2] S. L. Scott, "A modern Bayesian look at the multi-armed bandit", Applied Stochastic
       Models in Business and Industry 26 (2010), 639-658: randomised probability matching.

    Examples
    --------
    >>> thompson_shares(np.array([90.0, 80.0]), np.array([100.0, 100.0])).round(2).tolist()
    [0.98, 0.02]
    """
    a, b = passed[:, None] + 1.0, n[:, None] - passed[:, None] + 1.0
    # Where any of the densities is, steps are as fine as the densest of them needs.
    grid = np.sort(betaincinv(a, b, np.linspace(_TAIL, 1 - _TAIL, _POINTS)).ravel())
    grid = np.concatenate([[0.0], grid, [1.0]])
    cdf = betainc(a, b, grid)
    middles = (cdf[:, 1:] + cdf[:, :-1]) / 2
    others = np.array([np.delete(middles, k, axis=0).prod(axis=0) for k in range(len(passed))])
    shares = (np.diff(cdf, axis=1) * others).sum(axis=1)
    return np.asarray(shares / shares.sum())
