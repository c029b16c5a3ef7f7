"""Citations such as ``[1]`` in the answer, checked against the passages that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed
from monitor.scoring.entailment import MOST_PASSAGES, supports
from monitor.scoring.evaluators.retrieval import passage_ids
from monitor.scoring.sentences import split_sentences

_NEEDS = ("output", "contexts")
_BACKEND = "computed, local entailment"


class Support(NoParameters):
    """From which entailment on a passage supports a statement."""

    threshold: float = Field(0.5, ge=0, le=1)


class Sources(NoParameters):
    """How many sources a statement needs."""

    least: int = Field(2, ge=1)
    threshold: float = Field(0.5, ge=0, le=1)


# --- citations ---
# Whether citations lead to passages that carry what is said (seed 002, "Citation Accuracy").


#: From this entailment on a citation is correct; the seed's code says `> 0.8`.
STRONG, PARTIAL = 0.8, 0.5
_PARTIAL_SCORE = 0.7
_MARK = re.compile(r"\[\s*([\w.:/-]+(?:\s*[,;]\s*[\w.:/-]+)*)\s*\]")
_AFTER_STOP = re.compile(r"([.!?])((?:\s*\[[^\][]{1,100}\])+)")
_MOST_MARKS = 20


class CitedClaim(NamedTuple):
    """A statement without its marks, and the ids that it cites."""

    text: str
    cited: tuple[str, ...]


def cited_claims(answer: str) -> list[CitedClaim]:
    """
    Split an answer into statements with what they cite: ``[1]``, ``[1, 2]``, ``[1][2]``, ``[id]``.

    A mark belongs to the sentence it stands in, also right after its full stop. Author
    and year in round brackets are not read: nothing says which passage is meant.
    """
    moved = _AFTER_STOP.sub(r"\2\1", answer)
    return [_claim(sentence) for sentence in split_sentences(moved)]


def _claim(sentence: str) -> CitedClaim:
    marks = _MARK.findall(sentence)[:_MOST_MARKS]
    cited = dict.fromkeys(part for mark in marks for part in re.split(r"\s*[,;]\s*", mark))
    text = " ".join(_MARK.sub("", sentence).split())
    return CitedClaim(re.sub(r" ([.,;!?])", r"\1", text), tuple(cited))


def citation_verdict(entailment: float | None) -> float:
    """Score one citation: 1.0 strongly supported, 0.7 partially, 0.0 not, or not found (None)."""
    if entailment is None or entailment <= PARTIAL:
        return 0.0
    return 1.0 if entailment > STRONG else _PARTIAL_SCORE


def citation_accuracy_score(entailments: Sequence[float | None]) -> float:
    """
    Correct citations over all citations; one is correct with an entailment above 0.8.

    None stands for a citation that leads to no passage.

    Raises
    ------
    ValueError
        If there are no citations.
    """
    return _share([each is not None and each > STRONG for each in entailments], "citations")


def grace_accuracy(cited: Sequence[str | None], truth: Sequence[str]) -> float:
    """
    Claims whose cited passage is the true one, over all claims.

    Raises
    ------
    ValueError
        If there are no claims, or not one truth for each.
    """
    if len(cited) != len(truth):
        raise ValueError("each claim needs its true passage")
    return _share([c == t for c, t in zip(cited, truth, strict=True)], "claims")


def citation_quality_score(existence: float, accuracy: float, grounding: float) -> float:
    """0.4 existence + 0.3 accuracy + 0.3 grounding, each in [0, 1]."""
    return 0.4 * existence + 0.3 * accuracy + 0.3 * grounding


def citation_precision(cited: Collection[str], supporting: Collection[str]) -> float:
    """
    Cited passages that support what is said, over all cited passages.

    Raises
    ------
    ValueError
        If nothing is cited.
    """
    return _share([each in supporting for each in cited], "citations")


def citation_completeness(cited: Collection[str], supporting: Collection[str]) -> float:
    """
    Supporting passages that are cited, over all supporting passages.

    Raises
    ------
    ValueError
        If no passage supports anything.
    """
    return _share([each in cited for each in supporting], "supporting passages")


def multi_source_coverage_score(claims: Sequence[tuple[int, int]], least: int = 2) -> float:
    """
    Share of the claims needing several sources that cite as many as they need.

    Parameters
    ----------
    claims
        For each claim the number of sources it needs and the number it cites.
    least
        Claims that need fewer sources are left out.

    Raises
    ------
    ValueError
        If no claim needs that many.
    """
    wanted = [cited >= needed for needed, cited in claims if needed >= least]
    return _share(wanted, f"claims that need {least} sources")


def _share(hits: Sequence[bool], what: str) -> float:
    if not hits:
        raise ValueError(f"there are no {what}")
    return sum(hits) / len(hits)


@dataclass(frozen=True, slots=True)
class _Cited:
    """The cited claims of an answer, and its passages by id and by place."""

    claims: list[CitedClaim]
    passages: dict[str, str]

    @classmethod
    def of(cls, interaction: Interaction) -> _Cited:
        texts = [context.text for context in interaction.contexts]
        by_place = {str(place): text for place, text in enumerate(texts, start=1)}
        by_id = dict(zip(passage_ids(interaction), texts, strict=True))
        claims = cited_claims(interaction.output)
        return cls([claim for claim in claims if claim.cited], by_place | by_id)

    def support(self, key: str, claim: int) -> float | None:
        """Give the support of a claim, by its place, by a passage; None where there is none."""
        if key not in self.passages:
            return None
        # All claims at once: whoever asks about the next one finds it already known.
        return supports(self.passages[key], tuple(each.text for each in self.claims))[claim]

    def entailments(self) -> list[float | None]:
        """For each citation its passage's entailment of the claim; None where there is none."""
        return [
            self.support(each, place)
            for place, claim in enumerate(self.claims)
            for each in claim.cited
        ]


@computed(
    name="citation_accuracy",
    what="Share of the citations whose passage carries what is said.",
    formula="citations with entailment above 0.8 / citations",
    requires=_NEEDS,
    source="seed 002, Citation Accuracy (exact match); seed 000, Citation Accuracy",
    backend=_BACKEND,
    skips=("no_citation",),
)
def citation_accuracy(interaction: Interaction, _: NoParameters) -> Finding:
    """Check every citation; one that leads nowhere is wrong."""
    found = _Cited.of(interaction).entailments()
    if not found:
        return Finding(skipped="no_citation")
    lost = sum(each is None for each in found)
    return Finding(
        score=citation_accuracy_score(found),
        explanation=f"{len(found)} citations, {lost} of them lead to no passage.",
        details={
            "citations": len(found),
            "not_found": lost,
            "verdicts": [citation_verdict(each) for each in found[:50]],
        },
    )


@computed(
    name="citation_accuracy_grace",
    what="Share of the claims that cite the passage they should.",
    formula="claims with cited passage = true passage / claims",
    requires=("output", "contexts", "expected.citations"),
    source="seed 002, Citation Accuracy (GRACE)",
    backend="computed",
)
def citation_accuracy_grace(interaction: Interaction, _: NoParameters) -> Finding:
    """Compare with ``expected.citations``: the true passage of each cited claim, in order."""
    truth = [str(each) for each in (interaction.expected or {})["citations"]]
    cited: list[str | None] = [claim.cited[0] for claim in _Cited.of(interaction).claims]
    aligned = (cited + [None] * len(truth))[: len(truth)]
    return Finding(score=grace_accuracy(aligned, truth), details={"claims": len(truth)})


@computed(
    name="citation_quality",
    what="Whether citations exist, point to the right passage and are grounded.",
    formula="0.4 existence + 0.3 accuracy + 0.3 grounding",
    requires=_NEEDS,
    source="seed 002, Citation Accuracy (fine-grained)",
    backend=_BACKEND,
    skips=("no_citation",),
)
def citation_quality(interaction: Interaction, _: NoParameters) -> Finding:
    """
    Average over citations.

    Right is the passage in ``expected.citations`` for that claim; without it, the one that
    entails the claim best of all.
    """
    cited = _Cited.of(interaction)
    if not cited.claims:
        return Finding(skipped="no_citation")
    truth = [str(each) for each in (interaction.expected or {}).get("citations") or ()]
    scores = []
    for place, claim in enumerate(cited.claims):
        right = {truth[place]} if place < len(truth) else _best(cited, place)
        for each in claim.cited:
            entailed = cited.support(each, place)
            exists, accurate = float(entailed is not None), float(each in right)
            scores.append(citation_quality_score(exists, accurate, entailed or 0.0))
    return Finding(score=sum(scores) / len(scores), details={"citations": len(scores)})


def _best(cited: _Cited, claim: int) -> set[str]:
    keys = list(cited.passages)[: 2 * MOST_PASSAGES]  # each by its place, and by its id
    found = {key: cited.support(key, claim) or 0.0 for key in keys}
    best = max(found.values(), default=0.0)
    return {key for key, value in found.items() if value == best > 0}


def _graph(
    name: str, what: str, formula: str, score: Callable[[set[str], set[str]], float], empty: str
) -> Computed:
    def compute(interaction: Interaction, p: Support) -> Finding:
        cited = _Cited.of(interaction)
        named, supporting = _named_and_supporting(cited, passage_ids(interaction), p.threshold)
        if not named:
            return Finding(skipped="no_citation")
        details: dict[str, Any] = {"cited": sorted(named), "supporting": sorted(supporting)}
        if empty == "nothing_supports" and not supporting:
            return Finding(skipped=empty, details=details)
        return Finding(score=score(named, supporting), details=details)

    skips = ("no_citation",) if empty == "no_citation" else ("no_citation", empty)
    return computed(
        name=name,
        what=what,
        formula=formula,
        requires=_NEEDS,
        source="seed 002, Citation Graph Analysis",
        backend=_BACKEND,
        skips=skips,
        parameters=Support,
    )(compute)


def _named_and_supporting(
    cited: _Cited, ids: list[str], threshold: float
) -> tuple[set[str], set[str]]:
    """Find what is cited and which passages support a cited claim, by one name each."""
    name = {str(place): each for place, each in enumerate(ids, start=1)}
    named = {
        each if each in ids else name.get(each, each) for c in cited.claims for each in c.cited
    }
    supporting = {
        each
        for each in ids[:MOST_PASSAGES]
        for place in range(len(cited.claims))
        if (cited.support(each, place) or 0.0) >= threshold
    }
    return named, supporting


@computed(
    name="multi_source_coverage",
    what="Share of the claims needing several sources that cite as many.",
    formula="claims with at least N citations / claims needing N sources",
    requires=_NEEDS,
    source="seed 002, Citation Graph Analysis",
    backend=_BACKEND,
    skips=("no_claim_needs_several",),
    parameters=Sources,
)
def multi_source_coverage(interaction: Interaction, p: Sources) -> Finding:
    """
    Compare needed and given citations of each claim.

    ``expected.sources_needed`` lists how many each sentence needs; without it a claim needs
    several when several passages support it.
    """
    claims = cited_claims(interaction.output)
    told = (interaction.expected or {}).get("sources_needed") or []
    texts = [context.text for context in interaction.contexts][:MOST_PASSAGES]
    found = [supports(text, tuple(claim.text for claim in claims)) for text in texts]
    pairs = []
    for place, claim in enumerate(claims):
        supporting = sum(row[place] >= p.threshold for row in found)
        needed = int(told[place]) if place < len(told) else min(p.least, supporting)
        pairs.append((needed, len(claim.cited)))
    if not any(needed >= p.least for needed, _ in pairs):
        return Finding(skipped="no_claim_needs_several")
    return Finding(score=multi_source_coverage_score(pairs, p.least))


METRICS: tuple[Metric, ...] = (
    citation_accuracy,
    citation_accuracy_grace,
    citation_quality,
    _graph(
        "citation_precision",
        "Share of the cited passages that support what is said.",
        "cited and supporting / cited",
        citation_precision,
        "no_citation",
    ),
    _graph(
        "citation_completeness",
        "Share of the supporting passages that are cited.",
        "cited and supporting / supporting",
        citation_completeness,
        "nothing_supports",
    ),
    multi_source_coverage,
)
