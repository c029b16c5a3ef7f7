"""What samples are worth that are weighted, judged in part, or that depend on each other."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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
    if variance <= 1e-12 * sum_w2 / (sum_w * sum_w):
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
