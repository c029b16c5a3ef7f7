"""What the state machine of alerts is fed with: keys, evidence, observations, timers; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from monitor.models.status import Status, Verdict


class AlertKey(NamedTuple):
    """What an alert is about."""

    app: str
    metric: str
    segment: str
    window_s: int

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Say what alert a verdict speaks of."""
        return cls(verdict.app, verdict.metric, verdict.segment, verdict.window_s)


class Evidence(StrEnum):
    """What an evaluation says, as far as alerts care."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    UNCERTAIN = "uncertain"  #: too little data, or the monitor does not see


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """
    How long something must hold, in seconds; 0 means at once.

    Unless its timer is 0, a conclusion also needs ``min_new_evaluations`` evaluations
    that saw new samples: reading the same window again proves nothing. A silence of
    more than ``max_gap_s`` between two evaluations starts all of them again.
    """

    warning_for_s: float
    critical_for_s: float
    resolve_after_s: float
    repeat_after_s: float  #: between reminders of what is critical
    warning_repeat_after_s: float = 86_400.0
    reopen_within_s: float = 1_800.0  #: what fires again so soon is the same incident
    abandon_after_s: float = 86_400.0  #: firing without any data for so long ends an incident
    settle_after_s: float = 28_800.0  #: healthy for so long ends flapping
    min_new_evaluations: int = 2
    max_gap_s: float = 300.0
    #: The same two for alerts about the monitor itself, where they differ.
    monitor_for_s: float | None = None
    monitor_resolve_after_s: float | None = None

    def of_monitor(self) -> Self:
        """Give the timers of alerts about the monitor itself."""
        for_s, after_s = self.monitor_for_s, self.monitor_resolve_after_s
        return replace(
            self,
            warning_for_s=self.warning_for_s if for_s is None else for_s,
            resolve_after_s=self.resolve_after_s if after_s is None else after_s,
        )


class Basis(BaseModel):
    """By what a status was judged; statuses on different bases are not compared."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    evaluator: str = ""
    policy: str = ""
    threshold: str = ""

    def differences(self, now: Basis) -> list[tuple[str, str, str]]:
        """List what changed until *now*: its name, what it was, and what it is."""
        before, after = self.model_dump(), now.model_dump()
        return [(name, before[name], after[name]) for name in before if before[name] != after[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One evaluation of a key."""

    evidence: Evidence
    at: datetime
    n_total: int
    blind: bool = False  #: uncertain because the monitor does not see
    basis: Basis | None = None  #: None when there is only one

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Read a verdict on data as evidence for an alert."""
        known = {Status.HEALTHY, Status.WARNING, Status.CRITICAL}
        evidence = Evidence(verdict.status.value if verdict.status in known else "uncertain")
        return cls(
            evidence=evidence,
            at=verdict.evaluated_at,
            n_total=verdict.n_total,
            blind=verdict.status is Status.BLIND,
        )


class Run(BaseModel):
    """For how long the evidence has been of one sort; uncertain evidence does not end a run."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    since: AwareDatetime
    informed: int  #: evaluations in the run that saw new samples
