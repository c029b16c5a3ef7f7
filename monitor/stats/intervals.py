"""
Bounds on a rate and on the difference of two: for one look, and for any number of looks.

Below them stands what samples are worth that are weighted, judged in part, or depend on each other.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, betaln, gammaln, logsumexp, ndtri, xlog1py, xlogy

Floats = NDArray[np.float64]

_PRIOR: Final = 0.5
_HALVINGS: Final = 50


class Interval(NamedTuple):
    """Bounds on a rate, 0 <= low <= high <= 1."""

    low: float
    high: float


def wilson_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a pass rate at one fixed sample size.

    Valid for ONE look at a size fixed beforehand, and independent outcomes. Looked
    at again and again it misses the true rate far more often than *alpha*.

    *passed* and *n*: 0 <= passed <= n, n > 0; not whole, but what they are worth, when
    weighted. *alpha*: probability, in (0, 1), that the interval misses the true rate.

    Raise ValueError if *n* is not above 0 or *passed* is outside [0, n].

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927), 209-212.

    >>> low, high = wilson_interval(47, 50)
    >>> round(low, 4), round(high, 4)
    (0.8378, 0.9794)
    """
    if not n > 0 or not 0 <= passed <= n:
        raise ValueError(f"need 0 <= passed <= n and n > 0, got {passed=} {n=}")
    z = float(ndtri(1 - alpha / 2))
    p = passed / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Interval(max(0.0, min(centre - half, p)), min(1.0, max(centre + half, p)))


def newcombe_interval(
    before: tuple[float, float], after: tuple[float, float], *, alpha: float = 0.05
) -> Interval:
    """
    Bound the difference of two rates, after - before, at one look; bounds in [-1, 1].

    Newcombe's hybrid of two Wilson intervals; right for small samples and rates near 0 or 1, for
    independent outcomes and sizes fixed beforehand. *before* and *after* are (passed, n) as for
    `wilson_interval`; *alpha* is the probability of missing the true difference.

    Source: R. G. Newcombe, "Interval estimation for the difference between independent
    proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890.

    >>> low, high = newcombe_interval((48, 80), (56, 70))
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    p, q = before[0] / before[1], after[0] / after[1]
    first, second = (wilson_interval(*counts, alpha=alpha) for counts in (before, after))
    down = math.hypot(q - second.low, first.high - p)
    up = math.hypot(second.high - q, p - first.low)
    return Interval(max(-1.0, q - p - down), min(1.0, q - p + up))


def exact_interval(passed: float, n: float, *, alpha: float = 0.05) -> Interval:
    """
    Bound a rate at one look so that it is missed with a probability of at most *alpha*.

    Source: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated
    in the case of the binomial", Biometrika 26 (1934), 404-413.
    """
    low = float(betaincinv(passed, n - passed + 1, alpha / 2)) if passed > 0 else 0.0
    high = float(betaincinv(passed + 1, n - passed, 1 - alpha / 2)) if passed < n else 1.0
    return Interval(low, high)


def predictive_tail(passed: float, n: float, *, mean: float, size: float) -> float:
    """
    Return the log of the probability of so few passes, 0 <= passed <= n.

    The expected rate *mean*, in (0, 1), is itself an estimate, worth *size* samples: the passes
    then follow a beta-binomial distribution. Counts that are not whole are rounded to the safe
    side.
    """
    trials = max(1, math.floor(n))
    k = np.arange(min(trials, math.ceil(passed - 1e-9)) + 1)
    a, b = mean * size, (1 - mean) * size
    ways = log_choose(trials, k) + betaln(k + a, trials - k + b) - betaln(a, b)
    return min(0.0, float(logsumexp(ways)))


def log_choose(n: int, k: NDArray[np.int_]) -> Floats:
    """Return the log of the number of ways to choose *k* of *n*."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), dtype=np.float64)


def binomial(n: int, rate: float, most: int | None = None) -> Floats:
    """Return the probabilities of 0 to min(n, most) successes in *n* trials."""
    k = np.arange(n + 1 if most is None else min(n, most) + 1)
    return np.asarray(np.exp(log_choose(n, k) + xlogy(k, rate) + xlog1py(n - k, -rate)))


def log_wealth(passed: Floats, n: Floats, rate: Floats) -> Floats:
    """
    Weigh a Beta(1/2, 1/2) mixture against pass rates in (0, 1): the log of a martingale.

    Theorem. For independent outcomes with that pass rate, the probability that this ever
    exceeds log(1/alpha), over all sample sizes, is at most alpha. Counts, 0 <= passed <= n, of any
    shapes that broadcast; not whole when tempered.

    Source: J. Ville (1939); S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform,
    nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021).
    """
    failed = n - passed
    mixture = betaln(passed + _PRIOR, failed + _PRIOR) - betaln(_PRIOR, _PRIOR)
    return np.asarray(mixture - xlogy(passed, rate) - xlog1py(failed, -rate))


def anytime_bounds(
    passed: ArrayLike, n: ArrayLike, *, alpha: float = 0.05
) -> tuple[Floats, Floats]:
    """
    Bound pass rates at all sample sizes at once, in [0, 1] and around passed / n.

    Valid under continuous peeking, for independent outcomes counted from one fixed start: the
    probability that the true rate is *ever* outside is at most *alpha*. For a window that slides
    the start is not fixed, and it holds at the level only for each start by itself. *passed* and
    *n* are of one shape, 0 <= passed <= n; n = 0 gives [0, 1].

    Source: I. Waudby-Smith, A. Ramdas, "Confidence sequences for sampling without replacement",
    NeurIPS (2020): the prior-posterior-ratio martingale.

    >>> [round(float(bound), 3) for bound in anytime_bounds(47, 50)]
    [0.773, 0.996]
    """
    passed, n = np.broadcast_arrays(
        np.asarray(passed, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    centre = np.divide(passed, n, out=np.full(n.shape, 0.5), where=n > 0)
    # Halve what lies between the rate and each end, until the edge of what is refuted is found.
    inside, outside = np.stack([centre, centre]), np.stack([0.0 * centre, 1.0 + 0.0 * centre])
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        refuted = log_wealth(passed, n, middle) >= -np.log(alpha)
        outside, inside = np.where(refuted, middle, outside), np.where(refuted, inside, middle)
    return np.where(passed <= 0, 0.0, outside[0]), np.where(passed >= n, 1.0, outside[1])


#: One-sided 99 %: a factor below this much noise is none.
_Z: Final = 2.33
_LEAST_BLOCKS: Final = 10
_KNOWN_BLOCKS: Final = 30
_MOST: Final = 10.0
#: Samples, half of them passed, that stand in where no variance can be read.
_BOUNDARY: Final = 4.0
#: Widths of blocks of time, in buckets.
_WIDTHS: Final = (1, 5, 15)
#: Taken to be so while too little is known; a session of three that shares half its outcomes has 2.
USUAL_EFFECT: Final = 1.5


class DesignEffect(NamedTuple):
    """By how much counts are divided, in [1, 10]; known from thirty of the widest blocks on."""

    factor: float = USUAL_EFFECT
    known: bool = False


def block_sums(block: NDArray[np.int64], values: Floats) -> Floats:
    """Sum *values* over runs of equal *block*, which must not fall; both of shape (n,)."""
    starts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    return np.asarray(np.add.reduceat(values, starts))


def design_effect(bucket: NDArray[np.int64], passed: Floats, n: Floats) -> DesignEffect:
    """
    Measure by how much pass counts vary more than those of independent samples.

    Sessions, retries and bursts make neighbours alike. The squares of the differences between
    one block of time and the next are compared with what independence predicts, for blocks of
    several widths; differences of neighbours leave out cycles of a day. The largest factor
    counts, and only what exceeds its own noise. While there are too few of the widest blocks, the
    usual effect is taken, or what is measured if it is larger.

    Valid when correlation does not reach further than the widest block and the rate moves little
    from one block to the next. Longer sessions need one sample a session.

    *bucket*: numbers of the buckets that hold samples, rising, shape (t,). *passed* and *n*:
    sums of each bucket, n > 0, shape (t,); weighted ones scaled to the size they are worth.

    Sources: L. Kish, "Survey Sampling", Wiley (1965), section 8.2; J. von Neumann,
    "Distribution of the ratio of the mean square successive difference to the variance", Annals
    of Mathematical Statistics 12 (1941), 367-395.
    """
    if not bucket.size:
        return DesignEffect()
    mean = float(passed.sum() / n.sum())
    sums = [[block_sums(bucket // width, x) for x in (passed, n)] for width in _WIDTHS]
    known = sums[-1][0].size >= _KNOWN_BLOCKS
    factors = [1.0 if known else USUAL_EFFECT]
    for part, total in sums:
        if total.size < _LEAST_BLOCKS or not 0.0 < mean < 1.0:
            continue
        expected = (1.0 / total[1:] + 1.0 / total[:-1]) * mean * (1.0 - mean)
        factor = float(np.sum(np.diff(part / total) ** 2 / expected) / (total.size - 1))
        if not known or factor > 1.0 + _Z * math.sqrt(3.0 / total.size):
            factors.append(factor)
    return DesignEffect(min(_MOST, max(factors)), known)


def effective_size(
    n: float, sum_w: float, sum_w2: float, sum_w2y: float, sum_w2yy: float, rate: float
) -> float:
    """
    Return how many plain passes and failures know as much about a rate as these samples.

    The size m, in (0, n], at which rate (1 - rate) / m is the variance found, without n / (n - 1)
    on either side, so that m is n where all weights are equal and every y is 0 or 1. Where the
    rate is at or beyond 0 or 1, the size of Kish stands in; and if y still varies there, as
    estimates do, no more than the variance says at a rate drawn two passes and two failures
    towards the middle.

    *n*: samples, at least 1. *sum_w*, *sum_w2*, *sum_w2y* and *sum_w2yy*: sums of w, w^2, w^2 y
    and w^2 y^2, with w > 0. *rate*: the mean itself, sum of w y over sum of w.

    Sources: L. Kish, "Survey Sampling", Wiley (1965), sections 8.2 and 11.7; C. E. Särndal, B.
    Swensson, J. Wretman, "Model Assisted Survey Sampling", Springer (1992), section 5.7; A.
    Agresti, B. A. Coull, "Approximate is better than exact for interval estimation of binomial
    proportions", American Statistician 52 (1998), 119-126.

    >>> effective_size(4, 4.0, 4.0, 2.0, 2.0, 0.5)
    4.0
    """
    kish = min(float(n), sum_w * sum_w / sum_w2)
    # Of the weighted mean (Hájek), linearised.
    squares = max(0.0, sum_w2yy - 2 * rate * sum_w2y + rate * rate * sum_w2)
    variance = squares / (sum_w * sum_w)
    if 0 < rate < 1:
        return min(float(n), rate * (1 - rate) / variance) if variance > 0 else kish
    # Sums of equal numbers differ by rounding alone.
    if squares <= 1e-12 * sum_w2:
        return kish
    bounded = min(1.0, max(0.0, rate))
    drawn = (bounded * kish + _BOUNDARY / 2) / (kish + _BOUNDARY)
    return min(kish, drawn * (1 - drawn) / variance)


def difference_estimate(prediction: float, truth: float | None, probability: float) -> float:
    """
    Estimate what a dear judge would say of one sample, without bias.

    The prediction plus, where the judge was asked, the inverse-probability weighted difference to
    it: its expectation over the decision to ask is the judge's own value, whatever the prediction,
    and its variance (1 / probability - 1) (truth - prediction)^2. It may lie outside the range of
    *truth*. Valid when prediction and probability were fixed before the judge was asked, and the
    decision did not look at what the judge would say.

    *prediction*: what the judge is expected to say, from what is known of every sample.
    *truth*: what the judge said; None where it was not asked. *probability*: with which the
    judge was to be asked; outside (0, 1] it raises ValueError.

    Sources: C. M. Cassel, C. E. Särndal, J. H. Wretman, "Some results on generalized difference
    estimation and generalized regression estimation for finite populations", Biometrika 63
    (1976), 615-620; T. Zrnic, E. J. Candès, "Active statistical inference", ICML (2024).

    >>> difference_estimate(0.75, None, 0.25)
    0.75
    >>> difference_estimate(0.75, 1.0, 0.25)
    1.75
    """
    if truth is None:
        return prediction
    if not 0 < probability <= 1:
        raise ValueError(f"the probability of asking is in (0, 1], not {probability}")
    return prediction + (truth - prediction) / probability


def answered_probability(probability: float, answered_share: float) -> float:
    """
    Return how probable a verdict is for a sample that has a score, in (0, 1].

    Of the samples a part `probability * (1 - answered_share)` fails and has none. If all of
    them are asked about, the verdict on each that is left is known.
    """
    answered = probability * answered_share
    return answered / (1 - probability + answered)
