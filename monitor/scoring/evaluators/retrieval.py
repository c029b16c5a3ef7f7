"""Retrieval metrics of one interaction: its passages, in order, against ``expected.relevant``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed
from monitor.scoring.metrics import retrieval

_NEEDS = ("contexts", "expected.relevant")


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


def _at_k(name: str, what: str, formula: str, number: int) -> Computed:
    function = getattr(retrieval, name)

    def compute(interaction: Interaction, parameters: AtK) -> Finding:
        relevant = relevant_ids(interaction)
        if not relevant:
            return Finding(skipped="nothing_relevant")
        score = function(passage_ids(interaction), relevant, parameters.k)
        return Finding(score=score, details={"k": parameters.k, "relevant": len(relevant)})

    return computed(
        name=name,
        what=what,
        formula=formula,
        requires=_NEEDS,
        source=f"seed 002, Retrieval Metrics {number}",
        backend="computed",
        skips=("nothing_relevant",),
        parameters=AtK,
    )(compute)


@computed(
    name="mrr",
    what="How early the first relevant passage comes; the window's mean is MRR.",
    formula="1 / place of the first relevant passage",
    requires=_NEEDS,
    source="seed 002, Retrieval Metrics 4",
    backend="computed",
    skips=("nothing_relevant",),
)
def mrr(interaction: Interaction, _: NoParameters) -> Finding:
    """Score one ranking."""
    relevant = relevant_ids(interaction)
    if not relevant:
        return Finding(skipped="nothing_relevant")
    return Finding(score=retrieval.reciprocal_rank(passage_ids(interaction), relevant))


@computed(
    name="ndcg_at_k",
    what="How well the passages are ranked, by their gains.",
    formula="DCG@k / IDCG@k, DCG = Σ gain / log2(place + 1)",
    requires=_NEEDS,
    source="seed 002, Retrieval Metrics 5",
    backend="computed",
    skips=("nothing_relevant",),
    parameters=AtK,
)
def ndcg_at_k(interaction: Interaction, parameters: AtK) -> Finding:
    """Score one ranking."""
    gains = relevant_gains(interaction)
    if not any(gain > 0 for gain in gains.values()):
        return Finding(skipped="nothing_relevant")
    score = retrieval.ndcg_at_k_score(passage_ids(interaction), gains, parameters.k)
    return Finding(score=min(1.0, score), details={"k": parameters.k})


def _f1(name: str, what: str, formula: str) -> Computed:
    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        counts = retrieval.counts(passage_ids(interaction), relevant_ids(interaction))
        return Finding(score=retrieval.f1(counts), details=counts._asdict())

    return computed(
        name=name,
        what=what,
        formula=formula,
        requires=_NEEDS,
        source="seed 002, F1 Score Variants",
        backend="computed",
    )(compute)


METRICS: tuple[Metric, ...] = (
    _at_k(
        "precision_at_k",
        "Share of the first k places with a relevant passage.",
        "relevant in the first k / k",
        1,
    ),
    _at_k(
        "recall_at_k",
        "Share of the relevant passages among the first k.",
        "relevant in the first k / relevant",
        2,
    ),
    _at_k("f1_at_k", "Precision and recall at k in one.", "2 P R / (P + R)", 3),
    mrr,
    ndcg_at_k,
    _f1("macro_f1", "F1 of all passages; the window's mean is macro F1.", "2TP / (2TP + FP + FN)"),
    _f1(
        "micro_f1",
        "F1 of one query, with its counts on record so that they can be summed over queries.",
        "2TP / (2TP + FP + FN), counts summed",
    ),
)
