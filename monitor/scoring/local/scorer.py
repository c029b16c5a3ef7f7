"""The judge that needs nothing: counted evidence, weighed by a small model that ships as data."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.local.alignment import Aligned, as_written
from monitor.scoring.local.conversation import follow
from monitor.scoring.local.model import (
    CLAIM_FEATURES,
    RESPONSE_FEATURES,
    Logistic,
    load_coefficients,
    response_features,
    sigmoid,
)
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import (
    ABSENT_BELOW,
    FEWEST_MISSING,
    MOST_QUERY_CHARS,
    ReadClaim,
    Reading,
    ReadSentence,
    read,
    read_claim,
    script,
)
from monitor.scoring.local.relevance import (
    HOW_MUCH,
    RELEVANCE_FEATURES,
    asks_translation,
    names_anything,
    only_echoes,
    relevance_features,
    settle,
    type_of_answer,
)
from monitor.scoring.sentences import split_statements
from monitor.scoring.words import Word, has_words, language, words

#: The most that is left of a probability where a copied claim changes a detail.
CONTRADICTED_AT_MOST = 0.15
#: The most that is left of a claim of which the passages hold (nearly) nothing.
ABSENT_AT_MOST = 0.15
PASS_SCORE = 0.7
_SUPPORTED = 0.5
_HELD = 0.6  # share of a question from which on passages count as holding its answer
_MAX_QUOTE_CHARS = 300
_MAX_NAMED = 4
#: Scripts without spaces whose words, or syllables, the judge cannot tell apart.
_UNSPLIT = frozenset({"KHMER", "MYANMAR", "TIBETAN"})


class Rewriter(Protocol):
    """Writes a claim in words of the passages that mean the same."""

    version: str

    def __call__(self, claim: str, passages: Passages) -> tuple[Word, ...]:
        """Return the words of *claim*, as the passages write them."""


class LocalJudge:
    """
    Judge by counting, in a few milliseconds, without a key or a download.

    The groundedness of a response is the probability that its passages support it, for traffic
    with the share of grounded answers that the coefficients name. The claim that is least
    supported has that probability as well, and the others stand above it as the model of a claim
    says: a response reaches *pass_score* when all of its claims do.

    Parameters
    ----------
    coefficients
        What ``benchmarks/train_local.py`` writes; default: what ships.
    pass_score
        From this support on, in [0, 1], a claim is called supported.
    rewriter
        Finds words of the same meaning in the passages, such as an embedding model does.
    """

    def __init__(
        self,
        coefficients: dict[str, Any] | None = None,
        *,
        pass_score: float = PASS_SCORE,
        rewriter: Rewriter | None = None,
    ) -> None:
        data = coefficients if coefficients is not None else load_coefficients()
        self._pass_score = pass_score
        self._rewrite = rewriter or as_written
        self._claim = Logistic.by_kind(data["claim"], CLAIM_FEATURES)
        self._response = Logistic.by_kind(data["response"], RESPONSE_FEATURES)
        self._relevance = Logistic.by_kind(data["relevance"], RELEVANCE_FEATURES)[""]
        self._relevance_alone = Logistic.by_kind(data["relevance_alone"], RELEVANCE_FEATURES)[""]
        rules = (CONTRADICTED_AT_MOST, ABSENT_AT_MOST, ABSENT_BELOW, FEWEST_MISSING, pass_score)
        shaping = json.dumps([data, language(), rules], sort_keys=True)
        self.version = f"local-4-{hashlib.sha256(shaping.encode()).hexdigest()[:8]}"
        if rewriter is not None:
            self.version += f"+{rewriter.version}"

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge groundedness and relevance together."""
        started = time.perf_counter()
        contexts = [context.text for context in interaction.contexts]
        query, output = interaction.query, interaction.output
        written = script(" ".join(contexts)), script(output)
        same = None in written or written[0] == written[1]
        if not (has_words(output) and same and _UNSPLIT.isdisjoint(written)):
            return Judgement(readable=False, duration_ms=(time.perf_counter() - started) * 1000)
        reading = read(query, contexts, output, self._rewrite)
        relevant, reason = self._judge_relevance(query, output, reading)
        skipped = "nothing_asked"
        settled = settle(query, output, reading, relevant) if query else None
        alone = settled is None or settled.reason == "terse_answer"
        if query and interaction.history and alone:
            settled = follow(query, interaction.history, output, reading, relevant)
        if settled is not None:
            relevant, reason = settled
            skipped = reason if relevant is None else skipped
        declines = bool(len(reading.passages)) and not reading.claims
        declines = declines and any(each.refuses for each in reading.sentences)
        wrong = _wrong_refusal(reading, query) if declines and query else None
        claims, groundedness = self._judge_claims(reading)
        translated = skipped == "instruction" and asks_translation(query or "")
        return Judgement(
            readable=not translated,  # of other words nothing is found in the passages
            claims=(wrong,) if wrong else claims,
            groundedness=wrong.support if wrong else groundedness,
            relevance=relevant,
            relevance_reason=reason,
            relevance_skipped=skipped,
            declined_rightly=declines and wrong is None and relevant is not None,
            claims_not_judged=reading.not_judged,
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def support(self, passage: str, claims: Sequence[str]) -> list[float]:
        """Return how far one passage supports each of *claims*, in [0, 1], each by itself."""
        passages = Passages([passage])
        read_claims = [read_claim(each, passages, rewrite=self._rewrite) for each in claims]
        model = self._claim["brief"]
        return [
            _held_down(sigmoid(float(model.log_odds(np.array(each.values)))), each)
            for each in read_claims
        ]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _judge_claims(self, reading: Reading) -> tuple[tuple[Claim, ...], float | None]:
        """Judge every sentence, and the response as a whole; None if it states nothing."""
        read_claims, values = reading.claims, reading.values
        if not read_claims:
            return tuple(_no_claim(each) for each in reading.sentences), None
        odds = self._claim[reading.kind].log_odds(values)
        pooled = self._response[reading.kind].log_odds(response_features(values, odds))
        supports = [
            _held_down(sigmoid(each), claim)
            for each, claim in zip(odds.tolist(), read_claims, strict=True)
        ]
        groundedness = sigmoid(float(pooled)) * most_left(read_claims, supports)
        shift = _log_odds(groundedness) - _log_odds(min(supports))
        shifted = iter([sigmoid(_log_odds(each) + shift) for each in supports])
        claims: list[Claim] = []
        for each in reading.sentences:
            if each.claim is None:
                claims.append(_no_claim(each))
                continue
            support = next(shifted)
            judged = [(each.text, each.claim, support)]
            if support < self._pass_score:
                judged = self._parted(each, reading, support) or judged
            claims += [self.verdict(*one, reading.passages) for one in judged]
        return tuple(claims), groundedness

    def _parted(
        self, sentence: ReadSentence, reading: Reading, support: float
    ) -> list[tuple[str, ReadClaim, float]]:
        """
        Return the statements of a sentence that is not supported, if it joins several.

        The least supported has the *support* of the sentence, and the others stand above it as
        the model of a claim says.
        """
        texts = split_statements(sentence.text)
        if len(texts) == 1 or sentence.claim is None:
            return []
        parts = [(text, reading.read_part(text)) for text in texts]
        if not sentence.claim.changes:  # a piece alone is nearer to what it does not copy
            parts = [(text, replace(claim, changes=())) for text, claim in parts]
        odds = self._claim[reading.kind].log_odds(np.array([claim.values for _, claim in parts]))
        own = [_held_down(sigmoid(o), c) for o, (_, c) in zip(odds.tolist(), parts, strict=True)]
        shift = _log_odds(support) - _log_odds(min(own))
        moved = [sigmoid(_log_odds(each) + shift) for each in own]
        return [(text, claim, each) for (text, claim), each in zip(parts, moved, strict=True)]

    def verdict(self, text: str, claim: ReadClaim, support: float, passages: Passages) -> Claim:
        """Return the verdict on one claim, with its nearest sentence and the reason."""
        reason = f"{100 * claim.covered_two:.0f} % of its information is in the nearest sentences"
        verdict = ClaimVerdict.NOT_FOUND
        if support >= self._pass_score:
            verdict = ClaimVerdict.SUPPORTED
        elif claim.changes:
            said, told, certain = claim.changes[0]
            verdict = ClaimVerdict.CONTRADICTED if certain else ClaimVerdict.NOT_FOUND
            reason = f'it says "{said}", the passage "{told}"'
            if not said:
                reason = f"the passage says otherwise: {told}"
        elif claim.missing:
            more = len(claim.missing) - _MAX_NAMED
            reason += "; missing: " + ", ".join(claim.missing[:_MAX_NAMED])
            reason += f" and {more} more" if more > 0 else ""
        best = passages.sentences[claim.evidence[0]] if claim.evidence else None
        return Claim(
            text=text,
            verdict=verdict,
            support=support,
            evidence=best[1][:_MAX_QUOTE_CHARS] if best else None,
            context_index=best[0] if best else None,
            reason=reason,
        )

    def _judge_relevance(
        self, query: str | None, output: str, reading: Reading
    ) -> tuple[float | None, str]:
        if not query or not names_anything(query):
            return None, ""
        limit = MOST_QUERY_CHARS
        if only_echoes(query, words(query[:limit]), words(output[:limit])):
            return 0.0, "It adds nothing to the question."
        values = relevance_features(query, output, reading.sentences, reading.passages)
        model = self._relevance if len(reading.passages) else self._relevance_alone
        score = sigmoid(float(model.log_odds(np.array(values))))
        named = dict(zip(RELEVANCE_FEATURES, values, strict=True))
        if named["refusal"] >= 1:
            return score, "It declines to answer."
        said = f"It takes up {100 * named['query_covered_near']:.0f} % of what the question names"
        if named["type_misses"]:
            return score, f"{said}, without the kind of thing that is asked for."
        return score, f"{said}."


def most_left(claims: Sequence[ReadClaim], supports: Sequence[float]) -> float:
    """
    Return the most that is left of a response with a changed claim, or one from nowhere.

    A model of counted evidence sees one word of ten changed; to a reader the claim is wrong.
    With a claim of which the passages hold nothing, at most the share of supported claims is
    left. The order among such responses of one share stays as the model has it.
    """
    if any(claim.changes for claim in claims):
        return CONTRADICTED_AT_MOST
    if any(claim.absent for claim in claims):
        share = sum(each >= _SUPPORTED for each in supports) / len(supports)
        return max(share, ABSENT_AT_MOST)
    return 1.0


def _held_down(probability: float, claim: ReadClaim) -> float:
    if claim.changes:
        return CONTRADICTED_AT_MOST * probability
    return ABSENT_AT_MOST * probability if claim.absent else probability


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def _no_claim(sentence: ReadSentence) -> Claim:
    reason = "declines to answer" if sentence.refuses else "states nothing to check"
    return Claim(text=sentence.text, verdict=ClaimVerdict.NO_CLAIM, support=0.0, reason=reason)


def _wrong_refusal(reading: Reading, query: str) -> Claim | None:
    """Judge an output that only declines: a claim when the passages held the answer, else None."""
    passages = reading.passages
    asked = Aligned.of(HOW_MUCH.sub(" ", query), passages)
    index, text = passages.sentences[asked.evidence[0]] if asked.evidence else (0, "")
    told = " ".join(passages.sentences[number][1] for number in asked.evidence)
    found = [word for number in asked.evidence for word in passages.words[number]]
    # without the kind of thing that is asked for (a person, a date, a number) it is not an answer
    if asked.shares[1] < _HELD or type_of_answer(query, told, found)[1]:
        return None
    return Claim(
        text=next(each.text for each in reading.sentences if each.refuses),
        verdict=ClaimVerdict.CONTRADICTED,
        support=1.0 - asked.shares[1],
        evidence=text[:_MAX_QUOTE_CHARS],
        context_index=index,
        reason="it declines to answer, but the passages speak of what is asked",
    )
