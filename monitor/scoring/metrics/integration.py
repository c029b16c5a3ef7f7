"""Putting several passages together, and what to do when they conflict (seed 002, RGB)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def information_integration(coverage: float, synthesis: float) -> float:
    """0.6 coverage of the reference's facts + 0.4 quality of the synthesis, both in [0, 1]."""
    return 0.6 * coverage + 0.4 * synthesis


def contradiction_handling(identified: int, actual: int) -> float:
    """
    Contradictions that were correctly identified over those there are, in [0, 1].

    Raises
    ------
    ValueError
        If there are none, or more identified than there are.
    """
    if actual < 1 or not 0 <= identified <= actual:
        raise ValueError(f"{identified} of {actual} contradictions is no share")
    return identified / actual


def noise_robustness(coverage: float, noise: int) -> float:
    """
    Coverage of the reference, in [0, 1], by an answer that was given *noise* useless passages.

    Raises
    ------
    ValueError
        If there is no noise to be robust against.
    """
    if noise < 1:
        raise ValueError("without useless passages nothing is said of robustness")
    return coverage


def negative_rejection(refused: Sequence[bool]) -> float:
    """
    Share of unanswerable questions that were declined, in [0, 1].

    Raises
    ------
    ValueError
        If there are none.
    """
    if not refused:
        raise ValueError("negative rejection needs questions without an answer")
    return sum(refused) / len(refused)


def counterfactual_robustness(detected: Sequence[bool]) -> float:
    """
    Share of the false passages that the answer recognised as false, in [0, 1].

    Raises
    ------
    ValueError
        If there are none.
    """
    if not detected:
        raise ValueError("counterfactual robustness needs false passages")
    return sum(detected) / len(detected)


def share_of(numbers: Sequence[int], total: int) -> float:
    """Distinct numbers over *total*; the common form of judged shares."""
    if total < 1:
        raise ValueError("a share needs something to be a share of")
    return math.fsum(1 for _ in set(numbers)) / total
