"""
Grounding from the probabilities that passages entail claims (seed 002, "Grounding Score").

A matrix has one row a claim and one column a passage, shape (claims, passages), each
value the probability in [0, 1] that the passage entails the claim. Where it comes from
does not matter here: an NLI model, an LLM or counted words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
#: With less than this from its best single passage, a claim is tried against pairs.
ENOUGH = 0.8


def as_matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    """
    Check and convert probabilities.

    Raises
    ------
    ValueError
        If it is not a rectangle with at least one claim, or a value is not in [0, 1].
    """
    matrix = np.asarray(rows, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) == 0:  # noqa: PLR2004
        raise ValueError("probabilities should have one row a claim and one column a passage")
    if not bool(np.all((matrix >= 0) & (matrix <= 1))):
        raise ValueError("a probability should be in [0, 1]")
    return matrix


def grounding_score(matrix: Matrix) -> float:
    """Mean over claims of the best passage; 0 without passages."""
    return float(np.mean(np.max(matrix, axis=1, initial=0.0)))


def multi_document_grounding(
    matrix: Matrix, pair: Callable[[int, int, int], float], enough: float = ENOUGH
) -> float:
    """
    Mean over claims of the best passage, or of the best pair where no single one suffices.

    The seed's formula speaks of all subsets and its code of pairs; pairs it is.

    Parameters
    ----------
    matrix
        Probabilities of single passages, shape (claims, passages).
    pair
        Gives the probability of ``(claim, passage, other passage)``; only asked where needed.
    enough
        Best single probability from which on pairs are not tried.
    """
    best = np.max(matrix, axis=1, initial=0.0)
    for claim in np.flatnonzero(best < enough):
        pairs = combinations(range(matrix.shape[1]), 2)
        best[claim] = max([best[claim], *(pair(int(claim), i, j) for i, j in pairs)])
    return float(np.mean(best))


def contradicted_share(contradicted: Sequence[bool]) -> float:
    """
    Passages that the answer contradicts over all passages, in [0, 1]; lower is better.

    Raises
    ------
    ValueError
        If there are no passages.
    """
    if not contradicted:
        raise ValueError("without passages there is nothing to contradict")
    return sum(contradicted) / len(contradicted)


def hallucination(hallucinated: int, facts: int) -> float:
    """
    Facts that contradict the passages or go beyond them, over all facts; lower is better.

    The reading of seed 001. Seed 002 counts contradicted passages instead:
    `contradicted_share`.

    Raises
    ------
    ValueError
        If there are no facts.
    """
    if facts < 1:
        raise ValueError("an answer that states nothing has no share of hallucinations")
    return hallucinated / facts
