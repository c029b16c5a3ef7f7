"""
How good the retrieved passages are: their ranking against ``expected.relevant``, and what the
judge says of them.

A ranking is a sequence of ids, the best first; an id that occurs twice counts once, at its
first place. All scores are in [0, 1], higher is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from monitor.models import Interaction
from monitor.models.status import WINDOW_WEIGHT
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answers,
    Computed,
    Criterion,
    Form,
    Metric,
    NoParameters,
    asked,
    computed,
)
from monitor.scoring.metrics.measures import named_share, share
from monitor.scoring.metrics.relevance import RELEVANT_PASSAGES

_NEEDS = ("contexts", "expected.relevant")
USEFUL_SENTENCES = Criterion(
    "useful_share",
    "What share of the sentences of all passages together is needed to answer the query?",
)
FOUND_REFERENCE = Criterion(
    "reference_in_passages",
    "Which sentences of the reference are wholly supported by the passages?",
    Form.REFERENCE,
)


class Counts(NamedTuple):
    """True positives, false positives and false negatives of one query."""

    true_positives: int
    false_positives: int
    false_negatives: int


def precision_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Return the share of the first *k* places that hold a relevant passage.

    The divisor is *k* even where fewer were retrieved: an empty place is not a hit.

    Raises
    ------
    ValueError
        If *k* is below 1.
    """
    return share(_hits(retrieved, relevant, k), k)


def recall_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Return the share of the relevant passages that are among the first *k*.

    Raises
    ------
    ValueError
        If *k* is below 1, or nothing is relevant: recall is then not defined.
    """
    return share(_hits(retrieved, relevant, _checked(k)), len(set(relevant)))


def f1_at_k(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the harmonic mean of precision and recall at *k*; 0 when both are 0."""
    precision = precision_at_k(retrieved, relevant, k)
    recall = recall_at_k(retrieved, relevant, k)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def reciprocal_rank(retrieved: Sequence[str], relevant: Collection[str]) -> float:
    """Return one over the place of the first relevant passage; 0 when there is none."""
    places = (place for place, each in enumerate(retrieved, start=1) if each in relevant)
    return 1 / next(places, math.inf)


def dcg(gains: Sequence[float]) -> float:
    """Return the sum of the gains, each divided by log2(place + 1); gains are not negative."""
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def normalised_dcg(retrieved: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """
    Return the discounted gain of the first *k* over that of the best possible ranking.

    The ideal ranking is made of all passages with a gain, retrieved or not.

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
    """Return 2TP / (2TP + FP + FN); 0 when nothing was retrieved and nothing is relevant."""
    total = 2 * each.true_positives + each.false_positives + each.false_negatives
    return 2 * each.true_positives / total if total else 0.0


def macro_f1(queries: Sequence[Counts]) -> float:
    """Return the mean of the F1 of each query: all queries weigh the same; 0 for none."""
    return math.fsum(f1(each) for each in queries) / max(1, len(queries))


def micro_f1(queries: Sequence[Counts]) -> float:
    """Return the F1 of the counts summed over all queries: larger queries weigh more."""
    sums = (sum(column) for column in zip(*queries, strict=True))
    return f1(Counts(*sums)) if queries else 0.0


def average_precision(relevant: Sequence[bool]) -> float:
    """
    Return the mean of precision@i over the places i that are relevant.

    Early relevant passages count more; 0 when none is relevant.
    """
    hits, total = 0, 0.0
    for place, is_relevant in enumerate(relevant, start=1):
        if is_relevant:
            hits += 1
            total += hits / place
    return total / hits if hits else 0.0


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}; it should be at least 1")
    return k


def _unique(retrieved: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(retrieved))


def _hits(retrieved: Sequence[str], relevant: Collection[str], k: int) -> int:
    return sum(each in relevant for each in _unique(retrieved)[: _checked(k)])


class AtK(NoParameters):
    """How many places count."""

    k: int = Field(5, ge=1, description="Number of first places that count.")


def passage_ids(interaction: Interaction) -> list[str]:
    """Name the passages: by their id, else by their place, from 1."""
    return [each.id or str(place) for place, each in enumerate(interaction.contexts, start=1)]


def relevant_gains(interaction: Interaction) -> dict[str, float]:
    """Read ``expected.relevant``: a list of ids, or an object of ids with gains."""
    relevant: Any = (interaction.expected or {}).get("relevant") or ()
    if isinstance(relevant, dict):
        return {str(key): float(gain) for key, gain in relevant.items()}
    return {str(each): 1.0 for each in relevant}


def relevant_ids(interaction: Interaction) -> set[str]:
    """Name the passages that have a gain above 0."""
    return {key for key, gain in relevant_gains(interaction).items() if gain > 0}


def _ranked(
    score: Callable[[list[str], dict[str, float], int], float], **declared: Any
) -> Computed:
    """Make a metric of a score of (ranking, gains above 0, k)."""
    has_k = declared.get("parameters") is AtK

    def compute(interaction: Interaction, p: Any) -> Finding:
        gains = {key: gain for key, gain in relevant_gains(interaction).items() if gain > 0}
        if not gains:
            return Finding(skipped="nothing_relevant")
        k = p.k if has_k else len(interaction.contexts)
        details = {"k": k, "relevant": len(gains)} if has_k else {}
        return Finding(score=min(1.0, score(passage_ids(interaction), gains, k)), details=details)

    return computed(requires=_NEEDS, skips=("nothing_relevant",), **declared)(compute)


def _f1(name: str, what: str, version: str = "1", *, summed: bool = False) -> Computed:
    """Make a metric of the F1 of a query; *summed*: a window sums the counts of its queries."""

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        found = counts(passage_ids(interaction), relevant_ids(interaction))
        # Σ 2TP / Σ (2TP + FP + FN) is the mean of the F1s weighted by their divisors.
        size = 2 * found.true_positives + found.false_positives + found.false_negatives
        weight = {WINDOW_WEIGHT: size} if summed else {}
        return Finding(score=f1(found), details=found._asdict() | weight)

    return computed(
        name=name,
        what=what,
        version=version,
        formula="2TP / (2TP + FP + FN)",
        requires=_NEEDS,
        source="van Rijsbergen 1979, Information Retrieval",
        pass_score=0.5,
    )(compute)


@asked(
    RELEVANT_PASSAGES,
    name="contextual_precision",
    what="Whether the passages that help come before those that do not.",
    formula="Σ precision@i · relevant_i / Σ relevant_i",
    requires=("query", "contexts"),
    source="DeepEval, ContextualPrecisionMetric",
)
def contextual_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Weigh early passages more, among those that the judge could see."""
    said = answers[RELEVANT_PASSAGES.name]
    flags = [place in said.numbers for place in answers.places]
    return Finding(score=average_precision(flags), explanation=said.reasoning)


@asked(
    USEFUL_SENTENCES,
    name="context_precision",
    what="Share of the passages' sentences that are needed for the answer, as the judge"
    " estimates it.",
    formula="relevant sentences / sentences",
    requires=("query", "contexts"),
    source="Es et al. 2023, RAGAS (arXiv:2309.15217), context relevance",
    pass_score=0.5,
)
def context_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Take the judge's estimate of the share."""
    said = answers[USEFUL_SENTENCES.name]
    return Finding(score=said.score, explanation=said.reasoning)


context_recall = named_share(
    FOUND_REFERENCE,
    "reference",
    name="context_recall",
    what="Share of the reference's statements that the passages hold.",
    formula="statements of the reference found in the passages / statements of the reference",
    requires=("contexts", "expected.answer"),
    source="RAGAS, context recall",
)


METRICS: tuple[Metric, ...] = (
    contextual_precision,
    context_precision,
    context_recall,
    _ranked(
        precision_at_k,
        name="precision_at_k",
        what="Share of the first k places with a relevant passage.",
        formula="relevant in the first k / k",
        source="Manning et al. 2008, Introduction to Information Retrieval, 8.4",
        parameters=AtK,
        pass_score=0.5,
    ),
    _ranked(
        recall_at_k,
        name="recall_at_k",
        what="Share of the relevant passages among the first k.",
        formula="relevant in the first k / relevant",
        source="Manning et al. 2008, Introduction to Information Retrieval, 8.4",
        parameters=AtK,
    ),
    _ranked(
        f1_at_k,
        name="f1_at_k",
        what="Precision and recall at k in one.",
        formula="2 P R / (P + R)",
        source="van Rijsbergen 1979, Information Retrieval",
        parameters=AtK,
        pass_score=0.5,
    ),
    _ranked(
        lambda ids, gains, _: reciprocal_rank(ids, gains),
        name="mrr",
        what="How early the first relevant passage comes; the window's mean is MRR.",
        formula="1 / place of the first relevant passage",
        source="Voorhees 1999, TREC-8 Question Answering Track",
        pass_score=0.5,
    ),
    _ranked(
        normalised_dcg,
        name="ndcg_at_k",
        what="How well the passages are ranked, by their gains.",
        formula="DCG@k / IDCG@k, DCG = Σ gain / log2(place + 1)",
        source="Järvelin and Kekäläinen 2002",
        parameters=AtK,
    ),
    _f1("macro_f1", "F1 of all passages of a query; the window's mean is macro F1."),
    _f1(
        "micro_f1",
        "F1 of all passages of a query; queries weigh by their passages, so the window's mean is"
        " micro F1, from summed counts.",
        "2",
        summed=True,
    ),
)
