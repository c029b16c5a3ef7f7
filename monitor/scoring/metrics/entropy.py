"""Diversity and uncertainty in bits (seed 002, "Entropy-Based Metrics")."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def entropy_bits(weights: Sequence[float]) -> float:
    """
    -Σ p log2 p with p the share of each weight; in [0, log2 n] bits.

    Raises
    ------
    ValueError
        If weights are negative or all 0.
    """
    total = math.fsum(weights)
    if not weights or min(weights) < 0 or not total > 0:
        raise ValueError("entropy needs weights that are not negative and not all 0")
    # A share that is too small for a float is 0 and adds nothing.
    shares = [share for weight in weights if (share := weight / total) > 0]
    return max(0.0, -math.fsum(share * math.log2(share) for share in shares))


def normalised_entropy(weights: Sequence[float]) -> float:
    """Entropy over its largest value, log2 n, in [0, 1]; 0 for a single weight."""
    return min(1.0, entropy_bits(weights) / math.log2(len(weights))) if len(weights) > 1 else 0.0


def candidate_weights(candidates: Sequence[str]) -> list[float]:
    """Count equal answers, ignoring case, spaces and the full stop at the end."""
    plain = (" ".join(each.split()).casefold().rstrip(".!") for each in candidates)
    return [float(n) for n in Counter(plain).values()]


def answer_uncertainty(candidates: Sequence[str]) -> float:
    """
    Entropy of sampled answers over log2 of their number, in [0, 1]; lower is surer.

    0 when all are the same, 1 when all differ. Raises ``ValueError`` without answers.
    """
    if len(candidates) == 1:
        return 0.0
    return min(1.0, entropy_bits(candidate_weights(candidates)) / math.log2(len(candidates)))
