"""The judge behind an OpenAI-compatible endpoint: one structured call, quotes verified."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, Self

from monitor.errors import JudgeError
from monitor.models import Interaction
from monitor.scoring.base import Claim, Judgement, Verdict
from monitor.scoring.claims import MOST_SENTENCES
from monitor.scoring.judges.openai_call import ChatCall, Patience, Spent
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.prices import Prices
from monitor.scoring.judges.quotes import Quotable
from monitor.scoring.judges.reply import JudgeReply, VerdictRow, read_reply
from monitor.scoring.prompts import load_prompt
from monitor.scoring.sentences import split_sentences
from monitor.scoring.spending.meter import Meter
from monitor.scoring.unicode import storable
from monitor.settings import Settings

PROMPT = "judge.v1"
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
_LONGEST_NAME = 150  # the column of evaluator_version holds 200


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
        meter: Meter | None = None,
    ) -> None:
        patience = patience or Patience()
        self._client = SharedClient(api_key, base_url, patience.timeout_s)
        self._call = ChatCall(self._client, model, patience, meter)
        self._prices = prices or Prices()
        self._prompt = load_prompt(PROMPT)
        self.version = f"judge-{_name(model)}-{PROMPT.rpartition('.')[2]}"

    @classmethod
    def from_settings(cls, settings: Settings, *, meter: Meter | None = None) -> Self:
        """Make the judge that the settings describe; *meter* counts its attempts."""
        key = settings.openai_api_key
        return cls(
            settings.judge_model,
            api_key=key.get_secret_value() if key else None,
            base_url=settings.openai_base_url,
            patience=Patience(attempts=settings.judge_attempts, timeout_s=settings.judge_timeout_s),
            prices=Prices(
                settings.judge_usd_per_million_input_tokens,
                settings.judge_usd_per_million_output_tokens,
            ),
            meter=meter,
        )

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge all metrics with one call, or raise a ``JudgeError`` that says what it cost."""
        started = time.perf_counter()
        contexts = [c.text for c in interaction.contexts if c.text.strip()]
        found = split_sentences(interaction.output) or (interaction.output.strip(),)
        sentences = found[:MOST_SENTENCES]
        expected = len(sentences) if contexts else 0
        spent = Spent()
        try:
            reply = self._call.ask(
                self._messages(interaction.query or "", contexts, sentences),
                expected,
                lambda content: read_reply(content, expected),
                spent,
            )
        except JudgeError as error:
            error.context |= self._bill(spent, started)
            raise
        passages = Quotable([c.text for c in interaction.contexts])
        return Judgement(
            claims=tuple(
                _claim(text, row, passages)
                for text, row in zip(sentences, reply.verdicts, strict=False)
            ),
            claims_not_judged=len(found) - len(sentences) if contexts else 0,
            relevance=_ANSWERED[reply.answered],
            relevance_reason=_relevance_reason(reply),
            model=spent.model,
            duration_ms=(time.perf_counter() - started) * 1000,
            cost_usd=self._cost_usd(spent),
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _messages(
        self, query: str, contexts: list[str], sentences: tuple[str, ...]
    ) -> list[dict[str, str]]:
        data = {
            "query": query,
            "contexts": _numbered(contexts),
            "sentences": _numbered(sentences),
        }
        return [
            {"role": "system", "content": self._prompt},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]

    def _cost_usd(self, spent: Spent) -> float | None:
        return self._prices.cost_usd(spent.model, spent.input_tokens, spent.output_tokens)

    def _bill(self, spent: Spent, started: float) -> dict[str, Any]:
        """List what a failed call used, as far as it is known."""
        bill = {
            "tries": spent.tries,
            "duration_ms": (time.perf_counter() - started) * 1000,
            "model": spent.model,
            "input_tokens": spent.input_tokens if spent.model else None,
            "output_tokens": spent.output_tokens if spent.model else None,
            "cost_usd": self._cost_usd(spent),
        }
        return {name: value for name, value in bill.items() if value is not None}


def _numbered(texts: list[str] | tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"number": number, "text": text} for number, text in enumerate(texts, start=1)]


def _claim(text: str, row: VerdictRow, passages: Quotable) -> Claim:
    quote = (row.quote or "").strip()
    index = passages.find(quote)
    verdict = Verdict(row.verdict)
    missing = storable(row.unsupported or "", _MAX_REASON_CHARS)
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


def _relevance_reason(reply: JudgeReply) -> str:
    head = _ANSWERED_REASON[reply.answered]
    reason = storable(reply.answered_reason, _MAX_REASON_CHARS)
    return f"{head}: {reason}" if reason else f"{head}."


def _name(model: str) -> str:
    """Shorten a model's name for the version; different models keep different names."""
    name = storable(model, _LONGEST_NAME)
    if name == model:
        return name
    return f"{name}~{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"
