"""
The ranking of the retrieved passages: against ``expected.relevant``, and as the judge sees it.

A ranking is a sequence of ids, the best first; an id that occurs twice counts once, at its
first place. All scores are in [0, 1], higher is better unless declared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from monitor.format import count, part_of
from monitor.models import Interaction
from monitor.models.status import WINDOW_WEIGHT
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answers,
    Computed,
    Criterion,
    Form,
    NoParameters,
    asked,
    computed,
    lookup,
    lookup_list,
    named_share,
)
from monitor.scoring.measures import (
    share,
)

_NEEDS = ("contexts", "expected.relevant")
_MANNING = "Manning et al. 2008, Introduction to Information Retrieval, 8.4"
_RIJSBERGEN = "van Rijsbergen 1979, Information Retrieval"
RELEVANT_PASSAGES = Criterion(
    "relevant_passages",
    "Which passages hold information that helps to answer the query?",
    Form.PASSAGES,
)
_FOUND = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class Counts(NamedTuple):
    """True positives, false positives and false negatives of one query."""

    true_positives: int
    false_positives: int
    false_negatives: int


def precision_of(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Return the share of the first *k* places that hold a relevant passage.

    The divisor is *k* even where fewer were retrieved: an empty place is not a hit.
    Raises ``ValueError`` if *k* is below 1.
    """
    return share(_hits(retrieved, relevant, k), k)


def recall_of(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """
    Return the share of the relevant passages that are among the first *k*.

    Raises ``ValueError`` if *k* is below 1, or nothing is relevant: recall is then not defined.
    """
    return share(_hits(retrieved, relevant, k), len(set(relevant)))


def f1_of(retrieved: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the harmonic mean of precision and recall at *k*; 0 when both are 0."""
    precision, recall = precision_of(retrieved, relevant, k), recall_of(retrieved, relevant, k)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def reciprocal_rank(retrieved: Sequence[str], relevant: Collection[str], _: int = 0) -> float:
    """Return one over the place of the first relevant passage; 0 when there is none."""
    ranked = dict.fromkeys(retrieved)
    places = (place for place, each in enumerate(ranked, start=1) if each in relevant)
    return 1 / next(places, math.inf)


def dcg(gains: Sequence[float]) -> float:
    """Return the sum of the gains, each divided by log2(place + 1); gains are not negative."""
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def normalised_dcg(retrieved: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """
    Return the discounted gain of the first *k* over that of the best possible ranking.

    The ideal ranking is made of all passages with a gain, retrieved or not. Raises
    ``ValueError`` if *k* is below 1, or no passage has a gain above 0.
    """
    first = _first(retrieved, k)
    ideal = dcg(sorted(gains.values(), reverse=True)[:k])
    if not ideal > 0:
        raise ValueError("nDCG is not defined when no passage has a gain above 0")
    return dcg([gains.get(each, 0.0) for each in first]) / ideal


def counts(retrieved: Collection[str], relevant: Collection[str]) -> Counts:
    """Count hits, false alarms and misses of a whole ranking."""
    found, wanted = set(retrieved), set(relevant)
    return Counts(len(found & wanted), len(found - wanted), len(wanted - found))


def f1(each: Counts) -> float:
    """Return 2TP / (2TP + FP + FN); 0 when nothing was retrieved and nothing is relevant."""
    total = 2 * each.true_positives + each.false_positives + each.false_negatives
    return 2 * each.true_positives / total if total else 0.0


def macro_average_f1(queries: Sequence[Counts]) -> float:
    """Return the mean of the F1 of each query: all queries weigh the same; 0 for none."""
    return math.fsum(map(f1, queries)) / max(1, len(queries))


def micro_average_f1(queries: Sequence[Counts]) -> float:
    """Return the F1 of the counts summed over all queries: larger queries weigh more."""
    return f1(Counts(*map(sum, zip(*queries, strict=True)))) if queries else 0.0


def average_precision(relevant: Sequence[bool]) -> float:
    """
    Return the mean of precision@i over the places i that are relevant.

    Early relevant passages count more; 0 when none is relevant.
    """
    places = [place for place, is_relevant in enumerate(relevant, start=1) if is_relevant]
    return math.fsum(n / place for n, place in enumerate(places, start=1)) / max(1, len(places))


def _first(retrieved: Sequence[str], k: int) -> list[str]:
    if k < 1:
        raise ValueError(f"k is {k}; it should be at least 1")
    return list(dict.fromkeys(retrieved))[:k]


def _hits(retrieved: Sequence[str], relevant: Collection[str], k: int) -> int:
    return sum(each in relevant for each in _first(retrieved, k))


class AtK(NoParameters):
    """How many places count."""

    k: int = Field(
        5,
        ge=1,
        description="Number of first places that count. Precision at k is at most passages / k:"
        " choose a k up to the number of passages that your app retrieves.",
    )


def passage_ids(interaction: Interaction) -> list[str]:
    """Return the names of the passages: their id, else their place, from 1."""
    return [each.id or str(place) for place, each in enumerate(interaction.contexts, start=1)]


def relevant_gains(interaction: Interaction) -> dict[str, float]:
    """Read ``expected.relevant``, a list of ids or an object of ids with gains above 0."""
    relevant = lookup(interaction, "expected.relevant")
    if not isinstance(relevant, dict):
        relevant = dict.fromkeys(lookup_list(interaction, "expected.relevant"), 1.0)
    return {str(key): float(gain) for key, gain in relevant.items() if float(gain) > 0}


def relevant_ids(interaction: Interaction) -> set[str]:
    """Return the names of the passages that have a gain above 0."""
    return set(relevant_gains(interaction))


#: Of a ranking, the gains above 0 of its passages, and k.
_Score = Callable[[list[str], dict[str, float], int], float]
_Said = Callable[[list[str], dict[str, float], int], str]


def _ranked(score: _Score, said: _Said, **declared: Any) -> Computed:
    """Make a metric of a score, and of a sentence that says how it comes about."""

    def compute(interaction: Interaction, p: Any) -> Finding:
        gains = relevant_gains(interaction)
        if not gains:
            return Finding(skipped="nothing_relevant")
        k = p.k if isinstance(p, AtK) else len(interaction.contexts)
        ranking = passage_ids(interaction)
        details = {"k": k, "relevant": len(gains)} if isinstance(p, AtK) else {}
        found = min(1.0, score(ranking, gains, k))
        return Finding(score=found, explanation=said(ranking, gains, k), details=details)

    shared = {"requires": _NEEDS, "skips": ("nothing_relevant",), "parameters": AtK}
    return computed(**shared | declared)(compute)


def _precision_said(retrieved: Sequence[str], relevant: Collection[str], k: int) -> str:
    """Return how many places hold a relevant passage, and how many could if it is not all."""
    hits, there = _hits(retrieved, relevant, k), len(set(retrieved))
    said = f"{hits} of the first {count(k, 'place')} {'holds' if 1 in (hits, k) else 'hold'}"
    said += " a relevant passage"
    if (most := min(there, len(relevant))) < k:
        which = "retrieved" if there <= len(relevant) else "relevant"
        said += f"; with {count(most, 'passage')} {which} the score is at most {most / k:.2f}"
    return f"{said}."


def _recall_said(retrieved: Sequence[str], relevant: Collection[str], k: int) -> str:
    hits = _hits(retrieved, relevant, k)
    return f"{part_of(hits, len(relevant), 'relevant passage')} in the first {k}."


def _f1_said(retrieved: Sequence[str], relevant: Collection[str], k: int) -> str:
    precision, recall = precision_of(retrieved, relevant, k), recall_of(retrieved, relevant, k)
    return f"Precision at {k} is {precision:.2f}, recall {recall:.2f}."


def _rank_said(retrieved: Sequence[str], relevant: Collection[str], _: int) -> str:
    rank = reciprocal_rank(retrieved, relevant)
    if not rank:
        return "No relevant passage was retrieved."
    return f"The first relevant passage is in place {round(1 / rank)}."


def _dcg_said(retrieved: Sequence[str], gains: Mapping[str, float], k: int) -> str:
    reached = dcg([gains.get(each, 0.0) for each in _first(retrieved, k)])
    best = dcg(sorted(gains.values(), reverse=True)[:k])
    return f"DCG at {k} is {reached:.2f}; the best ranking has {best:.2f}."


def _f1(*, summed: bool, **declared: Any) -> Computed:
    """Make a metric of the F1 of a query; *summed*: a window sums the counts of its queries."""

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        found = counts(passage_ids(interaction), relevant_ids(interaction))
        # Σ 2TP / Σ (2TP + FP + FN) is the mean of the F1s weighted by their divisors.
        size = 2 * found.true_positives + found.false_positives + found.false_negatives
        weight = {WINDOW_WEIGHT: size} if summed else {}
        said = f"{count(found.true_positives, 'relevant passage')} found,"
        said += f" {count(found.false_positives, 'other')}, {found.false_negatives} missed."
        return Finding(score=f1(found), explanation=said, details=found._asdict() | weight)

    formula = "2TP / (2TP + FP + FN)"
    shared = {"requires": _NEEDS, "source": _RIJSBERGEN, "pass_score": 0.5, "formula": formula}
    return computed(**shared, **declared)(compute)


contextual_relevancy = named_share(
    RELEVANT_PASSAGES,
    "places",
    noted="relevant",
    name="contextual_relevancy",
    what="Share of the passages that help to answer the query.",
    formula="relevant passages / passages",
    requires=("query", "contexts"),
    source="DeepEval, ContextualRelevancyMetric",
    pass_score=0.5,
)


@asked(
    RELEVANT_PASSAGES,
    formula="Σ precision@i · relevant_i / Σ relevant_i",
    requires=("query", "contexts"),
    source="DeepEval, ContextualPrecisionMetric",
)
def contextual_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Whether the passages that help come before those that do not."""
    said = answers["relevant_passages"]
    flags = [place in said.numbers for place in answers.places]
    return Finding(score=average_precision(flags), explanation=said.reasoning)


@asked(
    Criterion(
        "useful_share",
        "What share of the sentences of all passages together is needed to answer the query?",
    ),
    formula="relevant sentences / sentences",
    requires=("query", "contexts"),
    source="Es et al. 2023, RAGAS (arXiv:2309.15217), context relevance",
    pass_score=0.5,
)
def context_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """
    Share of the passages' sentences that are needed for the answer, as the judge estimates
    it.
    """
    said = answers["useful_share"]
    return Finding(score=said.score, explanation=said.reasoning)


@asked(
    Criterion(
        "reference_in_passages",
        "Write each statement of the reference, one fact each, behind `yes:` if the passages wholly"
        " support it, else behind `no:`.",
        Form.TEXTS,
    ),
    version="2",
    formula="statements of the reference found in the passages / statements of the reference",
    requires=("contexts", "expected.answer"),
    source="RAGAS, context recall",
)
def context_recall(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Share of the reference's statements that the passages hold."""
    said = answers["reference_in_passages"]
    marks = [mark[1].casefold() for text in said.texts if (mark := _FOUND.match(text))]
    return Finding(
        score=share(marks.count("yes"), len(marks)) if marks else None,
        explanation=said.reasoning,
        details={"statements": len(marks), "found": marks.count("yes")},
    )


precision_at_k = _ranked(
    precision_of,
    _precision_said,
    name="precision_at_k",
    what="Share of the first k places with a relevant passage; where fewer than k passages are"
    " retrieved or relevant, 1 is out of reach.",
    formula="relevant in the first k / k",
    source=_MANNING,
    pass_score=0.5,
)
recall_at_k = _ranked(
    recall_of,
    _recall_said,
    name="recall_at_k",
    what="Share of the relevant passages among the first k.",
    formula="relevant in the first k / relevant",
    source=_MANNING,
)
f1_at_k = _ranked(
    f1_of,
    _f1_said,
    name="f1_at_k",
    what="Precision and recall at k in one.",
    formula="2 P R / (P + R)",
    source=_RIJSBERGEN,
    pass_score=0.5,
)
mrr = _ranked(
    reciprocal_rank,
    _rank_said,
    name="mrr",
    what="How early the first relevant passage comes; the window's mean is MRR.",
    formula="1 / place of the first relevant passage",
    source="Voorhees 1999, TREC-8 Question Answering Track",
    parameters=NoParameters,
    pass_score=0.5,
    version="2",
)
ndcg_at_k = _ranked(
    normalised_dcg,
    _dcg_said,
    name="ndcg_at_k",
    what="How well the passages are ranked, by their gains.",
    formula="DCG@k / IDCG@k, DCG = Σ gain / log2(place + 1)",
    source="Järvelin and Kekäläinen 2002",
)
macro_f1 = _f1(
    summed=False,
    name="macro_f1",
    what="F1 of all passages of a query; the window's mean is macro F1.",
)
micro_f1 = _f1(
    summed=True,
    name="micro_f1",
    what="F1 of all passages of a query; queries weigh by their passages, so the window's mean is"
    " micro F1, from summed counts.",
    version="2",
)
