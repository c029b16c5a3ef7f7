"""All criteria of all metrics in one structured call to an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from monitor.errors import JudgeError
from monitor.models import Interaction
from monitor.scoring.declaration import Criterion, Reply
from monitor.scoring.judges.criteria_case import CriteriaCase, reference_of
from monitor.scoring.judges.criteria_reply import SCHEMA
from monitor.scoring.judges.judge_session import CriteriaHearing
from monitor.scoring.judges.openai_call import ChatCall, Patience, Spent
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.openai_judge import (
    USUAL_INPUT_TOKENS,
    endpoint_mark,
    model_name,
    sent_mark,
)
from monitor.scoring.judges.prices import Prices
from monitor.scoring.prompts import load_prompt
from monitor.scoring.spending.meter import Meter
from monitor.settings import Settings

PROMPT = "criteria.v2"


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
        input_tokens: int = USUAL_INPUT_TOKENS,
        meter: Meter | None = None,
    ) -> None:
        patience = patience or Patience()
        self._client = SharedClient(api_key, base_url, patience.timeout_s)
        self._call = ChatCall(self._client, model, patience, meter, SCHEMA)
        self._model = model
        self._prices = prices or Prices()
        self._prompt = load_prompt(PROMPT)
        self._input_tokens = input_tokens
        where = f"{model_name(model)}{endpoint_mark(base_url)}"
        sent = sent_mark(input_tokens)
        self.version = f"criteria-{where}-{PROMPT.rpartition('.')[2]}{sent}"

    @classmethod
    def from_settings(cls, settings: Settings, *, meter: Meter | None = None) -> Self:
        """Make the one that the settings describe; *meter* counts its attempts."""
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
        reference = reference_of(interaction)
        case = CriteriaCase.of(interaction, fields, reference, self._input_tokens)
        hearing = CriteriaHearing(self._call, self._prompt, case)
        spent = self._call.begin()
        try:
            found = hearing.hear(tuple(criteria), spent)
        except JudgeError as error:
            error.context |= hearing.details() | self._bill(spent)
            raise
        return Reply(
            answers=hearing.case.answers(found, reference),
            duration_ms=spent.duration_ms,
            cost_usd=self._cost_usd(spent),
            details=hearing.details()
            | {
                "model": spent.model,
                "input_tokens": spent.input_tokens,
                "output_tokens": spent.output_tokens,
                "criteria_asked": len(criteria),
            }
            | self._priced(spent),
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

    def _priced(self, spent: Spent) -> dict[str, Any]:
        found = {
            "cached_input_tokens": spent.cached_tokens,
            "prices_as_of": self._prices.as_of(self._billed(spent)) if spent.model else None,
        }
        return {key: value for key, value in found.items() if value}

    def _bill(self, spent: Spent) -> dict[str, Any]:
        bill = {
            "tries": spent.tries,
            "duration_ms": spent.duration_ms,
            "input_tokens": spent.input_tokens if spent.model else None,
            "output_tokens": spent.output_tokens if spent.model else None,
            "cost_usd": self._cost_usd(spent),
        }
        return {name: value for name, value in bill.items() if value is not None}
