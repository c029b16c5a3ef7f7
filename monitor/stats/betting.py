"""A sequential detector of a fall or rise of the mean score, with a controlled run length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models.status import BINS

#: Bets as shares of the largest that cannot ruin: small ones for small changes.
_FRACTIONS: Final = np.array([0.03, 0.08, 0.2, 0.45, 0.9])
#: In standard deviations; the same effect that is asked of Cohen's d.
_TOLERATED: Final = 0.2
_HALF_BIN: Final = 0.005
_MOST: Final = 1e250


class Baseline(NamedTuple):
    """The scores of the reference: mean and standard deviation, and how many there were."""

    mean: float
    deviation: float
    n: float


class Detector(NamedTuple):
    """The wealth of each bet, summed over its starts; all zeros at a reset."""

    wealth: tuple[float, ...] = (0.0,) * len(_FRACTIONS)

    @property
    def level(self) -> float:
        """Mean over the bets: what the alarm threshold is compared with."""
        return sum(self.wealth) / len(self.wealth)


def null_mean(baseline: Baseline) -> float:
    """
    Give the mean that scores may fall to before it is called a change, in (0, 1).

    The lower 98 % bound of the reference's mean, less a fifth of a standard deviation: by
    convention a smaller effect is not even a small one, and the hours of a day differ as much.
    """
    error = baseline.deviation / math.sqrt(max(1.0, baseline.n))
    bound = baseline.mean - 2.33 * error - _TOLERATED * baseline.deviation
    return min(1 - 1e-3, max(1e-3, bound))


def advance(
    detector: Detector,
    buckets: Sequence[Mapping[int, float]],
    *,
    null: float,
    design_effect: float = 1.0,
) -> Detector:
    """
    Take in buckets of scores, oldest first: one new start for each of them, empty or not.

    A mixture of Shiryaev-Roberts sums of betting martingales. As long as the mean of the
    scores is at least *null* given the past, the expected level after t buckets is at most
    t; so with an alarm at A the average run length is at least A buckets, whatever the
    traffic and however often one looks. Scores are taken at the upper end of their bin,
    which keeps that true. For rises, turn the scores around: see `mirrored`.

    Parameters
    ----------
    detector
        Where it stood.
    buckets
        For each bucket, counts by bin (0 to 100).
    null
        In (0, 1); may change between calls as long as it is fixed before its buckets.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.

    References
    ----------
    .. [1] J. Shin, A. Ramdas, A. Rinaldo, "E-detectors" (2022), arXiv:2203.03532.
    .. [2] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by
       betting", JRSS B 86 (2024), 1-27.
    """
    gains = _gains(null)
    wealth: NDArray[np.float64] = np.asarray(detector.wealth)
    for bucket in buckets:
        wealth = wealth + 1
        if bucket:
            log_gain = gains[:, list(bucket)] @ np.array(list(bucket.values()), dtype=float)
            wealth = np.minimum(_MOST, wealth * np.exp(log_gain / design_effect))
    return Detector(tuple(wealth.tolist()))


def mirrored(bucket: Mapping[int, float]) -> dict[int, float]:
    """Turn the scores of a bucket around, so that a rise becomes a fall."""
    return {BINS - 1 - position: count for position, count in bucket.items()}


def threshold(bucket_s: float, budget: float) -> float:
    """Give the level at which *budget* false alarms are expected in 30 days of healthy traffic."""
    return 30 * 86_400 / bucket_s / budget


@lru_cache(maxsize=512)
def _gains(null: float) -> NDArray[np.float64]:
    """Give the logarithm of what each bet gains by a score in each bin, shape (bets, bins)."""
    upper_ends = np.minimum(1.0, np.arange(BINS) / (BINS - 1) + _HALF_BIN)
    return np.asarray(np.log1p(np.outer(_FRACTIONS / (1 - null), null - upper_ends)))
