"""The judge that needs nothing: counted evidence, weighed by a small model that ships as data."""

from __future__ import annotations

import hashlib
import json
import time
from importlib import resources
from typing import Any

from monitor.models import Interaction
from monitor.scoring.base import Claim, Judgement, Verdict
from monitor.scoring.claims import is_refusal
from monitor.scoring.features.look import Look, look_at, script
from monitor.scoring.features.relevance import (
    RELEVANCE_FEATURES,
    only_echoes,
    relevance_features,
)
from monitor.scoring.features.response import RESPONSE_FEATURES, response_features
from monitor.scoring.features.support import CLAIM_FEATURES, ClaimFeatures
from monitor.scoring.judges.logistic import Logistic, sigmoid
from monitor.scoring.words import has_words

COEFFICIENTS = "local.v1.json"
_SUPPORTED = 0.5
_ALIGNED = 0.5  # below this share of the claim in its evidence, nothing can contradict it
_MAX_QUOTE_CHARS = 300
_MAX_NAMED = 4


class LocalJudge:
    """
    Judges by counting, in milliseconds, without a key or a download.

    The groundedness of a response is the probability that its passages support it,
    for traffic with the share of grounded answers that the coefficients name.
    """

    def __init__(self, coefficients: dict[str, Any] | None = None) -> None:
        data = coefficients if coefficients is not None else load_coefficients()
        self._claim = Logistic.from_data(data["claim"], CLAIM_FEATURES)
        self._response = Logistic.from_data(data["response"], RESPONSE_FEATURES)
        self._relevance = Logistic.from_data(data["relevance"], RELEVANCE_FEATURES)
        self._relevance_alone = Logistic.from_data(data["relevance_alone"], RELEVANCE_FEATURES)
        digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        self.version = f"local-1-{digest[:8]}"

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge groundedness and relevance together."""
        started = time.perf_counter()
        contexts = [context.text for context in interaction.contexts]
        if not _readable(interaction.output, contexts):
            return Judgement(readable=False, duration_ms=_since(started))
        look = look_at(interaction.query, contexts, interaction.output)
        odds = [self._claim.log_odds(claim.values) for claim in look.checkable]
        relevance, reason = self._judge_relevance(interaction, look)
        return Judgement(
            claims=_claims(look, odds),
            groundedness=self._judge_response(look, odds),
            relevance=relevance,
            relevance_reason=reason,
            claims_not_judged=look.not_judged,
            duration_ms=_since(started),
        )

    def close(self) -> None:
        """Give nothing back: nothing is held."""

    def _judge_response(self, look: Look, odds: list[float]) -> float | None:
        if not odds:
            return None
        return sigmoid(self._response.log_odds(response_features(look.checkable, odds)))

    def _judge_relevance(self, interaction: Interaction, look: Look) -> tuple[float | None, str]:
        query = interaction.query
        if not query or not has_words(query):
            return None, ""
        if only_echoes(query, interaction.output):
            return 0.0, "It adds nothing to the question."
        values = relevance_features(query, interaction.output, look.sentences, look.passages)
        model = self._relevance if len(look.passages) else self._relevance_alone
        score = sigmoid(model.log_odds(values))
        return score, _relevance_reason(dict(zip(RELEVANCE_FEATURES, values, strict=True)))


def load_coefficients() -> dict[str, Any]:
    """Read the coefficients that ship with the package."""
    text = resources.files("monitor.scoring.judges").joinpath(COEFFICIENTS).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _readable(output: str, contexts: list[str]) -> bool:
    """Say whether there are words, in the same writing as the passages."""
    if not has_words(output):
        return False
    written = script(" ".join(contexts)), script(output)
    return None in written or written[0] == written[1]


def _claims(look: Look, odds: list[float]) -> tuple[Claim, ...]:
    remaining = iter(odds)
    return tuple(
        _unstated(sentence) if claim is None else _claim(sentence, claim, look, next(remaining))
        for sentence, claim in zip(look.sentences, look.claims, strict=True)
    )


def _unstated(sentence: str) -> Claim:
    reason = "declines to answer" if is_refusal(sentence) else "states nothing to check"
    return Claim(text=sentence, verdict=Verdict.NO_CLAIM, support=0.0, reason=reason)


def _claim(sentence: str, claim: ClaimFeatures, look: Look, odds: float) -> Claim:
    support = sigmoid(odds)
    verdict, reason = _verdict(claim, support)
    best = look.passages.sentences[claim.evidence[0]] if claim.evidence else None
    return Claim(
        text=sentence,
        verdict=verdict,
        support=support,
        evidence=best[1][:_MAX_QUOTE_CHARS] if best else None,
        context_index=best[0] if best else None,
        reason=reason,
    )


def _verdict(claim: ClaimFeatures, support: float) -> tuple[Verdict, str]:
    share = f"{claim.covered_two:.0%} of its information is in the nearest sentences"
    if support >= _SUPPORTED:
        return Verdict.SUPPORTED, share
    if claim.covered_two >= _ALIGNED:
        if claim.numbers_absent:
            return Verdict.CONTRADICTED, f"other numbers: {_named(claim.numbers_absent)}"
        if claim.antonym or claim.negation:
            return Verdict.CONTRADICTED, "the nearest sentence says the opposite"
    missing = claim.missing
    return Verdict.NOT_FOUND, f"{share}; missing: {_named(missing)}" if missing else share


def _named(items: tuple[str, ...]) -> str:
    more = len(items) - _MAX_NAMED
    return ", ".join(items[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _relevance_reason(values: dict[str, float]) -> str:
    if values["refusal"] >= 1:
        return "It declines to answer."
    said = f"It takes up {values['query_covered_near']:.0%} of what the question names"
    if values["type_misses"]:
        return f"{said}, without the kind of thing that is asked for."
    return f"{said}."
