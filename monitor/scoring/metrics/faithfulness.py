"""Share of the statements of an answer that its passages support (seed 002, "Faithfulness")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from monitor.scoring.metrics.similarity import lexical_cosine

_Z95 = 1.96


class NormalInterval(NamedTuple):
    """Bounds in [0, 1]."""

    low: float
    high: float


def uniform_weights(statements: Sequence[str]) -> list[float]:
    """Weigh all statements alike."""
    return [1.0] * len(statements)


def position_weights(statements: Sequence[str]) -> list[float]:
    """Weigh the statement at place i, from 1, by 1 / i."""
    return [1 / place for place in range(1, len(statements) + 1)]


def semantic_weights(statements: Sequence[str], query: str) -> list[float]:
    """
    Weigh each statement by how near it is to the query, in [0, 1].

    Nearness is the cosine of word stems; where no statement shares a word with the query
    all weigh alike.
    """
    weights = [lexical_cosine(statement, query) for statement in statements]
    return weights if any(weights) else uniform_weights(statements)


def faithfulness(verified: Sequence[bool], weights: Sequence[float] | None = None) -> float:
    """
    Sum of the weights of the verified statements over the sum of all weights, in [0, 1].

    Raises
    ------
    ValueError
        If there are no statements, or the weights are negative, all 0 or another number.
    """
    weights = [1.0] * len(verified) if weights is None else weights
    total = math.fsum(weights)
    if not verified or len(weights) != len(verified) or min(weights) < 0 or total <= 0:
        raise ValueError("faithfulness needs statements, with one weight each, not all 0")
    return math.fsum(w for w, ok in zip(weights, verified, strict=True) if ok) / total


def normal_interval(verified: int, n: int) -> NormalInterval:
    """
    95 % interval p ± 1.96 sqrt(p (1 - p) / n), cut to [0, 1].

    The seed's interval. It holds for many statements that err independently of each
    other, and not for few or for a share near 0 or 1, where it has no width at all:
    `monitor.stats.intervals.wilson_interval` does better there.

    Raises
    ------
    ValueError
        If *n* is below 1 or *verified* is not in [0, n].
    """
    if n < 1 or not 0 <= verified <= n:
        raise ValueError(f"{verified} of {n} statements is no share")
    share = verified / n
    half = _Z95 * math.sqrt(share * (1 - share) / n)
    return NormalInterval(max(0.0, share - half), min(1.0, share + half))
