"""How a score moves over time (seed 004, "Temporal Evaluations")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from monitor.scoring.metrics.consistency import population_std


class Trend(StrEnum):
    """Where a score goes."""

    IMPROVING = "improving"
    STABLE = "stable"
    DECLINING = "declining"


class Course(NamedTuple):
    """The record of the document: current score, trend, change a step, stability in [0, 1]."""

    current_score: float
    trend: Trend
    change_rate: float
    stability_score: float


def course(scores: Sequence[float], tolerance: float = 0.01) -> Course:
    """
    Describe scores in [0, 1], the oldest first, the current one last.

    The change rate is the least-squares slope a step; within *tolerance* of 0 the trend is
    stable. Stability is 1 minus twice the standard deviation around that line: a steady
    climb is stable. The document's example ([0.78, 0.82, 0.85], change rate 0.02, stability
    0.91) comes with no formula; its own scores rise by 0.035 a step.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not scores:
        raise ValueError("a course needs at least one score")
    n = len(scores)
    centre, mean = (n - 1) / 2, math.fsum(scores) / n
    spread = math.fsum((i - centre) ** 2 for i in range(n))
    slope = math.fsum((i - centre) * (y - mean) for i, y in enumerate(scores))
    slope = slope / spread if spread else 0.0
    residuals = [y - mean - slope * (i - centre) for i, y in enumerate(scores)]
    stability = max(0.0, 1 - 2 * population_std(residuals))
    if abs(slope) <= tolerance:
        return Course(scores[-1], Trend.STABLE, slope, stability)
    return Course(scores[-1], Trend.IMPROVING if slope > 0 else Trend.DECLINING, slope, stability)
