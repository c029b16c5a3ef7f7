"""Paired comparisons: how far a mean has fallen case by case, and whether that is noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, stdtrit


class PairedFall(NamedTuple):
    """A mean fall of *n* pairs; the truth is within *half_width* of it, at the level asked for."""

    n: int
    mean: float
    half_width: float


def paired_fall(differences: Sequence[float], *, alpha: float = 0.05) -> PairedFall:
    """
    Bound the mean of paired differences, before minus after, on each side.

    Student's interval for one mean: exact for normal differences, good from about 20 pairs for
    others. Valid for one look at independent pairs; each side misses with probability *alpha*.

    At least one difference; *alpha* is one-sided, in (0, 0.5). The half width is infinite for one
    pair, and 0 where all differences are equal.

    References
    ----------
    .. [1] Student, "The probable error of a mean", Biometrika 6 (1908), 1-25.

    Examples
    --------
    >>> fall = paired_fall([0.1, 0.2, 0.3])
    >>> round(fall.mean, 3), round(fall.half_width, 3)
    (0.2, 0.169)
    """
    values = np.asarray(differences, dtype=float)
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return PairedFall(1, mean, math.inf)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    error = 0.0 if error < 1e-9 else error  # noqa: PLR2004 - rounding
    return PairedFall(n, mean, float(stdtrit(n - 1, 1 - alpha)) * error)


def pairs_needed(fall: PairedFall, half_width: float) -> int | None:
    """Return about how many pairs narrow the bound to *half_width*; None if one pair is all."""
    if fall.n == 1:
        return None
    return math.ceil(fall.n * max(1.0, (fall.half_width / half_width) ** 2))


def sign_test(worse: int, better: int) -> float:
    """
    Return the probability of at least so many *worse* among all changes, if either is as likely.

    McNemar's exact test on one side; 1 for no change. Valid for independent pairs and one look.

    References
    ----------
    .. [1] Q. McNemar, "Note on the sampling error of the difference between correlated
       proportions or percentages", Psychometrika 12 (1947), 153-157.

    Examples
    --------
    >>> sign_test(5, 0)
    0.03125
    """
    return float(betainc(worse, better + 1, 0.5)) if worse > 0 else 1.0
