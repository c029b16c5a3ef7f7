"""Passages among themselves: diversity, contradictions, evidence, and chains of checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any, Literal

from pydantic import Field

from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Metric, NoParameters, computed
from monitor.scoring.entailment import (
    MOST_PASSAGES,
    checkable,
    contradictions,
    local_matrix,
)
from monitor.scoring.metrics import entropy
from monitor.scoring.metrics.similarity import lexical_cosine
from monitor.scoring.sentences import split_sentences

_MOST_SENTENCES = 10


class Weighing(NoParameters):
    """What a passage's share is."""

    weights: Literal["query", "score"] = Field(
        "query", description="Nearness to the query by word stems, or the retriever's own score."
    )


class Chain(NoParameters):
    """How far confidence may fall from one step to the next."""

    threshold: float = Field(0.0, ge=0, le=1)


class Evidence(NoParameters):
    """What counts as enough, recent and trusted."""

    enough_sources: int = Field(3, ge=1)
    half_life_days: float = Field(365.0, gt=0)
    authorities: dict[str, float] = Field(
        default_factory=dict, description="Authority of sources, in [0, 1]; others have 0.5."
    )


@computed(
    name="context_diversity",
    what="How evenly the passages share the information; broad, or from one passage only.",
    formula="-Σ p log2 p / log2 n, p = weight / Σ weights",
    requires=("contexts",),
    source="seed 002, Context Diversity (there in bits)",
    backend="computed",
    skips=("one_passage", "no_weights"),
    parameters=Weighing,
)
def context_diversity(interaction: Interaction, p: Weighing) -> Finding:
    """Weigh the passages; the bits are in the metadata."""
    passages = interaction.contexts
    if len(passages) == 1:
        return Finding(skipped="one_passage")
    if p.weights == "score":
        weights = [max(0.0, each.score or 0.0) for each in passages]
    else:
        weights = [lexical_cosine(each.text, interaction.query or "") for each in passages]
    if not any(weights):
        return Finding(skipped="no_weights")
    bits = entropy.entropy_bits(weights)
    return Finding(score=entropy.normalised_entropy(weights), details={"bits": round(bits, 6)})


@computed(
    name="passage_contradictions",
    what="Share of the pairs of passages that contradict each other.",
    formula="contradicting pairs / pairs",
    requires=("contexts",),
    source="seed 002, Contradiction Detection",
    backend="computed, local entailment",
    direction=Direction.LOWER,
    skips=("one_passage",),
)
def passage_contradictions(interaction: Interaction, _: NoParameters) -> Finding:
    """Look for other numbers, opposites and negations; of many passages in the first 20."""
    texts = [each.text for each in interaction.contexts][:MOST_PASSAGES]
    if len(texts) == 1:
        return Finding(skipped="one_passage")
    pairs = list(combinations(range(len(texts)), 2))
    hit = {tuple(sorted((i, j))) for i, others in enumerate(_contradicted(texts)) for j in others}
    found = [(i + 1, j + 1) for i, j in pairs if (i, j) in hit]
    named = ", ".join(f"{i} and {j}" for i, j in found[:10])
    return Finding(
        score=len(found) / len(pairs),
        explanation=f"passages {named} contradict each other." if found else "none contradict.",
        details={"pairs": found[:50]},
    )


def _contradicted(texts: list[str]) -> Iterator[set[int]]:
    """For each passage, find those of the others that say otherwise."""
    lines = [split_sentences(text)[:_MOST_SENTENCES] for text in texts]
    for i, premise in enumerate(texts):
        owners = [j for j, each in enumerate(lines) if j != i for _ in each]
        others = [line for j, each in enumerate(lines) if j != i for line in each]
        flags = contradictions(premise, others)
        yield {owner for owner, flag in zip(owners, flags, strict=True) if flag}


@computed(
    name="evidence_quality",
    what="How strong, independent, recent and trusted the evidence for the answer is.",
    formula="0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority",
    requires=("output", "contexts"),
    source="seed 002, Evidence Quality Score (weights; factors ours)",
    backend="computed, local entailment",
    skips=("no_claim",),
    parameters=Evidence,
)
def evidence_quality(interaction: Interaction, p: Evidence) -> Finding:
    """
    Read ``source`` and ``published`` (ISO 8601) of each passage where they are there.

    A passage without a source counts as its own; one without a date as half as recent as
    can be. Recency is told at the interaction's own time.
    """
    claims = checkable(split_sentences(interaction.output))[:50]
    if not claims:
        return Finding(skipped="no_claim")
    passages = interaction.contexts[:MOST_PASSAGES]
    matrix = local_matrix(claims, [each.text for each in passages])
    extras = [each.model_extra or {} for each in passages]
    sources = [str(extra.get("source") or f"#{i}") for i, extra in enumerate(extras)]
    now = interaction.timestamp or datetime.now(UTC)
    factors = {
        "support": float(matrix.max(axis=1).mean()),
        "diversity": source_diversity(sources, p.enough_sources),
        "recency": _mean([_recency(extra.get("published"), now, p) for extra in extras]),
        "authority": _mean([p.authorities.get(source, 0.5) for source in sources]),
    }
    return Finding(score=evidence_quality_score(**factors), details=factors)


def _recency(published: Any, now: datetime, p: Evidence) -> float:
    try:
        at = datetime.fromisoformat(str(published))
    except ValueError:
        return 0.5
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return recency(at, now, timedelta(days=p.half_life_days))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@computed(
    name="chain_integrity",
    what="Whether confidence never falls along a chain of verification steps.",
    formula="1 if every step ≥ the one before - threshold, else 0",
    requires=("metadata.verification_chain",),
    source="seed 002, Verification Chain Integrity",
    backend="computed",
    parameters=Chain,
)
def chain_integrity(interaction: Interaction, p: Chain) -> Finding:
    """Read ``metadata.verification_chain``: confidences, or objects that have one."""
    chain = interaction.metadata["verification_chain"]
    steps = [float(step["confidence"] if isinstance(step, dict) else step) for step in chain]
    broken = chain_break(steps, p.threshold)
    return Finding(
        score=chain_integrity_score(steps, p.threshold),
        explanation="no step lowers the confidence."
        if broken is None
        else f"confidence falls at step {broken + 1}.",
    )


METRICS: tuple[Metric, ...] = (
    context_diversity,
    passage_contradictions,
    evidence_quality,
    chain_integrity,
)


# --- evidence ---
# Quality of the evidence for a claim, and integrity of a chain of checks (seed 002, VERA).


def evidence_quality_score(
    support: float, diversity: float, recency: float, authority: float
) -> float:
    """0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority, each in [0, 1]."""
    return 0.4 * support + 0.3 * diversity + 0.2 * recency + 0.1 * authority


def source_diversity(sources: Sequence[str], enough: int = 3) -> float:
    """Independent sources over *enough* of them, at most 1; the seed gives no formula."""
    return min(1.0, len(set(sources)) / enough)


def recency(published: datetime, now: datetime, half_life: timedelta) -> float:
    """Halve with every *half_life* of age; 1 for what is new. The seed gives no formula."""
    age = max(timedelta(0), now - published)
    return math.pow(0.5, age / half_life)


def chain_break(confidences: Sequence[float], threshold: float = 0.0) -> int | None:
    """
    Find the first step whose confidence falls more than *threshold* below the step before.

    Returns its index; None when every step keeps or raises the confidence. A chain of one
    step or none cannot break.
    """
    for step in range(1, len(confidences)):
        if confidences[step] < confidences[step - 1] - threshold:
            return step
    return None


def chain_integrity_score(confidences: Sequence[float], threshold: float = 0.0) -> float:
    """1.0 for a chain that does not break, else 0.0 (the seed returns an error there)."""
    return float(chain_break(confidences, threshold) is None)


def categorical_correctness(identity: float, composition: float, naturality: float) -> float:
    """Take the worst of three laws: all must hold."""
    return min(identity, composition, naturality)
