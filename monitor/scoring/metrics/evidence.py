"""Quality of the evidence for a claim, and integrity of a chain of checks (seed 002, VERA)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta


def evidence_quality(support: float, diversity: float, recency: float, authority: float) -> float:
    """0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority, each in [0, 1]."""
    return 0.4 * support + 0.3 * diversity + 0.2 * recency + 0.1 * authority


def source_diversity(sources: Sequence[str], enough: int = 3) -> float:
    """Independent sources over *enough* of them, at most 1; the seed gives no formula."""
    return min(1.0, len(set(sources)) / enough)


def recency(published: datetime, now: datetime, half_life: timedelta) -> float:
    """Halve with every *half_life* of age; 1 for what is new. The seed gives no formula."""
    age = max(timedelta(0), now - published)
    return math.pow(0.5, age / half_life)


def chain_break(confidences: Sequence[float], threshold: float = 0.0) -> int | None:
    """
    Find the first step whose confidence falls more than *threshold* below the step before.

    Returns its index; None when every step keeps or raises the confidence. A chain of one
    step or none cannot break.
    """
    for step in range(1, len(confidences)):
        if confidences[step] < confidences[step - 1] - threshold:
            return step
    return None


def chain_integrity(confidences: Sequence[float], threshold: float = 0.0) -> float:
    """1.0 for a chain that does not break, else 0.0 (the seed returns an error there)."""
    return float(chain_break(confidences, threshold) is None)


def categorical_correctness(identity: float, composition: float, naturality: float) -> float:
    """Take the worst of three laws: all must hold."""
    return min(identity, composition, naturality)
