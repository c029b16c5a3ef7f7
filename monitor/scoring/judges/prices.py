"""What a judge's tokens cost."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices given by the settings, in US dollars a million tokens; None: the built-in table."""

    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None

    def cost_usd(
        self, model: str | None, input_tokens: int | None, output_tokens: int | None
    ) -> float | None:
        """Price a call; None, never 0, when the model's price or the tokens are unknown."""
        known = _table().get(_DATED.sub("", model or ""), {})
        given = self.usd_per_million_input, self.usd_per_million_output
        price_in = known.get("input") if given[0] is None else given[0]
        price_out = known.get("output") if given[1] is None else given[1]
        if price_in is None or price_out is None or input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * price_in + output_tokens * price_out) / _MILLION


@cache
def _table() -> dict[str, dict[str, float]]:
    text = resources.files("monitor.scoring.judges").joinpath("prices.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    models: dict[str, dict[str, float]] = data["models"]
    return models
