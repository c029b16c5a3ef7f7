"""The judge behind an OpenAI-compatible endpoint: one structured call, quotes verified."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self
from urllib.parse import urlsplit

from monitor.errors import JudgeError
from monitor.models import Interaction
from monitor.scoring.base import Claim, Judgement, Verdict
from monitor.scoring.judges.judge_session import JudgeSession
from monitor.scoring.judges.openai_call import ChatCall, Patience, Spent
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.prices import Prices
from monitor.scoring.judges.question import Case
from monitor.scoring.judges.quotes import Quotable
from monitor.scoring.judges.reply import JudgeReply, VerdictRow
from monitor.scoring.prompts import load_prompt
from monitor.scoring.spending.meter import Meter
from monitor.scoring.words import storable
from monitor.settings import Settings

PROMPT = "judge.v3"
_ANSWERED = {"yes": 1.0, "partial": 0.5, "no": 0.0, "refusal": 0.0}
_ANSWERED_REASON = {
    "yes": "It answers the question",
    "partial": "It answers a part of the question",
    "no": "It does not answer the question",
    "refusal": "It declines to answer",
}
_NOT_PROVEN = "the judge's quote is not in the passages, or too short to prove anything"
_MAX_REASON_CHARS = 300
_MAX_QUOTE_CHARS = 500


# --- naming ---
# How a judge's version names its model and its endpoint.


USUAL_INPUT_TOKENS = 16_000
_LONGEST_NAME = 120  # the column of evaluator_version holds 200, a metric's own version included


def model_name(model: str) -> str:
    """Shorten a model's name for the version; different models keep different names."""
    name = storable(model, _LONGEST_NAME)
    if name == model:
        return name
    return f"{name}~{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"


def sent_mark(input_tokens: int, pieces: int = 0) -> str:
    """Say how much of the texts is sent, where that is not the usual: it shapes the answers."""
    room = "" if input_tokens == USUAL_INPUT_TOKENS else f"t{input_tokens}"
    return (f"p{pieces}" if pieces else "") + room


def endpoint_mark(base_url: str | None) -> str:
    """
    Tell endpoints apart that serve a model under the same name; empty for OpenAI's own.

    A hash, because a version is stored and shown, and an address is nobody's business.
    """
    parts = urlsplit(base_url or "")
    host = parts.hostname or ""
    if not host or host == "api.openai.com" or host.endswith(".api.openai.com"):
        return ""
    # Without user, password and query: those may be secrets, and do not name a model.
    place = f"{host}:{parts.port or ''}{parts.path.rstrip('/')}"
    return f"@{hashlib.sha256(place.lower().encode()).hexdigest()[:6]}"


class OpenAIJudge:
    """Asks an LLM for a verdict on every sentence, and believes it only with a real quote."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        patience: Patience | None = None,
        prices: Prices | None = None,
        input_tokens: int = USUAL_INPUT_TOKENS,
        pieces: int = 8,
        meter: Meter | None = None,
    ) -> None:
        patience = patience or Patience()
        self._client = SharedClient(api_key, base_url, patience.timeout_s)
        self._call = ChatCall(self._client, model, patience, meter)
        self._model = model
        self._prices = prices or Prices()
        self._prompt = load_prompt(PROMPT)
        self._input_tokens = input_tokens
        self._pieces = pieces
        where = f"{model_name(model)}{endpoint_mark(base_url)}"
        sent = sent_mark(input_tokens, pieces)
        self.version = f"judge-{where}-{PROMPT.rpartition('.')[2]}{sent}"

    @classmethod
    def from_settings(cls, settings: Settings, *, meter: Meter | None = None) -> Self:
        """Make the judge that the settings describe; *meter* counts its attempts."""
        key = settings.openai_api_key
        return cls(
            settings.judge_model,
            api_key=key.get_secret_value() if key else None,
            base_url=settings.openai_base_url,
            patience=Patience(
                attempts=settings.judge_limits.judge_attempts,
                timeout_s=settings.judge_limits.judge_timeout_s,
            ),
            prices=Prices.from_settings(settings),
            input_tokens=settings.judge_limits.judge_input_tokens,
            pieces=settings.judge_limits.judge_pieces,
            meter=meter,
        )

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge all metrics with one call, or raise a ``JudgeError`` that says what it cost."""
        spent = self._call.begin()
        passages = Quotable([context.text for context in interaction.contexts])
        case = Case.of(interaction, self._input_tokens, self._pieces)
        hearing = JudgeSession(self._call, self._prompt, case, passages)
        try:
            hearing.hear(spent)
        except JudgeError as error:
            error.context |= hearing.details() | self._bill(spent)
            raise
        whole = hearing.whole
        assert whole is not None
        claims = tuple(
            _claim(text, hearing.rows[number], passages)
            for number, text in hearing.sentences.items()
        )
        refused = _only_declines(whole, claims)
        wrong = _wrong_refusal(whole, claims, passages) if refused else ()
        return Judgement(
            claims=wrong or claims,
            declined_rightly=refused and not wrong,
            claims_not_judged=hearing.sentences_left_out,
            relevance=_ANSWERED[whole.answered],
            relevance_reason=_relevance_reason(whole),
            details=hearing.details() | self._details(spent),
            notes=hearing.notes(),
            model=spent.model,
            duration_ms=spent.duration_ms,
            cost_usd=self._cost_usd(spent),
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _cost_usd(self, spent: Spent) -> float | None:
        return self._prices.cost_usd(
            self._billed(spent), spent.input_tokens, spent.output_tokens, spent.cached_tokens
        )

    def _billed(self, spent: Spent) -> str:
        return self._prices.known_as(spent.model, self._model)

    def _details(self, spent: Spent) -> dict[str, Any]:
        """Put on record what the call used, beside tokens and cost."""
        unknown = None
        if self._cost_usd(spent) is None and spent.model:
            no_price = self._prices.unknown(self._billed(spent))
            unknown = no_price or "the endpoint does not count tokens"
        found: dict[str, Any] = {
            "cached_input_tokens": spent.cached_tokens,
            "prices_as_of": self._prices.as_of(self._billed(spent)) if spent.model else None,
            "tries_without_usage": spent.unanswered,
            "cost_unknown": unknown,
        }
        return {"tries": spent.tries} | {key: value for key, value in found.items() if value}

    def _bill(self, spent: Spent) -> dict[str, Any]:
        """List what a failed call used, as far as it is known."""
        bill = {
            "duration_ms": spent.duration_ms,
            "model": spent.model,
            "input_tokens": spent.input_tokens if spent.model else None,
            "output_tokens": spent.output_tokens if spent.model else None,
            "cost_usd": self._cost_usd(spent),
        }
        known = {name: value for name, value in bill.items() if value is not None}
        return self._details(spent) | known


def _claim(text: str, row: VerdictRow, passages: Quotable) -> Claim:
    quote = (row.quote or "").strip()
    index = passages.find(quote)
    verdict = Verdict(row.verdict)
    missing = storable(row.unsupported, _MAX_REASON_CHARS)
    reason = f"not carried: {missing}" if missing else ""
    if verdict is Verdict.SUPPORTED and index is None:
        verdict = Verdict.UNVERIFIED
        reason = _NOT_PROVEN if quote else "the judge gave no quote"
    return Claim(
        text=text,
        verdict=verdict,
        support=float(verdict is Verdict.SUPPORTED),
        evidence=storable(quote, _MAX_QUOTE_CHARS) if index is not None else None,
        context_index=index,
        reason=reason,
    )


def _only_declines(reply: JudgeReply, claims: Sequence[Claim]) -> bool:
    """Say whether there were passages, and the output states nothing and declines to answer."""
    silent = all(claim.verdict is Verdict.NO_CLAIM for claim in claims)
    return bool(claims) and silent and reply.answered == "refusal"


def _wrong_refusal(
    reply: JudgeReply, claims: Sequence[Claim], passages: Quotable
) -> tuple[Claim, ...]:
    """Make a claim of a refusal, if the passages hold the answer; nothing if they do not."""
    quote = (
        reply.answered_reason.strip()
    )  # of a refusal; a reason in words of its own proves nothing
    index = passages.find(quote)
    if index is None:
        return ()
    claim = replace(
        claims[0],
        verdict=Verdict.CONTRADICTED,
        evidence=storable(quote, _MAX_QUOTE_CHARS),
        context_index=index,
        reason="it declines to answer, but the passages hold the answer",
    )
    return (claim, *claims[1:])


def _relevance_reason(reply: JudgeReply) -> str:
    head = _ANSWERED_REASON[reply.answered]
    reason = storable(reply.answered_reason, _MAX_REASON_CHARS)
    return f"{head}: {reason}" if reason else f"{head}."
