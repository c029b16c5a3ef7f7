"""
Evidence that a pass rate crossed a line: a mixture Shiryaev-Roberts e-detector.

For the null "at every moment the pass rate is at least m" and alternatives q_k < m, a new
bet on each q_k begins all the time, with a total stake of one per bucket of time::

    R_k  <-  (R_k + stake) * exp(s log(q_k / m) + (n - s) log((1 - q_k) / (1 - m)))
    M    =   mean over k of R_k

Theorem [1]_. If outcomes are 0 or 1 and each passes, given everything that arrived before it,
with probability at least m, then E[M at tau] <= E[buckets until tau] for every stopping
time tau. So an alarm at M >= A comes, while the null holds, on average not before A buckets
have gone by, whatever the traffic and however often one looks.

Not valid, only approximate and measured (``benchmarks/status.py``): outcomes that depend on each
other within a session, for which counts are divided by a design effect, and samples of unequal
weight, for which they are tempered.

References
----------
.. [1] J. Shin, A. Ramdas, A. Rinaldo, "E-detectors: a nonparametric framework for sequential
   change detection", New England Journal of Statistics in Data Science (2023), arXiv 2203.03532.
.. [2] M. Pollak, "Optimal detection of a change in distribution", Annals of Statistics 13 (1985).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Shares by which the pass rate is lower under the usual alternatives.
FALLS: tuple[float, ...] = (0.06, 0.12, 0.22, 0.45, 0.90)
#: The logarithm of no evidence at all; finite, so that it survives JSON.
NOTHING = -1e6
_LEAST, _MOST = 0.001, 0.999


class Bets(NamedTuple):
    """What one passed and one failed sample add to the log evidence; each of shape (..., k)."""

    on_pass: Floats
    on_fail: Floats


class EvidencePath(NamedTuple):
    """Log evidence after each look, and the log likelihood ratio since the first, both (t, k)."""

    log_r: Floats
    log_ratio: Floats


def bets(line: float | Floats, alternatives: Floats) -> Bets:
    """
    Make the bets against "the pass rate is on this side of *line*" on rates on the other side.

    Parameters
    ----------
    line
        Pass rate in [0, 1], a number or an array of shape (...).
    alternatives
        Pass rates bet on, all below the line or all above it, shape (..., k). They and the
        line are cut to [0.001, 0.999].

    Returns
    -------
    Bets
        Log likelihood ratios of alternative to line, of shape (..., k).
    """
    null = np.clip(np.asarray(line, dtype=np.float64), _LEAST, _MOST)[..., None]
    other = np.clip(alternatives, _LEAST, _MOST)
    return Bets(np.log(other / null), np.log((1.0 - other) / (1.0 - null)))


def falls_below(line: float) -> Floats:
    """Give the usual alternatives below a line: small falls as well as a collapse."""
    return line * (1.0 - np.array(FALLS))


def follow(
    log_r: Floats, bet: Bets, *, passed: Floats, failed: Floats, stakes: Floats
) -> EvidencePath:
    """
    Follow the evidence through any number of looks.

    Parameters
    ----------
    log_r
        Log evidence of each bet before the first look, shape (k,).
    bet
        Shapes (k,), or (t, k) when the line moves.
    passed, failed
        What each look brought, none negative, shape (t,).
    stakes
        New bets before each look, in buckets of time that went by, shape (t,); the sum
        must not be more than the time.

    Returns
    -------
    EvidencePath
        The recursion above, computed from cumulative sums: equal to it but for rounding.
    """
    gained = np.cumsum(passed[:, None] * bet.on_pass + failed[:, None] * bet.on_fail, axis=0)
    before = np.vstack([np.zeros_like(gained[:1]), gained[:-1]])
    with np.errstate(divide="ignore"):
        begun = np.log(stakes)[:, None] - before
    begun[0] = np.logaddexp(begun[0], log_r)
    return EvidencePath(gained + np.logaddexp.accumulate(begun, axis=0), gained)


def log_mean(log_r: Floats) -> Floats:
    """Average evidence over the bets: log of the mean of exp over the last axis."""
    top = log_r.max(axis=-1)
    spread = np.exp(log_r - top[..., None]).mean(axis=-1)
    return np.asarray(top + np.log(spread))
