"""What all judges of one endpoint share through Redis: budget, pace, absence, verdicts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import redis

from monitor.errors import SettingsError
from monitor.scoring.spending.budget import Budget, BudgetWatch, caps_from
from monitor.scoring.spending.limiter import CircuitBreaker
from monitor.scoring.spending.meter import Price
from monitor.scoring.spending.pace import Pace
from monitor.scoring.spending.verdict_cache import KeptVerdicts
from monitor.settings import Settings, variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The shared parts; those that the settings leave out, or that need a Redis, are None."""

    client: redis.Redis | None = None
    budget: Budget | None = None
    watch: BudgetWatch | None = None
    kept: KeptVerdicts | None = None
    absence: CircuitBreaker | None = None
    pace: Pace | None = None
    price: Price | None = field(default=None, repr=False)


def make_fleet(settings: Settings, client: redis.Redis | None, price: Price) -> Fleet:
    """
    Make what is shared; nothing is contacted yet.

    Parameters
    ----------
    settings
        Budgets, cache and endpoint.
    client
        The Redis that all share; None for a run of its own.
    price
        Prices input and output tokens of the judge's model.

    Raises
    ------
    SettingsError
        If there is a budget and no Redis to keep it, or no price to keep it by.
    """
    caps = caps_from(settings)
    if caps and price(1, 1) is None:
        raise SettingsError(
            f"a budget is set and the price of {settings.judge_model} is not known: set"
            f" {variable('judge_usd_per_million_input_tokens')} and"
            f" {variable('judge_usd_per_million_output_tokens')}"
        )
    if client is None:
        if caps:
            raise SettingsError("a budget is set, and only a Redis can keep it")
        return Fleet(price=price)
    endpoint = endpoint_name(settings)
    longest_s = settings.judge_limits.judge_timeout_s
    budget = Budget(client, caps, longest_call_s=longest_s) if caps else None
    kept_s = settings.judge_limits.verdict_cache_s
    return Fleet(
        client=client,
        budget=budget,
        watch=BudgetWatch(budget) if budget else None,
        kept=KeptVerdicts(client, kept_s=kept_s) if kept_s else None,
        absence=CircuitBreaker(client, endpoint),
        pace=Pace(client, endpoint),
        price=price,
    )


def endpoint_name(settings: Settings) -> str:
    """Name the endpoint and model of the judge without telling either."""
    text = f"{settings.openai_base_url or ''}\0{settings.judge_model}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
