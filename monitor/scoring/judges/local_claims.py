"""What the local judge says of each sentence, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.scoring.base import Claim, Verdict
from monitor.scoring.features.answerable import answer_held
from monitor.scoring.features.laid import Conflict
from monitor.scoring.features.look import Look
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.support import ClaimFeatures
from monitor.scoring.judges.logistic import sigmoid
from monitor.scoring.refusals import is_refusal

#: The most that is left of a probability where a detail is certainly contradicted.
CONTRADICTED_AT_MOST = 0.25
#: The most that is left of a claim of which the passages hold (nearly) nothing.
ABSENT_AT_MOST = 0.25
_SUPPORTED = 0.5
_ALIGNED = 0.5  # below this share of the claim in its evidence, nothing can contradict it
_HELD = 0.6  # share of a question from which on passages count as holding its answer
_MAX_QUOTE_CHARS = 300
_MAX_NAMED = 4


def judged_claims(look: Look, odds: Sequence[float]) -> tuple[Claim, ...]:
    """Give every sentence its verdict; *odds* holds one a checkable sentence, in order."""
    remaining = iter(odds)
    return tuple(
        _unstated(sentence) if claim is None else _claim(sentence, claim, look, next(remaining))
        for sentence, claim in zip(look.sentences, look.claims, strict=True)
    )


def claim_support(odds: float, claim: ClaimFeatures) -> float:
    """Give the probability that a claim is supported, held down where the case is plain."""
    probability = sigmoid(odds)
    if claim.certain:
        return CONTRADICTED_AT_MOST * probability
    return ABSENT_AT_MOST * probability if claim.absent else probability


def held_down(probability: float, claims: Sequence[ClaimFeatures], odds: Sequence[float]) -> float:
    """
    Lower the probability of a response in which a claim is contradicted, or from nowhere.

    A model of counted evidence sees one word of ten changed; to a reader the claim is wrong.
    With a claim of which the passages hold nothing, at most the share of supported claims is
    left. The order among such responses of one share stays as the model has it.

    Parameters
    ----------
    probability
        That the response is supported, by the model, in [0, 1].
    claims, odds
        The checkable claims, and the log odds that each is supported.
    """
    most = 1.0
    if any(claim.certain for claim in claims):
        most = CONTRADICTED_AT_MOST
    elif any(claim.absent for claim in claims):
        supports = [claim_support(each, claim) for each, claim in zip(odds, claims, strict=True)]
        share = sum(support >= _SUPPORTED for support in supports) / len(supports)
        most = max(share, ABSENT_AT_MOST)
    return most * probability


def only_declines(look: Look) -> bool:
    """Say whether the output states nothing and declines to answer."""
    return not look.checkable and any(is_refusal(sentence) for sentence in look.sentences)


def wrong_refusal(look: Look, query: str | None) -> Claim | None:
    """Judge an output that only declines: a claim when the passages held the answer, else None."""
    share, evidence = answer_held(query, look.passages)
    if share < _HELD:
        return None
    sentence = next(each for each in look.sentences if is_refusal(each))
    best = look.passages.sentences[evidence[0]]
    return Claim(
        text=sentence,
        verdict=Verdict.CONTRADICTED,
        support=1.0 - share,
        evidence=best[1][:_MAX_QUOTE_CHARS],
        context_index=best[0],
        reason="it declines to answer, but the passages speak of what is asked",
    )


def _unstated(sentence: str) -> Claim:
    reason = "declines to answer" if is_refusal(sentence) else "states nothing to check"
    return Claim(text=sentence, verdict=Verdict.NO_CLAIM, support=0.0, reason=reason)


def _claim(sentence: str, claim: ClaimFeatures, look: Look, odds: float) -> Claim:
    support = claim_support(odds, claim)
    verdict, reason = _verdict(claim, support, look.passages)
    best = look.passages.sentences[claim.evidence[0]] if claim.evidence else None
    return Claim(
        text=sentence,
        verdict=verdict,
        support=support,
        evidence=best[1][:_MAX_QUOTE_CHARS] if best else None,
        context_index=best[0] if best else None,
        reason=reason,
    )


def _verdict(claim: ClaimFeatures, support: float, passages: Passages) -> tuple[Verdict, str]:
    share = f"{100 * claim.covered_two:.0f} % of its information is in the nearest sentences"
    if support >= _SUPPORTED:
        return Verdict.SUPPORTED, share
    if conflict := _conflict(claim, passages):
        return Verdict.CONTRADICTED, conflict
    missing = claim.missing
    return Verdict.NOT_FOUND, f"{share}; missing: {_named(missing)}" if missing else share


def _conflict(claim: ClaimFeatures, passages: Passages) -> str | None:
    """Say what the nearest sentence has instead; None when it speaks of something else."""
    if claim.certain:
        return _changed(claim.certain[0])
    if claim.conflicts:
        return f"the passage says otherwise: {_named(claim.conflicts)}"
    if claim.covered_two < _ALIGNED:
        return None
    if claim.numbers_absent:
        beside = [w.surface for n in claim.evidence[:1] for w in passages.words[n] if w.number]
        there = f"; the nearest sentence has {_named(tuple(beside))}" if beside else ""
        return f"not in the passages: {_named(claim.numbers_absent)}{there}"
    if claim.antonym or claim.negation:
        return "the nearest sentence says the opposite"
    return None


def _changed(conflict: Conflict) -> str:
    if not conflict.said:
        return f"the passage says otherwise: {conflict.told}"
    return f'it says "{conflict.said}", the passage "{conflict.told}"'


def _named(items: tuple[str, ...]) -> str:
    more = len(items) - _MAX_NAMED
    return ", ".join(items[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
