"""Passages among themselves: diversity, contradictions, evidence, and chains of checks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any, Literal

from pydantic import Field

from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Claim, Finding, check_cpu
from monitor.scoring.declaration import (
    Answers,
    Criterion,
    Form,
    Metric,
    NoParameters,
    asked,
    computed,
)
from monitor.scoring.entailment import MOST_PASSAGES, contradictions
from monitor.scoring.metrics.groundedness import of_claims
from monitor.scoring.metrics.measures import (
    entropy_bits,
    lexical_cosine,
    normalised_entropy,
    share,
    weighted_mean,
)
from monitor.scoring.sentences import split_sentences

_MOST_SENTENCES = 10


class DiversityWeights(NoParameters):
    """What a passage's share is."""

    weights: Literal["query", "score"] = Field(
        "query", description="Nearness to the query by word stems, or the retriever's own score."
    )


@computed(
    name="context_diversity",
    what="How evenly the passages share the information; broad, or from one passage only.",
    formula="-Σ p log2 p / log2 n, p = weight / Σ weights; the bits are in the metadata",
    requires=("contexts",),
    source="Shannon 1948, entropy",
    skips=("one_passage", "no_weights"),
    parameters=DiversityWeights,
    pass_score=0.5,
)
def context_diversity(interaction: Interaction, p: DiversityWeights) -> Finding:
    """Weigh the passages."""
    passages = interaction.contexts
    if len(passages) == 1:
        return Finding(skipped="one_passage")
    if p.weights == "score":
        weights = [max(0.0, each.score or 0.0) for each in passages]
    else:
        weights = [lexical_cosine(each.text, interaction.query or "") for each in passages]
    if not any(weights):
        return Finding(skipped="no_weights")
    bits = entropy_bits(weights)
    return Finding(score=normalised_entropy(weights), details={"bits": round(bits, 6)})


CONTRADICTING = Criterion(
    "contradicting_passages",
    "Which passages contradict each other? Write each pair as two numbers, such as `1 and 3`, the"
    " plainest first, at most five; or `none`.",
    Form.TEXTS,
)


def screen_passages(interaction: Interaction, _: NoParameters) -> Finding:
    """Compare each of the first 20 passages with the first 10 sentences of every other."""
    texts = [each.text for each in interaction.contexts][:MOST_PASSAGES]
    lines = [split_sentences(text)[:_MOST_SENTENCES] for text in texts]
    hits: set[tuple[int, int]] = set()
    for i, premise in enumerate(texts):
        check_cpu()
        owned = [(j, line) for j, each in enumerate(lines) if j != i for line in each]
        flags = contradictions(premise, [line for _, line in owned])
        hits |= {
            (min(i, j) + 1, max(i, j) + 1)
            for (j, _), flag in zip(owned, flags, strict=True)
            if flag
        }
    return _contradicting(hits, len(texts), "by numbers, opposites and negations")


@asked(
    CONTRADICTING,
    name="passage_contradictions",
    what="Share of the pairs of passages that contradict each other.",
    formula="contradicting pairs (at most five by the judge) / pairs",
    requires=("contexts",),
    source="ours: pairs of passages",
    backend="judge, in the second shared call; else word rules",
    direction=Direction.LOWER,
    skips=("one_passage",),
    screen=screen_passages,
    unmet_too=lambda interaction: "one_passage" if len(interaction.contexts) == 1 else None,
)
def passage_contradictions(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count the pairs that the judge names, among the passages that it could see."""
    said = answers[CONTRADICTING.name]
    named = {tuple(sorted(map(int, re.findall(r"\d+", text)[:2]))) for text in said.texts}
    pairs = [pair for pair in combinations(answers.places, 2) if pair in named]
    return _contradicting(pairs, len(answers.places), "says the judge")


def _contradicting(pairs: Collection[tuple[int, int]], passages: int, how: str) -> Finding:
    if passages < 2:  # noqa: PLR2004 - a pair
        return Finding(skipped="one_passage")
    found = sorted(pairs)
    named = ", ".join(f"{i} and {j}" for i, j in found[:10])
    said = f"passages {named} contradict each other" if found else "no passages contradict"
    return Finding(
        score=share(len(found), math.comb(passages, 2)),
        explanation=f"{said}, {how}.",
        details={"pairs": found[:50]},
    )


class EvidenceRules(NoParameters):
    """What counts as enough, recent and trusted."""

    enough_sources: int = Field(3, ge=1)
    half_life_days: float = Field(365.0, gt=0)
    authorities: dict[str, float] = Field(
        default_factory=dict, description="Authority of sources, in [0, 1]; others have 0.5."
    )


def quality_of_evidence(
    support: float, diversity: float, recency: float, authority: float
) -> float:
    """Return 0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority, each in [0, 1]."""
    return 0.4 * support + 0.3 * diversity + 0.2 * recency + 0.1 * authority


def source_diversity(sources: Sequence[str], enough: int = 3) -> float:
    """Return independent sources over *enough* of them, at most 1."""
    return min(1.0, len(set(sources)) / enough)


def recency(published: datetime, now: datetime, half_life: timedelta) -> float:
    """Halve with every *half_life* of age; 1 for what is new."""
    age = max(timedelta(0), now - published)
    return math.pow(0.5, age / half_life)


@of_claims(
    name="evidence_quality",
    what="How strong, independent, recent and trusted the evidence for the answer is.",
    formula="0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority",
    source="ours: weights and factors as given",
    skips=("no_claim", "unsupported_text"),
    parameters=EvidenceRules,
    pass_score=0.5,
)
def evidence_quality(claims: list[Claim], interaction: Interaction, p: EvidenceRules) -> Finding:
    """
    Read ``source`` and ``published`` (ISO 8601) of each passage where they are there.

    A passage without a source counts as its own; one without a date as half as recent as
    can be. Recency is that at the interaction's own time.
    """
    extras = [each.model_extra or {} for each in interaction.contexts[:MOST_PASSAGES]]
    sources = [str(extra.get("source") or f"#{i}") for i, extra in enumerate(extras)]
    now = interaction.timestamp or datetime.now(UTC)
    half_life = timedelta(days=p.half_life_days)

    def recency_of(published: Any) -> float:
        try:
            at = datetime.fromisoformat(str(published))
        except ValueError:
            return 0.5
        return recency(at if at.tzinfo else at.replace(tzinfo=UTC), now, half_life)

    factors = {
        "support": weighted_mean([claim.support for claim in claims]),
        "diversity": source_diversity(sources, p.enough_sources),
        "recency": weighted_mean([recency_of(extra.get("published")) for extra in extras]),
        "authority": weighted_mean([p.authorities.get(source, 0.5) for source in sources]),
    }
    return Finding(score=quality_of_evidence(**factors), details=factors)


class ChainRules(NoParameters):
    """How far confidence may fall from one step to the next."""

    threshold: float = Field(0.0, ge=0, le=1)


def chain_break(confidences: Sequence[float], threshold: float = 0.0) -> int | None:
    """
    Return the index of the first step that falls more than *threshold* below the step before.

    None when every step keeps or raises the confidence; a chain of one step or none cannot
    break.
    """
    for step in range(1, len(confidences)):
        if confidences[step] < confidences[step - 1] - threshold:
            return step
    return None


@computed(
    name="chain_integrity",
    what="Whether confidence never falls along a chain of verification steps.",
    formula="1 if every step ≥ the one before - threshold, else 0",
    requires=("metadata.verification_chain",),
    source="ours: monotone confidence",
    parameters=ChainRules,
)
def chain_integrity(interaction: Interaction, p: ChainRules) -> Finding:
    """Read ``metadata.verification_chain``: confidences, or objects that have one."""
    chain = interaction.metadata["verification_chain"]
    steps = [float(step["confidence"] if isinstance(step, dict) else step) for step in chain]
    broken = chain_break(steps, p.threshold)
    return Finding(
        score=float(broken is None),
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
