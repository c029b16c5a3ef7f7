"""What a judge's tokens cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import SettingsError, first_mistake
from monitor.settings import Settings, variable

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_MILLION = 1_000_000

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """What one model costs, in US dollars a million tokens; cached input may cost less."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Usd
    output: Usd
    cached: Usd | None = None


class _Table(BaseModel):
    """A table of prices by model, and of which month they are, if it says so."""

    model_config = ConfigDict(extra="ignore")

    as_of: str = ""
    models: dict[str, Price]


_BUILT_IN = _Table.model_validate_json(
    resources.files("monitor.scoring.judges").joinpath("prices.json").read_text("utf-8")
)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of models: those given for all, else the user's own, else the built-in table."""

    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    own: Mapping[str, Price] = field(default_factory=dict)
    own_as_of: str = ""  #: of which month they are, if their file says so

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """
        Read the prices that the settings give or name.

        Raises
        ------
        SettingsError
            If the file of prices cannot be read or is not as it should be.
        """
        given, own, bare = settings.judge_prices, _Table(models={}), False
        try:
            if given.prices:
                found = json.loads(given.prices.read_bytes())
                bare = not isinstance(found, dict) or "as_of" not in found
                own = _Table.model_validate({"models": found} if bare else found)
        except OSError as error:
            raise SettingsError(
                f"{variable('prices')}: cannot read {given.prices}: {error.strerror}"
            ) from None
        except (ValueError, RecursionError) as error:
            place, what = "the file", "Invalid JSON"
            if isinstance(error, ValidationError):
                key, what = first_mistake(error)
                place = (key.removeprefix("models").lstrip(".") if bare else key) or place
            raise SettingsError(
                f"{variable('prices')}: {given.prices}: {place}: {what}; a line is"
                ' {"my-model": {"input": 0.4, "cached": 0.1, "output": 1.6}}, US dollars a million'
                " tokens"
            ) from None
        return cls(
            given.judge_usd_per_million_input_tokens,
            given.judge_usd_per_million_output_tokens,
            own.models,
            own.as_of,
        )

    def cost_usd(
        self,
        model: str | None,
        input_tokens: int | None,
        output_tokens: int | None,
        cached_tokens: int = 0,
    ) -> float | None:
        """
        Price a call; None, never 0, when the model's price or the tokens are unknown.

        *cached_tokens* are part of *input_tokens*; they cost the full price where no other
        is known.
        """
        price = self._price(model)
        if price is None or input_tokens is None or output_tokens is None:
            return None
        cached = price.input if price.cached is None else price.cached
        total = (input_tokens - cached_tokens) * price.input
        total += cached_tokens * cached + output_tokens * price.output
        return total / _MILLION

    def known_as(self, answered: str | None, asked: str) -> str:
        """
        Choose the name by which a call is priced: the user's own table comes first.

        Endpoints may answer under another name than they are *asked* by, such as that of a
        file, or under none. Without a word of the user it may as well be another model.
        """
        names = [name for name in (answered, asked) if name]
        return next((name for name in names if _in(self.own, name) is not None), names[0])

    def unknown(self, model: str | None) -> str | None:
        """Return what to do when there is no price for *model*; None when there is one."""
        if self._price(model) is not None:
            return None
        return f"no price for {model}: put it into the file that {variable('prices')} names"

    def as_of(self, model: str | None) -> str | None:
        """Return the month of the price of *model*; None where none is known."""
        if (self.usd_per_million_input, self.usd_per_million_output) != (None, None):
            return None
        return self._listed(model)[1] or None

    def _listed(self, model: str | None) -> tuple[Price | None, str]:
        name = model or ""
        for table, as_of in ((self.own, self.own_as_of), (_BUILT_IN.models, _BUILT_IN.as_of)):
            price = _in(table, name)
            if price is not None:
                return price, as_of
        return None, ""

    def _price(self, model: str | None) -> Price | None:
        listed, _ = self._listed(model)
        given = self.usd_per_million_input, self.usd_per_million_output
        if given == (None, None):
            return listed
        price_in = given[0] if given[0] is not None or listed is None else listed.input
        price_out = given[1] if given[1] is not None or listed is None else listed.output
        if price_in is None or price_out is None:
            return None
        cached = listed.cached if listed is not None and given[0] is None else None
        return Price(input=price_in, output=price_out, cached=cached)


def _in(table: Mapping[str, Price], name: str) -> Price | None:
    return table.get(name) or table.get(_DATED.sub("", name))
