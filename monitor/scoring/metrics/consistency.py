"""
Whether runs, or models, say the same (seed 001, "Consistency Metrics").

The document names the figures without formulas; those here are ours and stated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def agreement(labels: Sequence[str]) -> float:
    """
    Share of runs with the most common label, in (0, 1].

    Raises
    ------
    ValueError
        If there are none.
    """
    if not labels:
        raise ValueError("agreement needs at least one label")
    return Counter(labels).most_common(1)[0][1] / len(labels)


def population_std(values: Sequence[float]) -> float:
    """Standard deviation with divisor n, on the scale of the values; 0 for fewer than two."""
    if len(values) < 2:  # noqa: PLR2004
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def score_consistency(values: Sequence[float], scale: float) -> float:
    """1 - std / (scale / 2), in [0, 1]: half the scale is the largest deviation there can be."""
    return max(0.0, 1 - population_std(values) / (scale / 2))


def value_range(values: Sequence[float]) -> float:
    """Largest minus smallest, on the scale of the values."""
    return max(values) - min(values)


def range_agreement(values: Sequence[float], scale: float) -> float:
    """1 - (largest - smallest) / scale, in [0, 1]."""
    return max(0.0, 1 - value_range(values) / scale)


def mean_of(*parts: float) -> float:
    """Combine parts with equal weights."""
    return math.fsum(parts) / len(parts)
