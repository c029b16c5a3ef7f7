"""
Many at once: which of many tests may be believed, and which of many variants is best.

`admit` says which of many values are frequent enough to be counted on their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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


#: Values of a dimension that have a place of their own; and those that are watched for one.
PLACES = 200
_WAITING = 200
#: A value that was not seen for so long gives up its place to whoever comes.
PATIENCE_S = 7 * 86_400


class Seen(NamedTuple):
    """How often a value with a place was counted, and when last, in epoch seconds."""

    n: int
    last_s: int


@dataclass(frozen=True, slots=True)
class Census:
    """
    Who has a place, and who waits.

    ``named`` gives the count that a value had when it got its place. ``waiting`` gives
    a count and by how much it may be too high: a true count lies between the two.
    """

    named: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def admit(
    census: Census,
    counts: Mapping[str, int],
    seen: Mapping[str, Seen],
    *,
    now_s: int,
    places: int = PLACES,
    waiting: int = _WAITING,
) -> Census:
    """
    Count values, and decide which of them have a place of their own.

    While there is room, a value gets a place when it first comes. Later, one that waits
    takes the place of the least frequent one once it was certainly seen more often, or
    the place of one that has not been seen for a week. Those that wait are counted by
    the Space-Saving algorithm, so that memory stays bounded whatever comes.

    *census* and *counts*: what was known before, and how often each value came now. *seen*: how
    often and when those with a place were counted since they got it; one that is missing was
    not counted yet. *now_s*: epoch seconds of what is counted now. *places* and *waiting*: how
    many values have a place, and how many wait, at most.

    Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
    elements in data streams", ICDT (2005), 398-412.
    """
    named, queue = dict(census.named), dict(census.waiting)
    ranks = {}
    for value, base in named.items():
        count, last_s = seen.get(value, Seen(0, now_s))
        ranks[value] = Seen(base + count, last_s)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        if value in named:
            continue
        if len(named) < places:
            named[value] = 0
            ranks[value] = Seen(counts[value], now_s)
            continue
        if value in queue:
            count, error = queue[value][0] + counts[value], queue[value][1]
        elif len(queue) < waiting:
            count, error = counts[value], 0
        else:  # it takes over the lowest count
            lowest = min(queue, key=lambda other: (queue[other][0], other))
            error = queue.pop(lowest)[0]
            count = error + counts[value]
        least = min(
            ranks, key=lambda other: (not _is_idle(ranks[other], now_s), *ranks[other], other)
        )
        if _is_idle(ranks[least], now_s) or count - error > ranks[least].n:
            del named[least], ranks[least]
            named[value] = count - error - counts[value]
            ranks[value] = Seen(count - error, now_s)
            queue.pop(value, None)
        else:
            queue[value] = (count, error)
    return Census(named, queue)


def _is_idle(seen: Seen, now_s: int) -> bool:
    return now_s - seen.last_s > PATIENCE_S
