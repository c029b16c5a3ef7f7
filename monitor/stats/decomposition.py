"""A change of an overall rate, split into the part of its segments' rates and of their shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Group(NamedTuple):
    """
    One segment before and after: share of the traffic, pass rate, variance of the rate.

    A rate is None where the segment had no score.
    """

    share_before: float
    share_after: float
    rate_before: float | None
    rate_after: float | None
    variance_before: float = 0.0
    variance_after: float = 0.0


class Part(NamedTuple):
    """What one segment adds: by its own rate, with the standard error of that, and by its share."""

    rate: float
    rate_error: float
    mix: float


def kitagawa(groups: Sequence[Group]) -> list[Part]:
    """
    Split the change of an overall rate over all segments of one dimension, in their order.

    The parts add up to the change, exactly, as shares before add up to 1 and those after do. A
    segment that is there only before or after counts with its share alone, as if its rate had been
    the same.

    References
    ----------
    .. [1] E. M. Kitagawa, "Components of a difference between two rates", JASA 50 (1955),
       1168-1194.

    Examples
    --------
    >>> part, _ = kitagawa([Group(0.5, 0.5, 0.9, 0.5), Group(0.5, 0.5, 0.9, 0.9)])
    >>> round(part.rate, 3), abs(part.mix)
    (-0.2, 0.0)
    """
    share = np.array([group[:2] for group in groups])
    rate = np.array([group[2:4] for group in groups], dtype=np.float64)
    rate = np.nan_to_num(np.where(np.isnan(rate), rate[:, ::-1], rate))
    error = np.sqrt([group.variance_before + group.variance_after for group in groups])
    overall = (share * rate).sum() / 2
    mean_share = share.mean(axis=1)
    mix = np.diff(share)[:, 0] * (rate.mean(axis=1) - overall)
    columns = mean_share * np.diff(rate)[:, 0], mean_share * error, mix
    return [Part(*row) for row in np.stack(columns, axis=1).tolist()]
