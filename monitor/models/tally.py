"""The additive state of a stream: sums that merge by addition, in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Self

#: Scores are counted in bins centred on 0.00, 0.01, ... 1.00.
BINS = 101


class StreamKey(NamedTuple):
    """
    Whose scores are summed together.

    A new evaluator version is a new stream, so that a change of the judge never
    looks like a change of quality. ``segment`` is ``*`` for the whole app, or
    ``dimension=value`` for a part of it.
    """

    app: str
    metric: str
    segment: str
    evaluator_version: str


#: The segment that holds every evaluation of an app.
ROOT = "*"
#: The value of a dimension under which all are counted that have no segment of their own.
OTHER = "(other)"


def segment_name(dimension: str, value: str) -> str:
    """Name a segment: ``dimension=value``."""
    return f"{dimension}={value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """
    Sums over evaluations; ``+`` merges two of them.

    ``n`` counts completed evaluations, ``passed`` those at or above the pass
    score. ``w`` is a weight, the inverse of the sample rate; ``y`` is 1 for a
    pass; ``x`` is the score in [0, 1]. Where a judge was asked about some samples
    only, ``y`` and ``x`` are unbiased estimates of what it would have said, and may
    lie outside [0, 1]; ``judged`` counts those it was asked about, ``agreed`` those
    of them on which the local score came to the same. Failed and skipped ones are
    counted apart and enter no rate; ``late`` counts those that came after their
    bucket had settled.
    """

    n: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    judged: int = 0
    agreed: int = 0
    late: int = 0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0
    sum_w2y: float = 0.0
    sum_w2yy: float = 0.0
    sum_x: float = 0.0
    sum_x2: float = 0.0
    sum_wx: float = 0.0
    sum_wxx: float = 0.0
    cost_microusd: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        """Merge two tallies; addition is commutative and associative."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in TALLY_SUMS}
        return type(self)(**sums, histogram=self.histogram + other.histogram)


#: The fields that are plain sums: all but the histogram. A table of buckets has a column for each.
TALLY_SUMS = tuple(item.name for item in fields(Tally) if item.name != "histogram")
