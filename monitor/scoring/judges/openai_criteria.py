"""All criteria of all metrics in one structured call to an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from monitor.errors import JudgeError
from monitor.models import Interaction
from monitor.scoring.asker import Reply
from monitor.scoring.claims import MOST_SENTENCES
from monitor.scoring.declaration import Answer, Answers, Criterion, Form, lookup
from monitor.scoring.judges.criteria_reply import SCHEMA, read_answers
from monitor.scoring.judges.openai_call import ChatCall, Patience, Spent
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.prices import Prices
from monitor.scoring.judges.question import seed_of
from monitor.scoring.prompts import load_prompt
from monitor.scoring.sentences import split_sentences
from monitor.scoring.spending.meter import Meter
from monitor.settings import Settings

PROMPT = "criteria.v1"
_MOST_CHARS = 60_000  # of all passages together
_MOST_TEXT_CHARS = 20_000  # of the query, and of all else that is not split
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One request; it cannot be asked for less, so it is never squeezed."""

    messages: list[dict[str, str]]
    asked: tuple[Criterion, ...]
    most: dict[Form, int]
    seed: int
    squeezed: int = 0

    def read(self, content: str) -> dict[str, Answer]:
        """Read the answer, or raise a ``JudgeReplyError``."""
        return read_answers(content, self.asked, self.most)


class OpenAICriteria:
    """Asks an LLM every question about an interaction at once."""

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
        self._call = ChatCall(self._client, model, patience, meter, SCHEMA)
        self._prices = prices or Prices()
        self._prompt = load_prompt(PROMPT)
        self.version = f"criteria-{model[:_LONGEST_NAME]}-{PROMPT.rpartition('.')[2]}"

    @classmethod
    def from_settings(cls, settings: Settings, *, meter: Meter | None = None) -> Self:
        """Make the one that the settings describe; *meter* counts its attempts."""
        key = settings.openai_api_key
        return cls(
            settings.judge_model,
            api_key=key.get_secret_value() if key else None,
            base_url=settings.openai_base_url,
            patience=Patience(attempts=settings.judge_attempts, timeout_s=settings.judge_timeout_s),
            prices=Prices.from_settings(settings),
            meter=meter,
        )

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """
        Answer all criteria with one call.

        Only *fields* are sent: what no metric needs costs no tokens.

        Raises
        ------
        JudgeError
            If there is no usable answer; it says what the tries cost.
        """
        sentences = split_sentences(interaction.output)[:MOST_SENTENCES]
        sentences = sentences or (interaction.output.strip(),)
        reference = _reference(interaction)
        data, cut = _data(interaction, fields, sentences, reference)
        most = {
            Form.SENTENCES: len(sentences),
            Form.PASSAGES: len(interaction.contexts),
            Form.REFERENCE: len(reference),
        }
        spent = self._call.begin()
        question = _Question(
            messages=self._messages(data, criteria),
            asked=tuple(criteria),
            most=most,
            seed=seed_of(interaction.id),
        )
        try:
            found = self._call.ask(lambda: question, spent)
        except JudgeError as error:
            error.context |= self._bill(spent)
            raise
        return Reply(
            answers=Answers(
                by_name=found,
                sentences=sentences,
                passages=len(interaction.contexts),
                reference=reference,
            ),
            duration_ms=spent.duration_ms,
            cost_usd=self._cost_usd(spent),
            details={
                "model": spent.model,
                "input_tokens": spent.input_tokens,
                "output_tokens": spent.output_tokens,
                "criteria_asked": len(criteria),
            }
            | ({"passages_cut": cut} if cut else {}),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _messages(
        self, data: dict[str, Any], criteria: Sequence[Criterion]
    ) -> list[dict[str, str]]:
        asked = [{"name": c.name, "form": c.form.value, "question": c.question} for c in criteria]
        message = json.dumps({"criteria": asked, "data": data}, ensure_ascii=False)
        return [
            {"role": "system", "content": self._prompt},
            {"role": "user", "content": message},
        ]

    def _cost_usd(self, spent: Spent) -> float | None:
        return self._prices.cost_usd(
            spent.model, spent.input_tokens, spent.output_tokens, spent.cached_tokens
        )

    def _bill(self, spent: Spent) -> dict[str, Any]:
        bill = {
            "tries": spent.tries,
            "duration_ms": spent.duration_ms,
            "input_tokens": spent.input_tokens if spent.model else None,
            "output_tokens": spent.output_tokens if spent.model else None,
            "cost_usd": self._cost_usd(spent),
        }
        return {name: value for name, value in bill.items() if value is not None}


def _reference(interaction: Interaction) -> tuple[str, ...]:
    answer = lookup(interaction, "expected.answer")
    text = answer if isinstance(answer, str) else ""
    return split_sentences(text)[:MOST_SENTENCES] or ((text.strip(),) if text.strip() else ())


def _data(
    interaction: Interaction,
    fields: frozenset[str],
    sentences: Sequence[str],
    reference: Sequence[str],
) -> tuple[dict[str, Any], int]:
    """Gather what is sent, and count the passages that were cut."""
    roots = {path.partition(".")[0] for path in fields}
    passages, cut = _fitted([context.text for context in interaction.contexts])
    expected = {
        path.partition(".")[2]: lookup(interaction, path)
        for path in fields
        if path.startswith("expected.") and path != "expected.answer"
    }
    calls = [{"name": c.name, "arguments": c.arguments} for c in interaction.tool_calls]
    found: dict[str, Any] = {
        "query": (interaction.query or "")[:_MOST_TEXT_CHARS] if "query" in roots else "",
        "passages": _numbered(passages) if "contexts" in roots else [],
        "sentences": _numbered(sentences) if "output" in roots else [],
        "reference": _numbered(reference) if "expected.answer" in fields else [],
        "tool_calls": json.loads(json.dumps(calls, default=str)) if "tool_calls" in roots else [],
        "expected": json.loads(json.dumps(expected, default=str)),
    }
    return {name: value for name, value in found.items() if value}, cut


def _fitted(passages: Sequence[str]) -> tuple[list[str], int]:
    """Cut the longest passages so that all fit; each keeps at least its fair share."""
    room, left = _MOST_CHARS, len(passages)
    fitted = list(passages)
    for index in sorted(range(len(passages)), key=lambda i: len(passages[i])):
        fitted[index] = passages[index][: room // left]
        room, left = room - len(fitted[index]), left - 1
    return fitted, sum(len(a) < len(b) for a, b in zip(fitted, passages, strict=True))


def _numbered(texts: Sequence[str]) -> list[dict[str, object]]:
    return [{"number": number, "text": text} for number, text in enumerate(texts, start=1)]
