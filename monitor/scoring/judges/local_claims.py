"""What the local judge says of each sentence, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.scoring.base import Claim, Verdict
from monitor.scoring.claims import is_refusal
from monitor.scoring.features.answerable import answer_held
from monitor.scoring.features.laid import Conflict
from monitor.scoring.features.look import Look
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.support import ClaimFeatures
from monitor.scoring.judges.logistic import sigmoid

#: The most that is left of a probability where a detail is certainly contradicted.
CONTRADICTED_AT_MOST = 0.25
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


def held_down(probability: float, claims: Sequence[ClaimFeatures]) -> float:
    """
    Lower the probability that *claims* are supported when one is certainly contradicted.

    A model of counted evidence sees one word of ten changed; to a reader the claim is wrong.
    The order among contradicted ones stays as the model has it.
    """
    contradicted = any(claim.certain for claim in claims)
    return CONTRADICTED_AT_MOST * probability if contradicted else probability


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
    support = held_down(sigmoid(odds), [claim])
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
    share = f"{claim.covered_two:.0%} of its information is in the nearest sentences"
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
