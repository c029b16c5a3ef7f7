"""What is remembered of an alert between two evaluations; pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from alerts.evidence import AlertKey, Basis, Evidence, Run
from monitor.models.alerting import Level


class Phase(StrEnum):
    """What people have been told, and what they are about to be told."""

    OK = "ok"
    PENDING = "pending"  #: bad, but not for long enough yet
    FIRING = "firing"
    RECOVERING = "recovering"  #: firing and healthy again, but not for long enough yet


class Reason(StrEnum):
    """Why a step ended as it did."""

    NOT_NEWER = "not_newer"
    UNCERTAIN = "uncertain"
    STILL_HEALTHY = "still_healthy"
    PENDING = "pending"
    CLEARED_WHILE_PENDING = "cleared_while_pending"
    BREACH_HELD = "breach_held"
    REOPENED = "reopened"
    STILL_FIRING = "still_firing"
    CRITICAL_HELD = "critical_held"
    CRITICAL_CLEARED = "critical_cleared"
    REPEAT_DUE = "repeat_due"
    RECOVERING = "recovering"
    RELAPSED = "relapsed"
    HEALTHY_HELD = "healthy_held"
    NO_NEWS_STILL_FIRING = "no_news_still_firing"
    NO_LONGER_EVALUATED = "no_longer_evaluated"
    EXPIRED_NO_DATA = "expired_no_data"
    SUPERSEDED = "superseded"
    STABLE_AGAIN = "stable_again"


#: Why an incident may end without anything having recovered.
CLOSED = frozenset({Reason.NO_LONGER_EVALUATED, Reason.EXPIRED_NO_DATA, Reason.SUPERSEDED})


class Told(BaseModel):
    """A message that people got: when, and about which level."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: AwareDatetime
    level: Level


class AlertState(BaseModel):
    """
    All that is remembered of a key between two evaluations; survives JSON unchanged.

    After an incident was resolved its fields stay until the next one fires. One that is
    reopened keeps its id and goes on counting; the other fields are those of what fires now.
    """

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    key: AlertKey
    phase: Phase = Phase.OK
    phase_since: AwareDatetime | None = None
    reason: Reason | None = None  #: why the phase or the level changed last
    level: Level | None = None
    peak: Level | None = None
    # what the last evaluations said
    seen_at: AwareDatetime | None = None
    seen_n_total: int | None = None
    seen: Evidence | None = None
    basis: Basis | None = None  #: by what the last evaluation was judged
    bad: Run | None = None
    critical: Run | None = None
    not_critical: Run | None = None
    healthy: Run | None = None
    stale_since: AwareDatetime | None = None  #: firing, and nothing is known since
    no_data_since: AwareDatetime | None = None  #: the same, though the monitor sees
    # the incident
    incident_id: str | None = None
    status_before: Evidence | None = None
    breach_since: AwareDatetime | None = None
    opened_at: AwareDatetime | None = None
    resolved_at: AwareDatetime | None = None  #: it may be reopened; None when it may not
    sequence: int = 0
    last_notified_at: AwareDatetime | None = None
    # flapping
    told: tuple[Told, ...] = ()  #: what people were told in the last day
    onsets: tuple[AwareDatetime, ...] = ()  #: when it began in the last day
    quiet_since: AwareDatetime | None = None  #: flapping, and people are left in peace
    quiet_peak: Level | None = None  #: the worst level they know of
    quiet_onsets: int = 0  #: how often it began, all in all, when they hear of it next

    def but(self, **changes: Any) -> Self:
        """Copy the state with some fields changed."""
        return self.model_copy(update=changes)
