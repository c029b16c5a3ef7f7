"""The small mathematics that several metrics share: shares, means, entropy, likeness of texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from monitor.scoring.language import words


def share(part: int, whole: int) -> float:
    """Return *part* of *whole*; ``ValueError`` if *whole* < 1 or *part* is not in [0, whole]."""
    if whole < 1 or not 0 <= part <= whole:
        raise ValueError(f"{part} of {whole} is not a share")
    return part / whole


def weighted_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """
    Return the mean of *values*, weighted where *weights* are given, one each.

    Raises
    ------
    ValueError
        If there are no values, or the weights are negative, all 0 or of another number.
    """
    weights = [1.0] * len(values) if weights is None else weights
    total = math.fsum(weights)
    if not values or len(weights) != len(values) or min(weights) < 0 or not total > 0:
        raise ValueError("a weighted mean needs values, with one weight each, not all 0")
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / total


def weighted_average(
    scores: Mapping[str, float], weights: Mapping[str, float], lower: Collection[str] = ()
) -> float | None:
    """
    Average the scores that have a weight; None when none has one above 0.

    Weights of missing scores are left out and the others count for the whole: a missing score
    is not a bad score. Scores named in *lower* are better when lower and count as 1 minus
    themselves.
    """
    known = [name for name, weight in weights.items() if name in scores and weight > 0]
    if not known:
        return None
    good = [1 - scores[name] if name in lower else scores[name] for name in known]
    return weighted_mean(good, [weights[name] for name in known])


def simple_average(scores: Mapping[str, float], lower: Collection[str] = ()) -> float | None:
    """Average with equal weights; None for no scores."""
    return weighted_average(scores, dict.fromkeys(scores, 1.0), lower)


def population_std(values: Sequence[float]) -> float:
    """Return the standard deviation with divisor n, on the scale of *values*; 0 below two."""
    if not values:
        return 0.0
    mean = weighted_mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def entropy_bits(weights: Sequence[float]) -> float:
    """
    Return -Σ p log2 p with p the share of each weight; in [0, log2 n] bits (Shannon, 1948).

    Raises
    ------
    ValueError
        If weights are negative or all 0.
    """
    total = math.fsum(weights)
    if not weights or min(weights) < 0 or not total > 0:
        raise ValueError("entropy needs weights that are not negative and not all 0")
    # A share that is too small for a float is 0 and adds nothing.
    shares = [part for weight in weights if (part := weight / total) > 0]
    return max(0.0, -math.fsum(part * math.log2(part) for part in shares))


def normalised_entropy(weights: Sequence[float], most: int | None = None) -> float:
    """Return the entropy over its largest value, log2 *most*, in [0, 1]; *most* is len(weights)."""
    most = len(weights) if most is None else most
    return min(1.0, entropy_bits(weights) / math.log2(most)) if most > 1 else 0.0


def lexical_cosine(one: str, other: str) -> float:
    """
    Return the cosine of the counts of informative word stems, in [0, 1].

    It stands in where definitions use the cosine of embeddings. Paraphrases without common
    words score 0: use it to notice change, not to judge one pair.
    """

    def counts(text: str) -> Counter[str]:
        found = words(text)
        return Counter(w.stem for w in found if w.content) or Counter(w.stem for w in found)

    a, b = counts(one), counts(other)
    norm = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return min(1.0, sum(n * b[stem] for stem, n in a.items()) / norm) if norm else 0.0
