"""
Sequential evidence about the difference of two pass rates, valid at every look.

Samples come in blocks: some of each side, outcomes independent, rates p (before) and q (after).
A null is a half plane of drops, "p - q <= d" or "p - q >= d". A bet is a pair of rates (a, b)
outside of it, fixed before the block; (a*, b*) is the point of the null that is nearest to it::

    payoff of the block = likelihood of (a, b) / likelihood of (a*, b*),
    (a*, b*) minimises  m KL(a | a*) + n KL(b | b*)  for m samples before and n after

Theorem [1]_. Under every (p, q) of the null the payoff has a mean of at most 1, whatever m and n.
So the product over blocks, and its average over bets, exceeds 1/alpha at any time with a
probability of at most alpha: one may look as often as one likes, and stop when one likes.

Proof. A pass before has the mean payoff 1 + x, x = (p - a*) (a - a*) / (a* (1 - a*)), and y is the
same of the side after. The block's mean is (1 + x)^m (1 + y)^n <= exp(m x + n y), and since
(a*, b*) is the minimum over a convex set, m x + n y <= 0 for every (p, q) in it.

References
----------
.. [1] R. J. Turner, A. Ly, P. Grünwald, "Generic E-variables for exact sequential k-sample tests
   that allow for optional stopping", Journal of Statistical Planning and Inference 230 (2024),
   arXiv 2106.02693; R. J. Turner, P. Grünwald, "Exact anytime-valid confidence intervals for
   contingency tables and beyond", Statistics and Probability Letters 198 (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from monitor.stats.evidence import bernoulli_kl, log_mean

Floats = NDArray[np.float64]

#: Rates bet on, and those of a null, keep away from 0 and 1.
_LEAST: Final = 0.002
_EDGE: Final = 0.001
#: What the rate before is taken to be until samples say so, and for how many samples that counts.
_USUAL_RATE, _USUAL_N = 0.9, 4.0
_HALVINGS: Final = 50


class Blocks(NamedTuple):
    """Passes and samples of the two sides, in order, each of shape (k,); sizes may be 0."""

    passed_before: Floats
    n_before: Floats
    passed_after: Floats
    n_after: Floats


def drop_evidence(blocks: Blocks, *, above: float, bets: Sequence[float]) -> Floats:
    """
    Return the log evidence that the rate dropped by more than *above*.

    After each of k blocks, shape (k,): the logarithm of an e-process. The null is "the drop is at
    most *above*", in (-1, 1), and *bets* are drops above it; the rates around them are learned from
    earlier blocks. A block with samples of one side only says nothing.

    Examples
    --------
    >>> block = Blocks(*(np.array([count]) for count in (95.0, 100.0, 70.0, 100.0)))
    >>> bool(drop_evidence(block, above=0.0, bets=[0.1, 0.2])[0] > np.log(50))
    True
    """
    return _log_evidence(blocks, above, np.maximum(np.asarray(bets, dtype=float), above))


def no_drop_evidence(blocks: Blocks, *, below: float, bets: Sequence[float]) -> Floats:
    """Return the log evidence that the drop is less than *below*; *bets* lie below it."""
    return _log_evidence(blocks, below, np.minimum(np.asarray(bets, dtype=float), below))


def _log_evidence(blocks: Blocks, null: float, drops: Floats) -> Floats:
    if not blocks.n_before.size:
        return np.zeros(0)
    s, m, r, n = (np.asarray(column, dtype=float)[:, None] for column in blocks)
    seen_s, seen_m, seen_r, seen_n = (np.cumsum(column, axis=0) - column for column in (s, m, r, n))
    base = (seen_s + seen_r + drops * seen_n + _USUAL_RATE * _USUAL_N) / (
        seen_m + seen_n + _USUAL_N
    )
    a = np.clip(base, np.maximum(drops, 0.0) + _LEAST, 1.0 - _LEAST + np.minimum(drops, 0.0))
    b = np.clip(a - drops, _LEAST, 1.0 - _LEAST)
    both = (m > 0) & (n > 0)
    t, u = _nearest(a, b, m, n, null)
    gains = xlogy(s, a / t) + xlogy(m - s, (1.0 - a) / (1.0 - t))
    gains += xlogy(r, b / u) + xlogy(n - r, (1.0 - b) / (1.0 - u))
    return log_mean(np.cumsum(np.where(both, gains, 0.0), axis=0))


def _nearest(a: Floats, b: Floats, m: Floats, n: Floats, null: float) -> tuple[Floats, Floats]:
    """Return the pair with a drop of *null* nearest to (a, b), for m and n samples."""
    low, high = np.minimum(a, b + null), np.maximum(a, b + null)
    for _ in range(_HALVINGS if null else 0):
        t = (low + high) / 2
        u = np.clip(t - null, _EDGE, 1.0 - _EDGE)
        t = np.clip(t, _EDGE, 1.0 - _EDGE)
        falls = m * (t - a) / (t * (1.0 - t)) + n * (u - b) / (u * (1.0 - u)) < 0
        low, high = np.where(falls, t, low), np.where(falls, high, t)
    t = (low + high) / 2 if null else (m * a + n * b) / np.maximum(m + n, 1e-300)
    return np.clip(t, _EDGE, 1.0 - _EDGE), np.clip(t - null, _EDGE, 1.0 - _EDGE)


def expected_gain(before: float, after: float, *, null: float, ratio: float) -> float:
    """
    Return the log evidence against a drop of *null* that a sample after brings at most, on average.

    *before* and *after* are pass rates that are supposed to go on, *null* the drop at the edge of
    the null, and *ratio*, above 0, the samples before for each one after.
    """
    pair = np.clip(np.array([[before], [after]]), _LEAST, 1.0 - _LEAST)
    t, u = _nearest(pair[:1], pair[1:], np.array([[ratio]]), np.array([[1.0]]), null)
    a, b = float(pair[0, 0]), float(pair[1, 0])
    return ratio * bernoulli_kl(a, float(t[0, 0])) + bernoulli_kl(b, float(u[0, 0]))
