"""What can be read out of the shared judgement besides groundedness and relevance."""

from __future__ import annotations

from typing import Literal

from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Claim, Finding, Judgement, Verdict
from monitor.scoring.declaration import Cost, Metric, NoParameters, computed, read
from monitor.scoring.entailment import MOST_PASSAGES, checkable, local_matrix, supports
from monitor.scoring.metrics import faithfulness as formulas
from monitor.scoring.metrics import grounding
from monitor.scoring.sentences import split_sentences

_NEEDS = ("output", "contexts")
_SKIPS = ("unsupported_text", "no_claim")
_BACKEND = "local scorer or judge, in the shared call"
_MOST_CLAIMS, _MOST_IN_PAIRS = 50, 8


class Weighing(NoParameters):
    """How statements are weighed."""

    weights: Literal["uniform", "position", "semantic"] = "uniform"


def _claims(judgement: Judgement) -> list[Claim]:
    return [each for each in judgement.claims if each.verdict is not Verdict.NO_CLAIM]


def _nothing(judgement: Judgement) -> Finding:
    return Finding(skipped="no_claim" if judgement.readable else "unsupported_text")


@read(
    name="faithfulness",
    what="Share of the answer's statements that its passages support.",
    formula="Σ w · supported / Σ w; w uniform, 1 / position or nearness to the query",
    requires=_NEEDS,
    source="seed 002, Faithfulness and Weighted Faithfulness; seed 001, DeepEval Metrics",
    backend=_BACKEND,
    cost=Cost.JUDGE,
    skips=_SKIPS,
    parameters=Weighing,
)
def faithfulness(judgement: Judgement, interaction: Interaction, p: Weighing) -> Finding:
    """Count supported claims, with the seed's 95 % interval in the details."""
    claims = _claims(judgement)
    if not claims:
        return _nothing(judgement)
    texts = [claim.text for claim in claims]
    weights = formulas.uniform_weights(texts)
    if p.weights == "position":
        weights = formulas.position_weights(texts)
    elif p.weights == "semantic":
        weights = formulas.semantic_weights(texts, interaction.query or "")
    verified = [claim.verdict is Verdict.SUPPORTED for claim in claims]
    interval = formulas.normal_interval(sum(verified), len(verified))
    return Finding(
        score=formulas.faithfulness(verified, weights),
        explanation=f"{sum(verified)} of {len(verified)} statements are supported.",
        details={
            "statements": len(verified),
            "supported": sum(verified),
            "interval_95": [round(interval.low, 4), round(interval.high, 4)],
            "weights": p.weights,
        },
    )


@read(
    name="hallucination",
    what="Share of the answer's statements that contradict the passages or go beyond them.",
    formula="(contradicted + not found) / statements",
    requires=_NEEDS,
    source="seed 001, DeepEval Metrics",
    backend=_BACKEND,
    cost=Cost.JUDGE,
    direction=Direction.LOWER,
    skips=_SKIPS,
)
def hallucination(judgement: Judgement, _: Interaction, __: NoParameters) -> Finding:
    """Count claims; one whose quote proved nothing is neither supported nor hallucinated."""
    claims = _claims(judgement)
    if not claims:
        return _nothing(judgement)
    odd = [c for c in claims if c.verdict in (Verdict.CONTRADICTED, Verdict.NOT_FOUND)]
    contradicted = sum(claim.verdict is Verdict.CONTRADICTED for claim in odd)
    return Finding(
        score=grounding.hallucination(len(odd), len(claims)),
        explanation=f"{contradicted} of {len(claims)} statements are contradicted,"
        f" {len(odd) - contradicted} not found.",
        details={"statements": len(claims), "contradicted": contradicted, "hallucinated": len(odd)},
    )


@read(
    name="contradicted_contexts",
    what="Share of the passages that the answer contradicts.",
    formula="contradicted passages / passages",
    requires=_NEEDS,
    source="seed 002, Hallucination Detection",
    backend=_BACKEND,
    cost=Cost.JUDGE,
    direction=Direction.LOWER,
    skips=_SKIPS,
)
def contradicted_contexts(judgement: Judgement, interaction: Interaction, _: object) -> Finding:
    """Count the passages that a contradicted claim points at."""
    if not _claims(judgement):
        return _nothing(judgement)
    hit = {c.context_index for c in judgement.claims if c.verdict is Verdict.CONTRADICTED}
    flags = [index in hit for index in range(len(interaction.contexts))]
    named = sorted(index + 1 for index in hit if index is not None)
    return Finding(
        score=grounding.contradicted_share(flags),
        explanation=f"{sum(flags)} of {len(flags)} passages are contradicted.",
        details={"passages": named},
    )


@read(
    name="grounding_score",
    what="Mean support of the answer's statements by their best passage.",
    formula="1/n Σ max over passages of P(entailment)",
    requires=_NEEDS,
    source="seed 002, Grounding Score",
    backend=_BACKEND,
    cost=Cost.JUDGE,
    skips=_SKIPS,
)
def grounding_score(judgement: Judgement, _: Interaction, __: NoParameters) -> Finding:
    """Average the support of the claims."""
    claims = _claims(judgement)
    if not claims:
        return _nothing(judgement)
    matrix = grounding.as_matrix([[claim.support] for claim in claims])
    return Finding(score=grounding.grounding_score(matrix), details={"statements": len(claims)})


@computed(
    name="multi_document_grounding",
    what="Like grounding_score, with pairs of passages where no single one suffices.",
    formula="1/n Σ max over passages, and over pairs below 0.8, of P(entailment)",
    requires=_NEEDS,
    source="seed 002, Multi-Document Grounding Score",
    backend="computed, local entailment",
    skips=("no_claim",),
)
def multi_document_grounding(interaction: Interaction, _: NoParameters) -> Finding:
    """Entail by counted words; of many passages the first 20, and pairs of the first 8."""
    claims = checkable(split_sentences(interaction.output))[:_MOST_CLAIMS]
    if not claims:
        return Finding(skipped="no_claim")
    passages = [context.text for context in interaction.contexts][:MOST_PASSAGES]

    def pair(claim: int, one: int, other: int) -> float:
        if other >= _MOST_IN_PAIRS:
            return 0.0
        return supports(f"{passages[one]}\n\n{passages[other]}", tuple(claims))[claim]

    score = grounding.multi_document_grounding(local_matrix(claims, passages), pair)
    return Finding(score=score, details={"statements": len(claims), "passages": len(passages)})


METRICS: tuple[Metric, ...] = (
    faithfulness,
    hallucination,
    contradicted_contexts,
    grounding_score,
    multi_document_grounding,
)
