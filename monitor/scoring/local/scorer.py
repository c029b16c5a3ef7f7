"""
The judge that needs nothing: counted evidence, weighed by logistic models that ship as data.

A claim has figures, an answer their means and sums and what the model of a claim says of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from monitor.format import count, percent
from monitor.models import Interaction
from monitor.models.evaluation import OWN_LEAST, OWN_MOST
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import Similarity
from monitor.scoring.language import (
    ENGLISH,
    has_words,
    language,
    language_of,
)
from monitor.scoring.local.conversation import FOLLOW_UP_FEATURES, follow, is_from_user
from monitor.scoring.local.logistic import (
    RESPONSE_FEATURES,
    Logistic,
    load_coefficients,
    probability,
    response_features,
)
from monitor.scoring.local.passages import Aligned, Passages
from monitor.scoring.local.reading import (
    CLAIM_FEATURES,
    ReadClaim,
    Reading,
    read,
    read_claim,
    script,
)
from monitor.scoring.local.relevance import (
    DOES_NOT_AT_MOST,
    MEANING,
    RELEVANCE_FEATURES,
    UNCLEAR,
    Meaning,
    Settled,
    by_shared_words,
    in_other_words,
    judge_yes_or_no,
    settle,
)
from monitor.scoring.local.requests import (
    CERTAIN,
    LEAST,
    LIKELY,
    TALK,
    asks_why,
    lacks_figure,
    leans,
    may_ask,
    named,
    request_model,
)
from monitor.scoring.sentences import CHAT_FROM, chat_model, split_statements

#: The most that is left of a probability where a copied claim changes a detail, and where the
#: passages hold no word of any claim.
CONTRADICTED_AT_MOST, UNKNOWN_AT_MOST = 0.15, 0.15
PASS_SCORE = 0.7
_SUPPORTED = 0.5
#: Share of a question from which on passages count as holding its answer.
_HELD = 0.6
#: Share from which on it is not clear that they hold no answer.
_TOUCHED = 0.3
_MAX_QUOTE_CHARS = 300
_MAX_NAMED = 4
#: Scripts without spaces whose words, or syllables, the judge cannot tell apart.
_UNSPLIT = frozenset({"KHMER", "MYANMAR", "TIBETAN"})


class LocalJudge:
    """
    Judge by counting, in a millisecond, without a key or a download.

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
    similarity
        Cosine of the embeddings of two texts: one more feature of relevance.
    """

    def __init__(
        self,
        coefficients: dict[str, Any] | None = None,
        *,
        pass_score: float = PASS_SCORE,
        similarity: Similarity | None = None,
    ) -> None:
        data = dict(coefficients if coefficients is not None else load_coefficients())
        features: Sequence[str] = RELEVANCE_FEATURES
        by_meaning = data.pop("by_meaning", {})
        if similarity is not None:
            features, data = (*features, MEANING), data | by_meaning
        self._pass_score = pass_score
        self._meaning = None if similarity is None else Meaning(similarity)
        self._claim = Logistic.by_kind(data["claim"], CLAIM_FEATURES)
        self._response = Logistic.by_kind(data["response"], RESPONSE_FEATURES)
        self._asked, self._asked_alone = (
            Logistic.by_kind(data[name], features)[""] for name in ("relevance", "relevance_alone")
        )
        self._follow = Logistic.by_kind(data["follow_up"], FOLLOW_UP_FEATURES)[""]
        kinds = (LEAST, LIKELY, CERTAIN, request_model()[1], CHAT_FROM)
        rules = (CONTRADICTED_AT_MOST, UNKNOWN_AT_MOST, pass_score, kinds, chat_model()[1])
        stemmers = metadata.version("PyStemmer")
        shaping = json.dumps([data, language(), rules, stemmers], sort_keys=True)
        self.version = f"local-25-{hashlib.sha256(shaping.encode()).hexdigest()[:8]}"
        if similarity is not None:
            self.version += f"+{similarity.version}"

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge groundedness and relevance together."""
        started = time.perf_counter()
        contexts = [context.text for context in interaction.contexts]
        output = interaction.output
        written = script(" ".join(contexts)), script(output)
        same = None in written or written[0] == written[1]
        if not (has_words(output) and same and _UNSPLIT.isdisjoint(written)):
            return Judgement(readable=False, duration_ms=(time.perf_counter() - started) * 1000)
        reading = read(interaction.query, contexts, output)
        left = reading.passages.left_out
        query = reading.query
        if interaction.history and reading.request == TALK and may_ask(query):
            reading = reading._replace(request="question")
        relevance, reason, counted = self._relevance(interaction, reading)
        claims, groundedness = self._groundedness(reading)
        refuses = len(reading.passages) > 0 and any(each.refuses for each in reading.sentences)
        declines = groundedness is None and refuses
        wrong = _wrong_refusal(reading, interaction) if declines and query else None
        if wrong is not None:
            claims, groundedness = (wrong,), wrong.support
            relevance = min(relevance or 0.0, DOES_NOT_AT_MOST)
            reason = f"{wrong.reason.capitalize()}."
        # at OWN_MOST and above, no answer fails unless a user sets a higher line
        fails = bool(claims) and groundedness is not None and groundedness < OWN_MOST
        readable = not (
            fails
            and (
                in_other_words(query, output, reading) or is_from_user(reading, interaction.history)
            )
        )
        # Of low relevances by shared words, as many are right as wrong, unless groundedness is low.
        supported = groundedness is None or groundedness >= OWN_LEAST or not readable
        doubtful = counted and relevance is not None and relevance < _SUPPORTED and supported
        if wrong is None and query:
            if declines and Aligned(named(query), reading.passages).shares[1] >= _TOUCHED:
                relevance, reason, _ = UNCLEAR  # whether the passages hold the answer is not known
            elif doubtful and len(reading.passages):
                relevance, reason = None, "right_refusal" if refuses else UNCLEAR.reason
        return Judgement(
            readable=readable,
            claims=claims,
            groundedness=groundedness,
            relevance=relevance,
            relevance_reason=reason,
            relevance_skipped=reason if relevance is None else "",
            declined_rightly=declines and wrong is None and relevance is not None,
            claims_not_judged=reading.not_judged,
            notes=(f"{count(left, 'sentence')} of the passages not read",) if left else (),
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def support(self, passage: str, claims: Sequence[str]) -> list[float]:
        """Return how far one passage supports each of *claims*, in [0, 1], each by itself."""
        passages = Passages([passage], language_of(passage) or ENGLISH)
        return self._supports([read_claim(c, passages) for c in claims])

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _groundedness(self, reading: Reading) -> tuple[tuple[Claim, ...], float | None]:
        """Judge every sentence, and the response as a whole; None if it states nothing."""
        groundedness: float | None = None
        shifted: Iterator[float] = iter(())
        if read_claims := reading.claims:
            values = [each.values for each in read_claims]
            odds = [*map(self._claim[reading.kind].log_odds, values)]
            supports = _capped(odds, read_claims)
            pooled = self._response[reading.kind].log_odds(response_features(values, odds))
            groundedness = probability(pooled) * probability_cap(read_claims)
            shifted = iter(_shifted_to(supports, groundedness))
        claims: list[Claim] = []
        for text, refuses, claim in reading.sentences:
            if claim is None:
                why = "declines to answer" if refuses else "states nothing to check"
                no_claim = ClaimVerdict.NO_CLAIM
                claims.append(Claim(text=text, verdict=no_claim, support=0.0, reason=why))
                continue
            support = next(shifted)
            parts, judged, above = [text], [claim], [support]
            if support < self._pass_score and len(split := split_statements(text)) > 1:
                # The least supported statement has the support of the sentence, and the others
                # stand above it as the model of a claim says.
                parts, judged = [*split], [reading.read_part(each) for each in split]
                if not claim.changes:  # a piece alone is nearer to what it does not copy
                    judged = [part._replace(changes=()) for part in judged]
                above = _shifted_to(self._supports(judged, reading.kind), support)
            claims += map(self._verdict, parts, judged, above)
        return tuple(claims), groundedness

    def _relevance(self, interaction: Interaction, reading: Reading) -> Settled:
        """Judge by shared words, and what they cannot tell by the kind of request."""
        query, output = reading.query, interaction.output
        if not query:
            return Settled(None, "nothing_asked")
        model = self._asked if len(reading.passages) else self._asked_alone
        meaning = None if self._meaning is None else self._meaning(query, output)
        found = by_shared_words(query, output, reading, model, meaning)
        return (
            settle(query, output, reading, found.relevance)
            or follow(query, interaction.history, output, reading, self._follow)
            or judge_yes_or_no(query, output, reading, found.relevance)
            or found
        )

    def _supports(self, claims: Sequence[ReadClaim], kind: str = "text") -> list[float]:
        """Return the support of claims, each by itself."""
        return _capped([self._claim[kind].log_odds(each.values) for each in claims], claims)

    def _verdict(self, text: str, claim: ReadClaim, support: float) -> Claim:
        """Return the verdict on one claim, with its nearest sentence and the reason."""
        passes, share = support >= self._pass_score, percent(claim.aligned.shares[1], 0)
        unsure = ClaimVerdict.UNDECIDED if support >= OWN_LEAST else ClaimVerdict.NOT_FOUND
        verdict = ClaimVerdict.SUPPORTED if passes else unsure
        reason = f"{share} of its information is in the nearest sentences"
        at, passages = None, claim.aligned.passages  # the nearest sentence
        if claim.changes and not passes:
            said, told, certain, at = claim.changes[0]
            number, _ = claim.aligned.best_sentence() if at is None else passages.sentences[at]
            where = "text of the question" if number is None else "passage"
            reason = f'it says "{said}", the {where} "{told}"'
            otherwise = "says otherwise" if certain else "does not state it"
            reason = reason if said else f"the {where} {otherwise}: {told}"
            verdict = ClaimVerdict.CONTRADICTED if certain else verdict
        elif not passes and (missing := claim.aligned.missing()):
            reason += "; missing: " + ", ".join(missing[:_MAX_NAMED])
            if len(missing) > _MAX_NAMED:
                reason += f" and {len(missing) - _MAX_NAMED} more"
        return _claim(text, verdict, support, reason, claim.aligned, at)


def probability_cap(claims: Sequence[ReadClaim]) -> float:
    """
    Return the most that is left of a response with a changed claim, or one from nowhere.

    A model of counted evidence sees one word of ten changed; to a reader the claim is wrong. The
    order among such responses stays as the model has it.
    """
    if any(claim.changes for claim in claims):
        return CONTRADICTED_AT_MOST
    return UNKNOWN_AT_MOST if not any(claim.covered for claim in claims) else 1.0


def _capped(odds: Iterable[float], claims: Sequence[ReadClaim]) -> list[float]:
    """Return log odds as probabilities, lowered for claims that are changed or from nowhere."""
    return [probability(o) * probability_cap([c]) for o, c in zip(odds, claims, strict=True)]


def _shifted_to(supports: Sequence[float], least: float) -> list[float]:
    """Return supports moved together in log odds, so that the least is *least*."""
    odds = [math.log(each / (1.0 - each)) for each in (least, *supports)]
    return [probability(each + odds[0] - min(odds[1:])) for each in odds[1:]]


def _claim(
    text: str,
    verdict: ClaimVerdict,
    support: float,
    reason: str,
    at: Aligned,
    sentence: int | None = None,
) -> Claim:
    """Return a claim with its nearest sentence, or *sentence* of the passages."""
    index, quote = at.best_sentence() if sentence is None else at.passages.sentences[sentence]
    return Claim(
        text=text,
        verdict=verdict,
        support=support,
        evidence=quote and quote[:_MAX_QUOTE_CHARS],
        context_index=index,
        reason=reason,
    )


def _wrong_refusal(reading: Reading, interaction: Interaction) -> Claim | None:
    """Judge an output that only declines: a claim when the passages held the answer, else None."""
    passages, query = reading.passages, reading.query
    asked = Aligned(named(query), passages)
    held, before = asked.shares[1], [turn for turn in interaction.history if turn.role == "user"]
    if before and leans(query) and asked.evidence:
        # the sentence that holds what is different this time must hold the question before as well
        both = Aligned(f"{named(before[-1].content)} {named(query)}", passages)
        held = min(asked.shares[0], both.share(sentence=asked.evidence[0]))
    found = [word for number in asked.evidence for word in passages.words[number]]
    if held < _HELD or asks_why(query) or lacks_figure(query, found):
        return None  # to ask why, one repeats what the passages say
    text = next(each.text for each in reading.sentences if each.refuses)
    reason = "it declines to answer, but the passages speak of what is asked"
    # It is less surely wrong than a changed detail: whether passages hold an answer is a guess.
    support = CONTRADICTED_AT_MOST + (1.0 - held) * (OWN_LEAST - CONTRADICTED_AT_MOST)
    return _claim(text, ClaimVerdict.WRONG_REFUSAL, support, reason, asked)
