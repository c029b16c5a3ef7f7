"""
What is read out of the one judgement of a sample, by the local scorer, an NLI model or a judge.

Groundedness and its relatives: do the passages support what the answer states? And relevance: does
the answer as a whole answer the query?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import combinations, compress
from operator import itemgetter
from typing import Any, Literal

from monitor.format import part_of
from monitor.models import Interaction
from monitor.models.evaluation import OWN_LEAST, Direction, PassRule
from monitor.scoring.base import UNSURE_SCORE, Claim, ClaimVerdict, Finding, Judgement
from monitor.scoring.declaration import JudgementMetric, NoParameters, read
from monitor.scoring.entailment import MOST_PASSAGES, supports
from monitor.scoring.measures import lexical_cosine, share, weighted_mean
from monitor.stats.summary import normal_interval

_MAX_LISTED = 50
_MAX_NAMED = 2
_MAX_CLAIM_CHARS = 120
_MAX_LISTED_CHARS = 1_000
_MOST_IN_PAIRS = 8
#: With less than this from its best single passage, a claim is tried against pairs.
_ENOUGH = 0.8


def stated(judgement: Judgement) -> list[Claim]:
    """Return the claims that passages could support: no refusals, no small talk."""
    return [each for each in judgement.claims if each.verdict is not ClaimVerdict.NO_CLAIM]


def decided(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of which the back end is sure that they are supported, or are not."""
    return [each for each in claims if each.verdict is not ClaimVerdict.UNDECIDED]


def of_claims(
    **declared: Any,
) -> Callable[[Callable[[list[Claim], Interaction, Any], Finding]], JudgementMetric]:
    """Make a metric of what an answer states, skipped where that is nothing."""

    def made(function: Callable[[list[Claim], Interaction, Any], Finding]) -> JudgementMetric:
        @wraps(function)
        def evaluate(judgement: Judgement, interaction: Interaction, p: Any) -> Finding:
            if not judgement.readable:
                return Finding(skipped="unsupported_text")
            claims = stated(judgement)
            return function(claims, interaction, p) if claims else Finding(skipped="no_claim")

        return read(**{"skips": ("unsupported_text", "no_claim")} | declared)(evaluate)

    return made


@read(
    version="2",
    formula="calibrated probability for the whole answer (local); mean support of its claims"
    " (judge, NLI)",
    source="deepset, Groundedness Score",
    local_rule=PassRule(OWN_LEAST, own=True),
    skips=("no_claim", "unsupported_text", "right_refusal"),
)
def groundedness(judgement: Judgement, _: Interaction, __: NoParameters) -> Finding:
    """
    Whether the passages support what the answer states.

    Refusals and small talk are left out, never counted as grounded.
    """
    if not judgement.readable:
        return Finding(skipped="unsupported_text")
    claims = stated(judgement)
    listed = [
        {
            "text": _shortened(claim.text, _MAX_LISTED_CHARS),
            "verdict": claim.verdict.value,
            "support": round(claim.support, 4),
            "evidence": claim.evidence,
            "context_index": claim.context_index,
            "reason": claim.reason,
        }
        for claim in judgement.claims[:_MAX_LISTED]
    ]
    details: dict[str, Any] = {"claims": listed}
    if len(judgement.claims) > _MAX_LISTED:
        details["claims_not_listed"] = len(judgement.claims) - _MAX_LISTED
    if judgement.claims_not_judged:
        details["claims_not_judged"] = judgement.claims_not_judged
    if not claims:
        skipped = "right_refusal" if judgement.declined_rightly else "no_claim"
        return Finding(skipped=skipped, details=details)
    counts, sure = Counter(claim.verdict for claim in claims), len(decided(claims))
    details["verdicts"] = {verdict.value: count for verdict, count in sorted(counts.items())}
    if sure:
        supported = counts[ClaimVerdict.SUPPORTED] / sure
        details |= {"hallucination": round(1 - supported, 6), "faithfulness": round(supported, 6)}
    calibrated = judgement.groundedness
    said = _explained(claims)
    return Finding(
        score=weighted_mean([c.support for c in claims]) if calibrated is None else calibrated,
        explanation=" ".join([said, *(f"{note}." for note in judgement.notes)]),
        confidence=None if calibrated is None else max(calibrated, 1 - calibrated),
        details=details,
    )


#: How a verdict other than "supported" is called, the worst first.
_WORDS = {
    ClaimVerdict.CONTRADICTED: "contradicted",
    ClaimVerdict.WRONG_REFUSAL: "declined, though the passages hold the answer",
    ClaimVerdict.NOT_FOUND: "not found",
    ClaimVerdict.UNVERIFIED: "unverified",
    ClaimVerdict.UNDECIDED: "undecided",
}


def _explained(claims: Sequence[Claim], left_out: int = 0) -> str:
    """
    Return "1 of 3 claims is supported; contradicted: ...; not found: ...", the worst first.

    The first one has its reason. Claims that are *left_out* are undecided.
    """
    supported = sum(claim.verdict is ClaimVerdict.SUPPORTED for claim in claims)
    surely = "supported" if decided(claims) else "surely supported"
    said = f"{part_of(supported, len(claims), 'claim')} {surely}"
    return f"{said}{_quoted(claims)}{_left_out(left_out)}."


def _quoted(claims: Sequence[Claim]) -> str:
    """Return "; contradicted: "..." (why); not found: "..."", the worst first; empty for none."""
    said: list[str] = []
    for verdict, word in _WORDS.items():
        if found := [claim for claim in claims if claim.verdict is verdict]:
            quoted = [
                f'"{_shortened(claim.text.rstrip("."), _MAX_CLAIM_CHARS)}"'
                for claim in found[:_MAX_NAMED]
            ]
            told = word != _WORDS[ClaimVerdict.WRONG_REFUSAL]  # the word says why
            if found[0].reason and told and not said:
                quoted[0] += f" ({_shortened(found[0].reason.rstrip('.'), _MAX_CLAIM_CHARS)})"
            more = len(found) - _MAX_NAMED
            said.append(f"; {word}: {', '.join(quoted)}{f' and {more} more' if more > 0 else ''}")
    return "".join(said)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@read(
    formula="calibrated probability (local); yes 1, partly 0.5, no 0 (judge)",
    requires=("output", "query"),
    source="TruLens, RAG Triad",
    backend="local scorer or judge, in the shared call",
    skips=(
        "unsupported_text",
        "nothing_asked",
        "small_talk",
        "instruction",
        "calculated",
        "unclear_reference",
        "right_refusal",
    ),
    local_rule=PassRule(OWN_LEAST),
)
def relevance(judgement: Judgement, _: Interaction, __: NoParameters) -> Finding:
    """Whether the answer as a whole answers the query."""
    skipped = None
    if judgement.declined_rightly:
        skipped = "right_refusal"
    elif judgement.relevance is None and judgement.relevance_skipped != "nothing_asked":
        skipped = judgement.relevance_skipped
    elif judgement.relevance is None:
        skipped = "nothing_asked" if judgement.readable else "unsupported_text"
    if skipped:
        return Finding(skipped=skipped)
    return Finding(score=judgement.relevance, explanation=judgement.relevance_reason)


class ClaimWeights(NoParameters):
    """How claims are weighed."""

    weights: Literal["uniform", "position", "semantic"] = "uniform"


@of_claims(
    formula="Σ w · supported / Σ w of decided claims; w uniform, 1 / position or nearness to the"
    " query",
    version="2",
    source="Es et al. 2023, RAGAS (arXiv:2309.15217); DeepEval",
    parameters=ClaimWeights,
    skips=("unsupported_text", "no_claim", "undecided"),
)
def faithfulness(claims: list[Claim], interaction: Interaction, p: ClaimWeights) -> Finding:
    """
    Share of the answer's claims that its passages support.

    Nearness to the query is the cosine of word stems; where no claim shares a word with the query
    all weigh alike. Claims of which the local scorer is not sure are left out.
    """
    sure, weights = decided(claims), None
    if not sure:
        return _undecided(weighted_mean([claim.support for claim in claims]))
    if p.weights == "position":
        weights = [1 / place for place, claim in enumerate(claims, start=1) if claim in sure]
    elif p.weights == "semantic":
        near = [lexical_cosine(claim.text, interaction.query or "") for claim in sure]
        weights = near if any(near) else None
    verified = [claim.verdict is ClaimVerdict.SUPPORTED for claim in sure]
    interval = normal_interval(sum(verified), len(verified))
    return Finding(
        score=weighted_mean(verified, weights),
        explanation=_explained(sure, left_out=len(claims) - len(sure)),
        details={
            "statements": len(verified),
            "supported": sum(verified),
            "interval_95": [round(interval.low, 4), round(interval.high, 4)],
            "weights": p.weights,
        },
    )


@of_claims(
    version="3",
    formula="(contradicted + not found + with a false quote + wrongly declined) / decided claims",
    source="DeepEval, HallucinationMetric",
    direction=Direction.LOWER,
    skips=("unsupported_text", "no_claim", "undecided"),
)
def hallucination(claims: list[Claim], _: Interaction, __: NoParameters) -> Finding:
    """
    Share of the answer's claims that contradict the passages or go beyond them.

    Claims of which the local scorer is not sure are left out.
    """
    sure = decided(claims)
    if not sure:
        return _undecided(1.0 - weighted_mean([claim.support for claim in claims]))
    counts = Counter(claim.verdict for claim in sure)
    wrong = len(sure) - counts[ClaimVerdict.SUPPORTED]
    contradicted, unverified = counts[ClaimVerdict.CONTRADICTED], counts[ClaimVerdict.UNVERIFIED]
    said = f"{part_of(contradicted, len(sure), 'claim')} contradicted,"
    said += f" {counts[ClaimVerdict.NOT_FOUND]} not found"
    said += f", {unverified} with a false quote" if unverified else ""
    if refused := counts[ClaimVerdict.WRONG_REFUSAL]:
        said += f", {refused} declined though the passages hold the answer"
    return Finding(
        score=share(wrong, len(sure)),
        explanation=f"{said}{_quoted(sure)}{_left_out(len(claims) - len(sure))}.",
        details={"statements": len(sure), "contradicted": contradicted, "hallucinated": wrong},
    )


def _undecided(score: float) -> Finding:
    """Skip, and keep what the claims alone would score, for a cascade that asks a judge."""
    return Finding(skipped="undecided", details={UNSURE_SCORE: round(score, 6)})


def _left_out(count: int) -> str:
    """Return how many claims are undecided, in words; empty for none."""
    return f"; {count} undecided, left out" if count else ""


@of_claims(
    version="3",
    formula="contradicted passages / passages",
    pass_score=0.0,
    source="DeepEval, HallucinationMetric by contexts",
    direction=Direction.LOWER,
)
def contradicted_contexts(claims: list[Claim], interaction: Interaction, _: object) -> Finding:
    """Share of the passages that the answer contradicts; one where it is not known which."""
    if all(each.verdict is ClaimVerdict.WRONG_REFUSAL for each in claims):
        return Finding(skipped="no_claim")
    found = {each.context_index for each in claims if each.verdict is ClaimVerdict.CONTRADICTED}
    named = [n for n in range(1, len(interaction.contexts) + 1) if n - 1 in found]
    total, least = len(interaction.contexts), max(len(named), min(1, len(found)))
    return Finding(
        score=share(least, total),
        explanation=f"{part_of(least, total, 'passage')} contradicted.",
        details={"passages": named},
    )


@of_claims(
    formula="1/n Σ max over passages of P(entailment)",
    source="deepset, Groundedness Score",
    local_rule=PassRule(OWN_LEAST),
)
def grounding_score(claims: list[Claim], _: Interaction, __: NoParameters) -> Finding:
    """Mean support of the answer's claims by the passages."""
    score = weighted_mean([claim.support for claim in claims])
    return Finding(
        score=score,
        explanation=_least(claims, [c.support for c in claims]),
        details={"statements": len(claims)},
    )


def _least(claims: Sequence[Claim], supports: Sequence[float]) -> str:
    """Return the claim with the least support, in words."""
    support, claim = min(zip(supports, claims, strict=True), key=itemgetter(0))
    text = _shortened(claim.text.rstrip("."), _MAX_CLAIM_CHARS)
    return f'Least supported, {support:.2f}: "{text}".'


@of_claims(
    formula="1/n Σ max over passages, and over pairs below 0.8, of P(entailment)",
    source="deepset, Groundedness Score, over sets of passages",
    local_rule=PassRule(OWN_LEAST),
)
def multi_document_grounding(
    claims: list[Claim], interaction: Interaction, _: NoParameters
) -> Finding:
    """
    Like grounding_score, with pairs of passages where the support is undecided.

    Pairs of the first 8 passages are tried where the back end is neither sure that a claim is
    supported nor that it is not; a judge reads all passages at once and is always sure.
    """
    open_ones = [
        0 < claim.support < _ENOUGH and claim.verdict is not ClaimVerdict.CONTRADICTED
        for claim in claims
    ]
    texts = tuple(claim.text for claim in compress(claims, open_ones))
    passages = [context.text for context in interaction.contexts][:_MOST_IN_PAIRS]
    pairs = combinations(passages, 2) if texts else ()
    by_pair = [supports(f"{one}\n\n{other}", texts) for one, other in pairs]
    best = iter(max(found) for found in zip(*by_pair, strict=True))
    found = [
        max(claim.support, next(best, 0.0)) if is_open else claim.support
        for claim, is_open in zip(claims, open_ones, strict=True)
    ]
    return Finding(
        score=weighted_mean(found),
        explanation=_least(claims, found),
        details={
            "statements": len(claims),
            "passages": min(len(interaction.contexts), MOST_PASSAGES),
        },
    )
