"""
How good a ranking of passages is (seed 002, "Retrieval Metrics" and "F1 Score Variants").

A ranking is a sequence of ids, the best first; an id that occurs twice counts once, at
its first place. All scores are in [0, 1], higher is better.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Counts(NamedTuple):
    """True positives, false positives and false negatives of one query."""

    true_positives: int
    false_positives: int
    false_negatives: int


def precision_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Share of the first *k* places that hold a relevant passage.

    The divisor is *k* even where fewer were retrieved: an empty place is no hit.

    Raises
    ------
    ValueError
        If *k* is below 1.
    """
    return _hits(retrieved, relevant, k) / _checked(k)


def recall_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Share of the relevant passages that are among the first *k*.

    Raises
    ------
    ValueError
        If *k* is below 1, or nothing is relevant: recall is then not defined.
    """
    if not relevant:
        raise ValueError("recall is not defined when nothing is relevant")
    return _hits(retrieved, relevant, _checked(k)) / len(set(relevant))


def f1_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Harmonic mean of precision and recall at *k*; 0 when both are."""
    precision = precision_at_k(retrieved, relevant, k)
    recall = recall_at_k(retrieved, relevant, k)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def reciprocal_rank(retrieved: Sequence[str], relevant: Collection[str]) -> float:
    """One over the place of the first relevant passage; 0 when there is none."""
    places = (place for place, each in enumerate(retrieved, start=1) if each in relevant)
    return 1 / next(places, math.inf)


def mean_reciprocal_rank(rankings: Sequence[tuple[Sequence[str], Collection[str]]]) -> float:
    """Mean of the reciprocal ranks of several queries; 0 for none."""
    ranks = [reciprocal_rank(retrieved, relevant) for retrieved, relevant in rankings]
    return _mean(ranks)


def dcg(gains: Sequence[float]) -> float:
    """Sum of the gains, each divided by log2(place + 1); gains are not negative."""
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def ndcg_at_k_score(retrieved: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """
    Discounted gain of the first *k*, divided by that of the best possible ranking.

    The ideal ranking is made of all passages with a gain, retrieved or not. The seed's
    example gives 7.65 for the ideal of [3, 3, 2, 1, 0]; its own formula gives 6.32, and
    so nDCG@5 = 0.972 where the example says 0.804. The formula is followed.

    Raises
    ------
    ValueError
        If *k* is below 1, or no passage has a gain above 0.
    """
    ideal = dcg(sorted(gains.values(), reverse=True)[: _checked(k)])
    if not ideal > 0:
        raise ValueError("nDCG is not defined when no passage has a gain above 0")
    return dcg([gains.get(each, 0.0) for each in _unique(retrieved)[:k]]) / ideal


def counts(retrieved: Collection[str], relevant: Collection[str]) -> Counts:
    """Count hits, false alarms and misses of a whole ranking."""
    found, wanted = set(retrieved), set(relevant)
    return Counts(len(found & wanted), len(found - wanted), len(wanted - found))


def f1(each: Counts) -> float:
    """2TP / (2TP + FP + FN); 0 when nothing was retrieved and nothing is relevant."""
    total = 2 * each.true_positives + each.false_positives + each.false_negatives
    return 2 * each.true_positives / total if total else 0.0


def macro_f1(queries: Sequence[Counts]) -> float:
    """Mean of the F1 of each query: all queries weigh the same."""
    return _mean([f1(each) for each in queries])


def micro_f1(queries: Sequence[Counts]) -> float:
    """F1 of the counts summed over all queries: queries with more passages weigh more."""
    sums = (sum(column) for column in zip(*queries, strict=True))
    return f1(Counts(*sums)) if queries else 0.0


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}; it should be at least 1")
    return k


def _unique(retrieved: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(retrieved))


def _hits(retrieved: Sequence[str], relevant: Collection[str], k: int) -> int:
    return sum(each in relevant for each in _unique(retrieved)[:k])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
