"""The judge that needs nothing: counted evidence, weighed by a small model that ships as data."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.models import Interaction
from monitor.scoring.base import Claim, Judgement, Verdict
from monitor.scoring.features.extract import Features, look_at, script
from monitor.scoring.features.laid import Conflict
from monitor.scoring.features.passages import Passages, read_background
from monitor.scoring.features.relevance import (
    RELEVANCE_FEATURES,
    answer_held,
    names_anything,
    only_echoes,
    relevance_features,
)
from monitor.scoring.features.response import RESPONSE_FEATURES, response_features
from monitor.scoring.features.support import (
    ABSENT_BELOW,
    CLAIM_FEATURES,
    FEWEST_MISSING,
    ClaimFeatures,
)
from monitor.scoring.judges.embedding import Embedding
from monitor.scoring.judges.logistic import ByKind, sigmoid
from monitor.scoring.refusals import is_refusal
from monitor.scoring.words import has_words

COEFFICIENTS = "local.v2.json"
#: Scripts without spaces whose words, or syllables, the judge cannot tell apart.
_UNSPLIT = frozenset({"KHMER", "MYANMAR", "TIBETAN"})

Array = NDArray[np.float64]


class LocalJudge:
    """
    Judges by counting, in milliseconds, without a key or a download.

    The groundedness of a response is the probability that its passages support it,
    for traffic with the share of grounded answers that the coefficients name.
    With an *embedding* it also weighs what that model sees.
    """

    def __init__(
        self,
        coefficients: dict[str, Any] | None = None,
        *,
        embedding: Embedding | None = None,
    ) -> None:
        data = coefficients if coefficients is not None else load_coefficients()
        self._embedding = embedding
        self._claim = ByKind.from_data(data["claim"], CLAIM_FEATURES)
        self._response = ByKind.from_data(data["response"], RESPONSE_FEATURES)
        if embedding is not None:
            self._claim, self._response = embedding.claim, embedding.response
        self._relevance = ByKind.from_data(data["relevance"], RELEVANCE_FEATURES)
        self._relevance_alone = ByKind.from_data(data["relevance_alone"], RELEVANCE_FEATURES)
        rules = (CONTRADICTED_AT_MOST, ABSENT_AT_MOST, ABSENT_BELOW, FEWEST_MISSING)
        shaping = json.dumps(data, sort_keys=True) + read_background() + str(rules)
        digest = hashlib.sha256(shaping.encode()).hexdigest()
        self.version = f"local-2-{digest[:8]}"
        if embedding is not None:
            self.version += f"+{embedding.version}"

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge groundedness and relevance together."""
        started = time.perf_counter()
        contexts = [context.text for context in interaction.contexts]
        if not _readable(interaction.output, contexts):
            return Judgement(readable=False, duration_ms=_since(started))
        look = look_at(interaction.query, contexts, interaction.output)
        if len(look.passages) and only_declines(look):
            return self._judge_refusal(interaction, look, started)
        values = self._figures(look)
        # Without a claim nothing was embedded, and the figures lack the columns for that.
        odds = self._claim.log_odds(look.kind, values) if len(values) else np.empty(0)
        relevance, reason = self._judge_relevance(interaction, look)
        return Judgement(
            claims=judged_claims(look, [float(each) for each in odds]),
            groundedness=self._judge_response(look, values, odds),
            relevance=relevance,
            relevance_reason=reason,
            claims_not_judged=look.not_judged,
            duration_ms=_since(started),
        )

    def close(self) -> None:
        """Give nothing back: nothing is held."""

    def _judge_refusal(self, interaction: Interaction, look: Features, started: float) -> Judgement:
        """Judge an "I don't know" by whether the passages held the answer."""
        wrong = wrong_refusal(look, interaction.query)
        relevance, reason = self._judge_relevance(interaction, look)
        return Judgement(
            claims=(wrong,) if wrong else judged_claims(look, ()),
            groundedness=wrong.support if wrong else None,
            relevance=relevance,
            relevance_reason=reason,
            declined_rightly=wrong is None and relevance is not None,
            duration_ms=_since(started),
        )

    def _figures(self, look: Features) -> Array:
        values = look.values
        if self._embedding is None or not len(values):
            return values
        return np.hstack([values, self._embedding.figures(look)])

    def _judge_response(self, look: Features, values: Array, odds: Array) -> float | None:
        if not len(odds):
            return None
        pooled = self._response.log_odds(look.kind, response_features(values, odds))
        return held_down(sigmoid(float(pooled)), look.checkable, [float(each) for each in odds])

    def _judge_relevance(
        self, interaction: Interaction, look: Features
    ) -> tuple[float | None, str]:
        query = interaction.query
        if not query or not names_anything(query):
            return None, ""
        if only_echoes(query, interaction.output):
            return 0.0, "It adds nothing to the question."
        values = relevance_features(query, interaction.output, look.sentences, look.passages)
        model = self._relevance if len(look.passages) else self._relevance_alone
        score = sigmoid(float(model.log_odds("", np.array(values))))
        return score, _relevance_reason(dict(zip(RELEVANCE_FEATURES, values, strict=True)))


def load_coefficients() -> dict[str, Any]:
    """Read the coefficients that ship with the package."""
    text = resources.files("monitor.scoring.judges").joinpath(COEFFICIENTS).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _readable(output: str, contexts: list[str]) -> bool:
    """Say whether there are words that can be split, in the same writing as the passages."""
    if not has_words(output):
        return False
    written = script(" ".join(contexts)), script(output)
    if not _UNSPLIT.isdisjoint(written):
        return False
    return None in written or written[0] == written[1]


def _relevance_reason(values: dict[str, float]) -> str:
    if values["refusal"] >= 1:
        return "It declines to answer."
    said = f"It takes up {100 * values['query_covered_near']:.0f} % of what the question names"
    if values["type_misses"]:
        return f"{said}, without the kind of thing that is asked for."
    return f"{said}."


# --- local claims ---
# What the local judge says of each sentence, in words for people.


#: The most that is left of a probability where a detail is certainly contradicted.
CONTRADICTED_AT_MOST = 0.25
#: The most that is left of a claim of which the passages hold (nearly) nothing.
ABSENT_AT_MOST = 0.25
_SUPPORTED = 0.5
_ALIGNED = 0.5  # below this share of the claim in its evidence, nothing can contradict it
_HELD = 0.6  # share of a question from which on passages count as holding its answer
_MAX_QUOTE_CHARS = 300
_MAX_NAMED = 4


def judged_claims(look: Features, odds: Sequence[float]) -> tuple[Claim, ...]:
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


def only_declines(look: Features) -> bool:
    """Say whether the output states nothing and declines to answer."""
    return not look.checkable and any(is_refusal(sentence) for sentence in look.sentences)


def wrong_refusal(look: Features, query: str | None) -> Claim | None:
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


def _claim(sentence: str, claim: ClaimFeatures, look: Features, odds: float) -> Claim:
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
