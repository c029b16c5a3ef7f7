"""How good the retrieved passages are for the question (seed 002, "Generation Metrics" 1 to 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

_FAITHFUL_WEIGHT = 0.6


def sentence_precision(relevant: int, total: int) -> float:
    """
    Relevant sentences over all sentences of the passages: context precision after RAGAS.

    Raises
    ------
    ValueError
        If there are no sentences, or more relevant ones than there are.
    """
    if total < 1 or not 0 <= relevant <= total:
        raise ValueError(f"{relevant} of {total} sentences is no share")
    return relevant / total


def ranked_precision(relevant: Sequence[bool]) -> float:
    """
    Mean of precision@i over the places i that are relevant: context precision after DeepEval.

    Early relevant passages count more; 0 when none is relevant.
    """
    hits, total = 0, 0.0
    for place, is_relevant in enumerate(relevant, start=1):
        if is_relevant:
            hits += 1
            total += hits / place
    return total / hits if hits else 0.0


def context_recall(found: Sequence[bool]) -> float:
    """
    Statements of the reference that the passages hold, over all its statements.

    Raises
    ------
    ValueError
        If the reference states nothing.
    """
    if not found:
        raise ValueError("a reference that states nothing has no recall")
    return sum(found) / len(found)


def answer_relevance(similarities: Sequence[float]) -> float:
    """
    Mean similarity of the question and questions made from the answer, in [0, 1].

    Raises
    ------
    ValueError
        If there are none.
    """
    if not similarities:
        raise ValueError("answer relevance needs at least one question")
    return min(1.0, max(0.0, math.fsum(similarities) / len(similarities)))


def answer_correctness(
    faithful: float, similarity: float, faithful_weight: float = _FAITHFUL_WEIGHT
) -> float:
    """Weigh statement verification, 0.6, and similarity to the reference, 0.4; all in [0, 1]."""
    return faithful_weight * faithful + (1 - faithful_weight) * similarity
