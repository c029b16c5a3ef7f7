"""A change of an overall rate, split into the part of its segments' rates and of their shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


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
    Split the change of an overall rate over the segments of one dimension.

    The parts of all segments add up to the change, exactly. A segment that is there only
    before or after counts with its share alone, as if its rate had been the same.

    Parameters
    ----------
    groups
        All segments; the shares before add up to 1, and those after.

    Returns
    -------
    list[Part]
        In the order of the groups.

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
    rates = [_rates(group) for group in groups]
    overall = (
        sum(g.share_before * before for g, (before, _) in zip(groups, rates, strict=True))
        + sum(g.share_after * after for g, (_, after) in zip(groups, rates, strict=True))
    ) / 2
    return [
        Part(
            (group.share_before + group.share_after) / 2 * (after - before),
            (group.share_before + group.share_after)
            / 2
            * math.sqrt(group.variance_before + group.variance_after),
            (group.share_after - group.share_before) * ((before + after) / 2 - overall),
        )
        for group, (before, after) in zip(groups, rates, strict=True)
    ]


def _rates(group: Group) -> tuple[float, float]:
    before, after = group.rate_before, group.rate_after
    before = after if before is None else before
    after = before if after is None else after
    return (before or 0.0, after or 0.0)
