"""
Sequential evidence that a rate moved: mixtures of Shiryaev-Roberts sums, and when it moved.

For the null "at every moment the pass rate is at least m" and a rate q < m, a new bet on q
begins all the time, with a stake of one per bucket of time::

    R_q  <-  (R_q + stake) * payoff_q,    payoff of a 0/1 sample:  q / m,  or (1 - q) / (1 - m)

The sums are read twice. The mean over q is evidence that the rate fell. Weighted by a prior and
normalised, they are the posterior of the present rate, with a flat prior on when it fell.

Theorem [1]_. If each payoff, given everything that arrived before it, has a mean of at most 1,
then E[mean of R at tau] <= E[buckets until tau] for every stopping time tau. So an alarm at
A comes, while the null holds, on average not before A buckets have gone by, whatever the traffic
and however often one looks.

Samples about which a judge is asked with a known probability, and samples of unequal weight, pay
otherwise (`sample_log_payoffs`): still never negative, and with the same mean.

Approximate only, and measured (``benchmarks/status.py``): outcomes that depend on each other
within a session, for which log payoffs are divided by a design effect.

References
----------
.. [1] J. Shin, A. Ramdas, A. Rinaldo, "E-detectors: a nonparametric framework for sequential
   change detection", New England Journal of Statistics in Data Science (2023), arXiv 2203.03532.
.. [2] M. Pollak, "Optimal detection of a change in distribution", Annals of Statistics 13 (1985).
.. [3] A. N. Shiryaev, "On optimum methods in quickest detection problems", Theory of Probability
   and its Applications 8 (1963).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp, rel_entr

Floats = NDArray[np.float64]

_TINY: Final = 1e-9
#: The logarithm of no evidence at all; finite, so that it survives JSON.
NOTHING: Final = -1e6
_LEAST, _MOST = 0.001, 0.999
_HALVINGS: Final = 40
#: Part of the boldest stake that cannot ruin a bet; the largest that is placed.
_BOLDEST: Final = 0.95

#: Edges of the cells of rates below a warning threshold of 0.85, with a critical one of 0.70.
_EDGES: Final = np.fromstring(
    "0 .09 .185 .28 .375 .46 .54 .61 .6625 .7 .73 .76 .7875 .81 .83 .85", sep=" "
)
_CRITICAL_EDGE: Final = 9
#: Cells between the warning threshold and the reference, as parts of the way.
_BETWEEN_EDGES: Final = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
_BETWEEN: Final = _BETWEEN_EDGES - 0.1
#: How many cells lie below the warning threshold, and in all.
BELOW: Final = len(_EDGES) - 1
CELLS: Final = BELOW + len(_BETWEEN)
LOG_PRIOR: Final = np.log(np.r_[np.full(BELOW, 1 / BELOW), np.full(5, 1 / 5)])
#: Where there is no reference, cells between reach this far above the warning threshold.
_TOP: Final = 0.1


def accumulate(log_r: Floats, gains: Floats, stakes: Floats) -> tuple[Floats, Floats]:
    """
    Follow Shiryaev-Roberts sums through any number of looks.

    Return the log sums after each look, and the log payoff since the first, both of shape
    (streams, looks, bets): the recursion of the module's docstring but for rounding.

    *log_r*: log of each sum before the first look, shape (streams, bets). *gains*: log payoff
    of what each look brought, shape (streams, looks, bets). *stakes*: new bets before each
    look, in buckets of time that went by, shape (streams, looks); their sum must not be more
    than the time.
    """
    gained = np.cumsum(gains, axis=1)
    with np.errstate(divide="ignore"):
        begun = np.log(stakes)[..., None] - (gained - gains)
    begun[:, 0] = np.logaddexp(begun[:, 0], log_r)
    if begun.shape[1] > 1:
        begun = np.logaddexp.accumulate(begun, axis=1)
    return gained + begun, gained


def log_mean(log_r: Floats) -> Floats:
    """Return the log of the mean of exp over the last axis."""
    top = log_r.max(axis=-1)
    spread = np.exp(log_r - top[..., None]).mean(axis=-1)
    return np.asarray(top + np.log(spread))


def log_payoffs(passed: Floats, failed: Floats, null: Floats | float, rates: Floats) -> Floats:
    """
    Return what 0/1 samples add to the log of bets on *rates* against *null*, shape (..., bets).

    Log likelihood ratios of counts of any shape (...), none negative; *null* and *rates* broadcast
    with (..., bets) and are cut to [0.001, 0.999].
    """
    m, q = np.clip(null, _LEAST, _MOST), np.clip(rates, _LEAST, _MOST)
    on_fail = np.log((1.0 - q) / (1.0 - m))
    return np.asarray(passed[..., None] * np.log(q / m) + failed[..., None] * on_fail)


class Samples(NamedTuple):
    """
    Samples whose payoff is not a matter of counts; each of shape (k,).

    ``look`` is the look that each belongs to; ``prediction`` its expected pass, in
    [0, 1], and ``probability`` that of asking the judge, in (0, 1], both fixed before it was
    ``asked``; ``passed`` what the judge said, whatever where it was not asked. ``weight`` is the
    inverse of the probability of sampling it. A plain sample has probability 1 and was asked.
    ``gain`` is what each is worth in usual ones, fixed before it was asked: more where a larger
    share is asked than usually; all alike if None.
    """

    look: NDArray[np.int64]
    prediction: Floats
    probability: Floats
    asked: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    weight: Floats
    gain: Floats | None = None

    def between(self, start: int, end: int) -> Samples:
        """Return the samples of looks in [start, end), counted from *start*."""
        first, last = np.searchsorted(self.look, [start, end])
        parts = self._asdict()
        parts |= {name: c[first:last] for name, c in parts.items() if c is not None}
        return Samples(**parts | {"look": parts["look"] - start})

    def mirrored(self) -> Samples:
        """Return the samples with passes and failures exchanged."""
        return self._replace(prediction=1.0 - self.prediction, passed=~self.passed)

    def estimates(self) -> Floats:
        """Return unbiased estimates of what the judge says of each; they leave [0, 1]."""
        error = np.where(self.asked, self.passed - self.prediction, 0.0)
        return np.asarray(self.prediction + error / self.probability)


class Worth(NamedTuple):
    """
    What samples are known to be worth before they come.

    ``size`` is the number of plain samples that one is worth, in (0, 1]; ``mean_weight`` and
    ``most_weight`` are of their weights. Bets are valid whatever it says, and fastest if it is
    right; a weight above ``most_weight`` counts as that.
    """

    size: float = 1.0
    mean_weight: float = 1.0
    most_weight: float = 1.0


def gain_of_share(size: float, usual: float, share: Floats) -> Floats:
    """
    Return what a sample is worth where *share* is asked, in those of the *usual* share.

    The variance of an unbiased estimate is a part R that the prediction leaves however many are
    asked, and a part (1 - R) / share; R follows from *size*, what a usual sample is worth in plain
    ones. Shares of samples about which the judge is asked, and sizes, are in (0, 1].
    """
    if usual >= 1.0:
        return np.ones_like(share)
    left = min(max((1.0 / usual - 1.0 / size) / (1.0 / usual - 1.0), 0.0), 1.0)
    return np.asarray((left + (1.0 - left) / usual) / (left + (1.0 - left) / share))


def sample_log_payoffs(samples: Samples, null: Floats, rates: Floats, worth: Worth) -> Floats:
    """
    Return what samples add to the log of bets on *rates* against *null*, shape (k, bets).

    A bet pays e(y) = 1 + s (m - y) for a verdict y, with a mean of at most 1 while the judge's
    pass rate is at least m. Where the judge is asked with probability pi only, a sample that is
    not asked pays h, 0 <= h <= e(1) / (1 - pi), and one that is asked (e(y) - (1 - pi) h) / pi:
    never negative, and e(y) on average over asking, however small pi. The best h for an expected
    pass probability p is the smaller root of

        (1 - pi) h^2 - b h + e(1) e(0) = 0,  b = (1 - pi) (e(1) + e(0)) + pi (p e(0) + (1 - p) e(1))

    A sample of weight w pays 1 + (w / u) (payoff - 1), u the largest weight.

    Rates m of the *null*, shape (k, 1) or (1, 1), and those bet on, shape (k, bets) or (1, bets),
    all below the null or mirrored, lie in (0, 1). *worth* scales the stakes of a bet on q:
    s = size (m - q) / (m (1 - m)).
    """
    m, q = np.clip(null, _LEAST, _MOST), np.clip(rates, _LEAST, _MOST)
    scale = worth.size * worth.most_weight / worth.mean_weight
    stake = scale * (m - q) / (m * (1.0 - m))
    if samples.gain is not None:
        stake = stake * samples.gain[:, None]
    if samples.gain is not None or scale > 1.0:
        stake = np.minimum(stake, _BOLDEST / (1.0 - m))
    on_pass, on_fail = 1.0 - stake * (1.0 - m), 1.0 + stake * m
    pi = samples.probability[:, None]
    p = samples.prediction[:, None] * (1.0 + q / m) / 2.0
    left = 1.0 - pi
    b = left * (on_pass + on_fail) + pi * (p * on_fail + (1.0 - p) * on_pass)
    root = np.sqrt(np.maximum(b * b - 4.0 * left * on_pass * on_fail, 0.0))
    unasked = 2.0 * on_pass * on_fail / (b + root)
    # By rounding alone it may lie above its limit.
    unasked = np.minimum(unasked, 0.999 * on_pass / np.maximum(left, 1e-12))
    said = np.where(samples.passed[:, None], on_pass, on_fail)
    paid = np.where(samples.asked[:, None], (said - left * unasked) / pi, unasked)
    part = np.minimum(samples.weight[:, None] / worth.most_weight, 1.0)
    return np.asarray(np.log1p(part * (paid - 1.0)))


class RateGrid:
    """
    The cells of rates on which bets are placed, for one pair of thresholds.

    Both thresholds are edges of cells and a quantile is linear inside a cell. So an upper bound
    at level 1 - alpha lies below a threshold exactly where the posterior puts at least
    1 - alpha below it. Thresholds are in (0, 1), the critical one below the other.
    """

    def __init__(self, warning_rate: float, critical_rate: float) -> None:
        low, high = _EDGES[: _CRITICAL_EDGE + 1], _EDGES[_CRITICAL_EDGE + 1 :]
        reach = (high - low[-1]) / (_EDGES[-1] - low[-1])
        self.warning_rate, self.critical_rate = warning_rate, critical_rate
        self._edges = np.r_[
            low * (critical_rate / low[-1]), critical_rate + (warning_rate - critical_rate) * reach
        ]
        self._edges[_CRITICAL_EDGE], self._edges[-1] = critical_rate, warning_rate
        self.below = (self._edges[1:] + self._edges[:-1]) / 2

    def rates(self, top: Floats) -> Floats:
        """Return the rates bet on, shape (..., CELLS), for references *top* of shape (...)."""
        between = self.warning_rate + (top[..., None] - self.warning_rate) * _BETWEEN
        below = np.broadcast_to(self.below, (*top.shape, BELOW))
        return np.concatenate([below, between], axis=-1)

    def top(self, reference: Floats) -> Floats:
        """Return where the grid ends: the reference, or a little above the threshold if NaN."""
        without = min(self.warning_rate + _TOP, (1.0 + self.warning_rate) / 2)
        return np.where(np.isnan(reference), without, reference)

    def quantile(self, log_p: Floats, top: Floats, level: float) -> Floats:
        """
        Return a quantile, at *level* in (0, 1), of posteriors over the cells.

        *log_p* are log weights of the cells, not normalised, shape (..., CELLS); *top* is where
        each grid ends, shape (...).
        """
        weights = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        cdf = np.cumsum(weights, axis=-1)
        cdf /= cdf[..., -1:]
        cell = np.minimum((cdf < level - 1e-12).sum(axis=-1), CELLS - 1)[..., None]
        upto = np.take_along_axis(cdf, cell, axis=-1)[..., 0]
        before = np.take_along_axis(cdf, np.maximum(cell - 1, 0), axis=-1)[..., 0]
        before = np.where(cell[..., 0] > 0, before, 0.0)
        part = np.clip((level - before) / np.maximum(upto - before, 1e-300), 0.0, 1.0)
        between = self.warning_rate + (top[..., None] - self.warning_rate) * _BETWEEN_EDGES
        fixed = np.broadcast_to(self._edges, (*top.shape, BELOW + 1))
        edges = np.concatenate([fixed, between], axis=-1)
        left = np.take_along_axis(edges, cell, axis=-1)[..., 0]
        right = np.take_along_axis(edges, cell + 1, axis=-1)[..., 0]
        return np.asarray(left + part * (right - left))

    def upper(self, log_p: Floats, top: Floats) -> Floats:
        """Return the upper bound that decides: 9 in 10, below the critical rate 19 in 20."""
        usual, strict = self.quantile(log_p, top, 0.90), self.quantile(log_p, top, 0.95)
        return np.maximum(usual, np.minimum(strict, self.critical_rate))


@lru_cache(maxsize=64)
def rate_grid(warning_rate: float, critical_rate: float) -> RateGrid:
    """Return the grid of a pair of thresholds."""
    return RateGrid(warning_rate, critical_rate)


def bernoulli_kl(q: float, m: float) -> float:
    """
    Return the information, in nats a sample, that tells pass rate *q* from *m*; both in [0, 1].

    Infinite when *m* is 0 or 1 and *q* is not.

    Source: S. Kullback, R. A. Leibler, "On information and sufficiency", Annals of Mathematical
    Statistics 22 (1951), 79-86.
    """
    return float(rel_entr(q, m) + rel_entr(1.0 - q, 1.0 - m))


def resolution(n: float, line: float, log_threshold: float) -> float:
    """
    Return the highest pass rate that *n* samples can tell from *line*, in [0, line].

    It is 0 when not even a total failure would bring *log_threshold*, the log evidence of an alarm.
    """
    if n <= 0 or n * bernoulli_kl(0.0, line) <= log_threshold:
        return 0.0
    # Halved by hand: scipy's root finders cost every process 14 MB and a third of a second.
    low, high = 0.0, line
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        decided = n * bernoulli_kl(middle, line) >= log_threshold
        low, high = (middle, high) if decided else (low, middle)
    return low


def samples_to_decide(rate: float, line: float, log_missing: float) -> int | None:
    """
    Estimate how many more samples at pass rate *rate* show that it lies below *line*.

    None when it does not, so that no number would bring the log evidence that is missing.
    """
    if log_missing <= 0:
        return 0
    gain = bernoulli_kl(rate, line) if rate < line else 0.0
    return math.ceil(log_missing / gain) if gain > _TINY else None


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
