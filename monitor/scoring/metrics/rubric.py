"""Levels of the five-dimension rubric, and claims weighted by importance (seed 000)."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: What a level is worth; the same for every dimension.
LEVELS = {"excellent": 1.0, "good": 0.8, "acceptable": 0.6, "poor": 0.3, "failed": 0.0}
MAJOR, MINOR = 2.0, 1.0


def nearest_level(score: float) -> tuple[str, float]:
    """Find the level nearest to a score in [0, 1]; of two equally near ones the lower."""
    return min(LEVELS.items(), key=lambda item: (round(abs(item[1] - score), 9), item[1]))


def claim_accuracy(accuracies: Sequence[float], importances: Sequence[float]) -> float:
    """
    Average of claim accuracies in [0, 1], weighted by importance.

    The seed says "major claims more weight" and no number; a major claim counts twice
    as much as a minor one unless told otherwise.

    Raises
    ------
    ValueError
        If there are no claims, or no importance is above 0.
    """
    total = math.fsum(importances)
    if not accuracies or len(accuracies) != len(importances) or not total > 0:
        raise ValueError("claims need an accuracy and an importance each, not all 0")
    return math.fsum(a * w for a, w in zip(accuracies, importances, strict=True)) / total
