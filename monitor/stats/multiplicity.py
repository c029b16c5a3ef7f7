"""Many at once: which of many tests may be believed, and which of many variants is best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

Floats = NDArray[np.float64]

#: Points of each distribution at which variants are compared, and what they leave out.
_POINTS: Final = 400
_TAIL: Final = 1e-6


def benjamini_hochberg(p_values: Sequence[float], q: float) -> list[bool]:
    """
    Choose findings so that on average at most a share *q* of them is wrong.

    For tests that are independent or positively dependent; when nothing at all has
    changed, anything is chosen with a probability of at most *q*.

    Source: Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995),
    289-300.

    >>> benjamini_hochberg([0.001, 0.04, 0.9], q=0.05)
    [True, False, False]
    """
    n = len(p_values)
    return _step_up([-p for p in p_values], [-(k + 1) * q / n for k in range(n)])


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Return p-values adjusted so that any below alpha is wrong with a probability of at most alpha.

    Whatever the dependence between the tests.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6 (1979), 65-70.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values, dtype=float)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


def e_detector_bh(levels: Sequence[float], *, looks: float, budget: float) -> list[bool]:
    """
    Choose among detectors that run for ever, so that few of those listed are false.

    Each of *levels*, at least 0, is that of an e-detector: at a stop it is at most the number of
    starts on average, when nothing changed. Over *looks* starts, such as the minutes of 30 days,
    the expected share of false ones, among those that are listed then, is at most *budget* > 0,
    whatever the dependence. It says nothing about an endless run: no rule can. With ``looks=1``,
    of e-values, it is the e-BH rule.

    Sources: S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream sequential change
    detection" (2025), arXiv:2501.04130; R. Wang, A. Ramdas, "False discovery rate control with
    e-values", JRSS B 84 (2022), 822-852.

    >>> e_detector_bh([100.0, 3.0, 0.1], looks=1, budget=0.05)
    [True, False, False]
    """
    n = len(levels)
    return _step_up(levels, [looks * n / (budget * (k + 1)) for k in range(n)])


def stream_shares(n_roots: int, n_segments: int) -> tuple[float, float]:
    """
    Return the parts of a budget of false findings of one root and of one segment.

    Half is for whole apps and half for their segments, where there are any; by the union bound the
    budget holds whatever the dependence between them.
    """
    roots = max(1, n_roots)
    return (0.5 / roots, 0.5 / n_segments) if n_segments else (1.0 / roots, 0.0)


def _step_up(values: Sequence[float], least: Sequence[float]) -> list[bool]:
    """Choose the k largest values, for the largest k whose k-th value reaches its line."""
    order = np.argsort(-np.asarray(values, dtype=float), kind="stable")
    reached = [k for k, i in enumerate(order) if values[i] >= least[k]]
    chosen = set(order[: max(reached) + 1].tolist()) if reached else set()
    return [i in chosen for i in range(len(values))]


def thompson_shares(passed: Floats, n: Floats) -> Floats:
    """
    Return the probability that each variant has the highest pass rate.

    Traffic that is split by these shares is what Thompson sampling does, a batch at a time.
    Priors are Beta(1, 1); shares are even while nothing is known.

    *passed* and *n*, 0 <= passed <= n, not necessarily whole, are of shape (k,), and so are the
    shares, whose sum is 1: the integral of each density times the other distribution functions.

    Sources: W. R. Thompson, "On the likelihood that one unknown probability exceeds another in
    view of the evidence of two samples", Biometrika 25 (1933), 285-294; S. L. Scott, "A modern
    Bayesian look at the multi-armed bandit", Applied Stochastic Models in Business and Industry
    26 (2010), 639-658: randomised probability matching.

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
