"""The judge that needs nothing: counted evidence, weighed by a small model that ships as data."""

from __future__ import annotations

import hashlib
import json
import time
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.models import Interaction
from monitor.scoring.base import Judgement
from monitor.scoring.features.background import read_background
from monitor.scoring.features.look import Look, look_at, script
from monitor.scoring.features.relevance import (
    RELEVANCE_FEATURES,
    names_anything,
    only_echoes,
    relevance_features,
)
from monitor.scoring.features.response import RESPONSE_FEATURES, response_features
from monitor.scoring.features.support import ABSENT_BELOW, CLAIM_FEATURES, FEWEST_MISSING
from monitor.scoring.judges.embedding import Embedding
from monitor.scoring.judges.local_claims import (
    ABSENT_AT_MOST,
    CONTRADICTED_AT_MOST,
    held_down,
    judged_claims,
    only_declines,
    wrong_refusal,
)
from monitor.scoring.judges.logistic import ByKind, sigmoid
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

    def _judge_refusal(self, interaction: Interaction, look: Look, started: float) -> Judgement:
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

    def _figures(self, look: Look) -> Array:
        values = look.values
        if self._embedding is None or not len(values):
            return values
        return np.hstack([values, self._embedding.figures(look)])

    def _judge_response(self, look: Look, values: Array, odds: Array) -> float | None:
        if not len(odds):
            return None
        pooled = self._response.log_odds(look.kind, response_features(values, odds))
        return held_down(sigmoid(float(pooled)), look.checkable, [float(each) for each in odds])

    def _judge_relevance(self, interaction: Interaction, look: Look) -> tuple[float | None, str]:
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
