"""What samples are worth that are weighted, or that depend on each other."""

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
#: Taken to be so while too little is known; a session of three that shares half its outcomes has 2.
USUAL_EFFECT: Final = 1.5


class DesignEffect(NamedTuple):
    """By how much counts are divided, in [1, 10], and whether that is measured well."""

    factor: float = USUAL_EFFECT
    known: bool = False


def block_sums(block: NDArray[np.int64], values: Floats) -> Floats:
    """Sum *values* over runs of equal *block*, which must not fall; both of shape (n,)."""
    starts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    return np.asarray(np.add.reduceat(values, starts))


def design_effect(
    bucket: NDArray[np.int64], passed: Floats, n: Floats, *, widths: tuple[int, ...] = (1, 5, 15)
) -> DesignEffect:
    """
    Measure by how much pass counts vary more than those of independent samples.

    Sessions, retries and bursts make neighbours alike. The squares of the differences between
    one block of time and the next are compared with what independence predicts, for blocks of
    several widths; differences of neighbours leave out cycles of a day. The largest factor
    counts, and only what exceeds its own noise. While there are too few of the widest blocks, the
    usual effect is taken, or what is measured if it is larger.

    Valid when correlation does not reach further than the widest block and the rate moves little
    from one block to the next. Longer sessions need one sample a session.

    Parameters
    ----------
    bucket
        Numbers of the buckets that hold samples, rising, shape (t,).
    passed, n
        Sums of each bucket, n > 0, shape (t,); weighted ones scaled to the size they are worth.
    widths
        Widths of the blocks, in buckets.

    Returns
    -------
    DesignEffect
        Known from thirty blocks of the widest sort on.

    References
    ----------
    .. [1] L. Kish, "Survey Sampling", Wiley (1965), section 8.2.
    .. [2] J. von Neumann, "Distribution of the ratio of the mean square successive difference to
       the variance", Annals of Mathematical Statistics 12 (1941), 367-395.
    """
    if not bucket.size:
        return DesignEffect()
    parts = [_effect(bucket // width, passed, n) for width in widths]
    known = parts[-1][0] >= _KNOWN_BLOCKS
    least = 1.0 if known else USUAL_EFFECT
    certain = [
        effect
        for blocks, effect in parts
        if not known or effect > 1.0 + _Z * math.sqrt(3.0 / blocks)
    ]
    return DesignEffect(min(_MOST, max([least, *certain])), known)


def _effect(block: NDArray[np.int64], passed: Floats, n: Floats) -> tuple[int, float]:
    """Give the number of blocks and the factor."""
    total = block_sums(block, n)
    mean = float(passed.sum() / n.sum())
    if total.size < _LEAST_BLOCKS or not 0.0 < mean < 1.0:
        return total.size, 1.0
    rate = block_sums(block, passed) / total
    expected = (1.0 / total[1:] + 1.0 / total[:-1]) * mean * (1.0 - mean)
    return total.size, float(np.sum(np.diff(rate) ** 2 / expected) / (total.size - 1))


def effective_size(
    *, sum_w: float, sum_w2: float, sum_wy: float, sum_w2y: float, sum_w2yy: float, n: float
) -> float:
    """
    Tell how many independent 0/1 samples of equal weight a weighted mean is worth.

    The variance of the weighted mean (Hájek, linearised) is compared with p (1 - p) / n. Where
    ``y`` is an unbiased estimate that lies outside [0, 1] it is worth less than one sample.
    Falls back on Kish's size when the rate is 0 or 1.

    Returns
    -------
    float
        In [0, n].

    References
    ----------
    .. [1] C.-E. Särndal, B. Swensson, J. Wretman, "Model Assisted Survey Sampling", Springer
       (1992), section 5.7.
    """
    if sum_w2 <= 0:
        return 0.0
    rate = sum_wy / sum_w
    spread = sum_w2yy - 2.0 * rate * sum_w2y + rate * rate * sum_w2
    if not 0.0 < rate < 1.0 or spread <= 0:
        return min(n, sum_w * sum_w / sum_w2)
    return min(n, rate * (1.0 - rate) * sum_w * sum_w / spread)
