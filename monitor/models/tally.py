"""The additive state of a stream: sums that merge by addition, in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Self

#: Scores are counted in bins centred on 0.00, 0.01, ... 1.00.
BINS = 101


class StreamKey(NamedTuple):
    """
    Whose scores are summed together.

    A new evaluator version is a new stream, so that a change of the judge never
    looks like a change of quality. ``segment`` is ``*`` for the whole app.
    """

    app: str
    metric: str
    segment: str
    evaluator_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """
    Sums over evaluations; ``+`` merges two of them.

    ``n`` counts completed evaluations, ``passed`` those at or above the pass
    score. ``w`` is a weight, the inverse of the sample rate; ``y`` is 1 for a
    pass; ``x`` is the score in [0, 1]. Failed and skipped ones are counted apart
    and enter no rate.
    """

    n: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0
    sum_w2y: float = 0.0
    sum_x: float = 0.0
    sum_x2: float = 0.0
    sum_wx: float = 0.0
    cost_microusd: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        """Merge two tallies; addition is commutative and associative."""
        return type(self)(
            n=self.n + other.n,
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
            sum_w=self.sum_w + other.sum_w,
            sum_w2=self.sum_w2 + other.sum_w2,
            sum_wy=self.sum_wy + other.sum_wy,
            sum_w2y=self.sum_w2y + other.sum_w2y,
            sum_x=self.sum_x + other.sum_x,
            sum_x2=self.sum_x2 + other.sum_x2,
            sum_wx=self.sum_wx + other.sum_wx,
            cost_microusd=self.cost_microusd + other.cost_microusd,
            histogram=self.histogram + other.histogram,
        )
