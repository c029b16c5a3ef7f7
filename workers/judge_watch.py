"""Watch the judge for the monitor's own blindness: it is away, or its budget is reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import redis

from monitor.errors import QueueUnavailableError
from monitor.report.words import duration
from monitor.scoring.fleet import endpoint_name
from monitor.scoring.spending.away import Absence
from monitor.scoring.spending.budget import Budget, Charge, caps_from
from monitor.settings import Settings


class Found(NamedTuple):
    """What people must know of the judge: what makes the monitor blind, and what does not."""

    trouble: str | None = None
    note: str | None = None
    away: str | None = None  #: why the judge answers nobody
    budget: str | None = None  #: which cap is reached, and for how long


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWatch:
    """Looks at what the workers have told each other of the judge."""

    absence: Absence | None
    budget: Budget | None
    local_goes_on: bool  #: samples are scored locally when a budget is reached

    @classmethod
    def make(cls, settings: Settings, client: redis.Redis) -> Self:
        """Watch the judge of the settings; a scorer without one is never in trouble."""
        caps = caps_from(settings)
        if settings.scorer not in ("judge", "cascade"):
            return cls(absence=None, budget=None, local_goes_on=True)
        return cls(
            absence=Absence(client, endpoint_name(settings)),
            budget=Budget(client, caps) if caps else None,
            local_goes_on=settings.budget_policy == "local",
        )

    def look(self) -> Found:
        """Say what is the matter now; a Redis that is away is for others to tell."""
        try:
            away = self.absence.look() if self.absence is not None else None
            charges = self.budget.charges() if self.budget is not None else []
        except QueueUnavailableError:
            return Found()
        reached = next((charge for charge in charges if charge.reached), None)
        budget = None if reached is None else f"{reached.words} is reached {_until(reached)}"
        if away is not None:
            reason = away.reason
            return Found(trouble=f"judge away: {reason}", away=reason, budget=budget)
        if reached is None:
            return Found()
        said, until = f"{reached.words} is reached", _until(reached)
        if self.local_goes_on:
            return Found(note=f"{said}: local scores only {until}", budget=budget)
        return Found(trouble=f"{said}: samples are skipped {until}", budget=budget)


def _until(charge: Charge) -> str:
    """Say how long, and which setting makes it shorter."""
    setting = f"GROUNDWATCH_BUDGET_USD_PER_{charge.cap.period.upper()}"
    return f"for the next {duration(charge.left_s)}; {setting} raises it"
