"""
The retrieved passages as evidence: whether they differ, contradict each other, and are strong.

All scores are in [0, 1], higher is better unless declared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from itertools import combinations
from operator import itemgetter
from typing import Any, Literal

from pydantic import Field

from monitor.format import count, percent
from monitor.models import Interaction
from monitor.models.evaluation import Direction
from monitor.scoring.base import ClaimVerdict, Finding, InfersContradictions, Judgement
from monitor.scoring.declaration import (
    Answers,
    Criterion,
    Form,
    NoParameters,
    asked,
    check_cpu,
    computed,
    configured_inference,
    read,
)
from monitor.scoring.entailment import (
    MOST_PASSAGES,
    Entailment,
    contradictions,
    local_version,
)
from monitor.scoring.language import words
from monitor.scoring.measures import (
    entropy_bits,
    lexical_cosine,
    normalised_entropy,
    share,
    weighted_mean,
)
from monitor.scoring.metrics.groundedness import stated
from monitor.scoring.sentences import split_sentences

_MOST_SENTENCES = 10
_MOST_PAIRS = 40  # of sentences, each an NLI model's two inferences
_NEAR = 0.3  # cosine of their informative stems
_CONTRADICTED = 0.5
_SUPPORTS = 0.7  #: support from which a passage is evidence
#: Left out of claims: what the metrics of citations found out about them is in the cache then.
_NUMBERS = re.compile(r"\s?\[\d{1,3}\]")


class DiversityWeights(NoParameters):
    """What a passage's share is."""

    weights: Literal["query", "score"] = Field(
        "query", description="Nearness to the query by word stems, or the retriever's own score."
    )


@computed(
    formula="-Σ p log2 p / log2 n, p = weight / Σ weights; the bits are in the metadata",
    requires=("contexts",),
    source="Shannon 1948, entropy",
    skips=("one_passage", "no_weights"),
    parameters=DiversityWeights,
    pass_score=0.5,
)
def context_diversity(interaction: Interaction, p: DiversityWeights) -> Finding:
    """How evenly the passages share the information; broad, or from one passage only."""
    passages = interaction.contexts
    if len(passages) == 1:
        return Finding(skipped="one_passage")
    weights = [
        max(0.0, each.score or 0.0)
        if p.weights == "score"
        else lexical_cosine(each.text, interaction.query or "")
        for each in passages
    ]
    if not any(weights):
        return Finding(skipped="no_weights")
    bits, most = round(entropy_bits(weights), 6), weights.index(max(weights))
    said = f"{bits:.2f} of {math.log2(len(weights)):.2f} bits; passage {most + 1} has"
    return Finding(
        score=normalised_entropy(weights),
        explanation=f"{said} {percent(weights[most] / math.fsum(weights))} of the weight.",
        details={"bits": bits},
    )


def screen_passages(interaction: Interaction, _: NoParameters) -> Finding:
    """
    Compare the first 10 sentences of each of the first 20 passages with the other passages.

    An NLI model, where one is configured, is asked about the 40 pairs of sentences with the most
    words in common; else each sentence is compared with each passage by word rules.
    """
    texts = [each.text for each in interaction.contexts][:MOST_PASSAGES]
    lines = [split_sentences(text)[:_MOST_SENTENCES] for text in texts]
    model = configured_inference()
    inferred = None if model is None else _inferred(lines, model)
    if inferred is not None:
        return _contradicting(inferred, len(texts), "says the NLI model")
    hits: set[tuple[int, int]] = set()
    for i, premise in enumerate(texts):
        check_cpu()
        owned = [(j, line) for j, each in enumerate(lines) if j != i for line in each]
        flags = contradictions(premise, [line for _, line in owned])
        found = (j for (j, _), flag in zip(owned, flags, strict=True) if flag)
        hits |= {(min(i, j) + 1, max(i, j) + 1) for j in found}
    return _contradicting(hits, len(texts), "by numbers, opposites and negations")


def _inferred(
    lines: Sequence[Sequence[str]], model: InfersContradictions
) -> set[tuple[int, int]] | None:
    """
    Return the pairs of passages with contradicting sentences.

    None if *model* cannot tell, and where no two sentences are near enough to be asked about.
    """
    stated = [
        (place, line, {word.stem for word in words(line) if word.content})
        for place, each in enumerate(lines, start=1)
        for line in each
    ]
    near = [
        (len(a & b) / math.sqrt(len(a) * len(b)), (i, j), (one, other))
        for (i, one, a), (j, other, b) in combinations(stated, 2)
        if i != j and a & b
    ]
    near = nlargest(_MOST_PAIRS, (each for each in near if each[0] >= _NEAR), key=itemgetter(0))
    asked = [pair for *_, (one, other) in near for pair in ((one, other), (other, one))]
    against = model.contradicted(asked) if asked else None
    if against is None:
        return None
    both = zip(near, against[::2], against[1::2], strict=True)
    return {passages for (_, passages, _), *found in both if max(found) >= _CONTRADICTED}


@asked(
    Criterion(
        "contradicting_passages",
        "Which passages contradict each other? Write each pair as two numbers, such as `1 and 3`,"
        " the plainest first, at most five; or `none`.",
        Form.TEXTS,
    ),
    formula="contradicting pairs (at most five by the judge) / pairs",
    requires=("contexts",),
    source="ours: pairs of passages",
    backend="judge, in the second shared call; else NLI, of sentences with common words; else word"
    " rules",
    direction=Direction.LOWER,
    skips=("one_passage",),
    infers=True,
    screen=screen_passages,
    screen_version=local_version,
    unmet_too=lambda interaction: "one_passage" if len(interaction.contexts) == 1 else None,
)
def passage_contradictions(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Share of the pairs of passages that contradict each other."""
    said = answers["contradicting_passages"]
    named = {tuple(sorted(map(int, re.findall(r"\d+", text)[:2]))) for text in said.texts[:5]}
    pairs = [pair for pair in combinations(answers.places, 2) if pair in named]
    return _contradicting(pairs, len(answers.places), "says the judge")


def _contradicting(pairs: Collection[tuple[int, int]], passages: int, how: str) -> Finding:
    if passages < 2:  # noqa: PLR2004 - a pair
        return Finding(skipped="one_passage")
    found = sorted(pairs)
    named = ", ".join(f"{i} and {j}" for i, j in found[:10])
    said = f"Passages {named} contradict each other" if found else "No passages contradict"
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


@read(
    local_version,
    version="2",
    formula="0.4 support + 0.3 diversity + 0.2 recency + 0.1 authority, of the passages that"
    " support a claim",
    source="ours: weights and factors as given",
    skips=("no_claim", "unsupported_text"),
    parameters=EvidenceRules,
    pass_score=0.5,
)
def evidence_quality(judgement: Judgement, interaction: Interaction, p: EvidenceRules) -> Finding:
    """
    How strong, independent, recent and trusted the evidence for the answer is.

    Evidence are the passages that support a claim; without any, only support counts. Read are
    ``source`` and ``published`` (ISO 8601) of each. One without a source counts as its own, one
    without a date as half as recent as can be at the interaction's own time.
    """
    if not judgement.readable:
        return Finding(skipped="unsupported_text")
    claims = [c for c in stated(judgement) if c.verdict is not ClaimVerdict.WRONG_REFUSAL]
    if not claims:
        return Finding(skipped="no_claim")
    texts = [context.text for context in interaction.contexts]
    statements = [_NUMBERS.sub("", claim.sentence or claim.text) for claim in claims]
    entailment = Entailment(judgement, texts, statements)
    held = {n for claim in range(len(claims)) for n in entailment.supporting(claim, _SUPPORTS)}
    extras = {n: interaction.contexts[n].model_extra or {} for n in sorted(held)}
    sources = [str(extra.get("source") or f"#{n}") for n, extra in extras.items()]
    now = interaction.timestamp or datetime.now(UTC)
    half_life = timedelta(days=p.half_life_days)

    def recency(published: Any) -> float:
        try:
            at = datetime.fromisoformat(str(published))
        except ValueError:
            return 0.5
        age = now - (at if at.tzinfo else at.replace(tzinfo=UTC))
        return math.pow(0.5, max(timedelta(0), age) / half_life)

    recent = [recency(extra.get("published")) for extra in extras.values()]
    trusted = [p.authorities.get(source, 0.5) for source in sources]
    factors = {
        "support": weighted_mean([claim.support for claim in claims]),
        "diversity": min(1.0, len(set(sources)) / p.enough_sources),
        "recency": weighted_mean(recent) if held else 0.0,
        "authority": weighted_mean(trusted) if held else 0.0,
    }
    score = weighted_mean([*factors.values()], [0.4, 0.3, 0.2, 0.1])
    said = ", ".join(f"{name} {value:.2f}" for name, value in factors.items())
    by = count(len(set(sources)), "source")
    by = f"Evidence from {by}" if held else "No passage supports a claim"
    return Finding(score=score, explanation=f"{by}: {said}.", details=factors)
