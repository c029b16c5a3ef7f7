"""What people see of alerts: incidents, their timeline, and what became of each message."""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field


class Severity(StrEnum):
    """How bad an incident is."""

    WARNING = "warning"
    CRITICAL = "critical"


_BY_LEVEL = {Severity.WARNING: 0, Severity.CRITICAL: 1}


class AlertEvent(StrEnum):
    """Something that happened to an incident; each has a line in its timeline."""

    FIRED = "fired"
    ESCALATED = "escalated"
    DEESCALATED = "deescalated"  #: on the timeline, but not sent
    REPEATED = "repeated"  #: a reminder that it still goes on
    RESOLVED = "resolved"
    SETTLED = "settled"  #: it was flapping, and is stable again
    JOINED = "joined"  #: another metric of the same incident fires
    UNSILENCED = "unsilenced"  #: its silence ended, and it still fires


#: The event of a periodic digest; it belongs to no incident and has no line in a timeline.
DIGEST: Final = "digest"


class DeliveryStatus(StrEnum):
    """Where a message is on its way to one recipient."""

    WAITING = "waiting"  #: not sent yet, or to be tried again
    SENT = "sent"  #: the other side said that it has it
    ACCEPTED = "accepted"  #: taken, but the other side cannot confirm delivery
    MERGED = "merged"  #: a newer message, sent in its place, covers this one
    DEAD = "dead"  #: given up; ``error_code`` says why
    DROPPED = "dropped"  #: given up, and dismissed by a person


#: How the id of a drill's incident begins.
DRILL_ID = "drill-"


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Alert(_View):
    """One time range in which one app and metric was not well, from fired to resolved."""

    incident_id: str
    app: str
    metric: str
    segment: str
    window_s: int = Field(gt=0)
    level: Severity = Field(description="The level now, or the last one when resolved.")
    peak_level: Severity = Field(description="The worst level it had.")
    since: AwareDatetime = Field(description="When the breach began; earlier than `opened_at`.")
    opened_at: AwareDatetime = Field(description="When it fired.")
    updated_at: AwareDatetime
    resolved_at: AwareDatetime | None = None
    sequence: int = Field(ge=1, description="Number of events so far.")
    group_id: str | None = Field(None, description="The incident that it is part of.")
    silenced_by: str | None = Field(
        None,
        description="The silence that applies to it now.",
        # Its name in the table, and in documents of releases before 0.2.
        validation_alias=AliasChoices("silenced_by", "hushed_by"),
    )
    closed_as: str | None = Field(
        None,
        description="Why it ended without a recovery: `superseded`, `no_longer_evaluated` or"
        " `expired_no_data`.",
    )

    @property
    def is_open(self) -> bool:
        """Whether it still goes on."""
        return self.resolved_at is None

    @property
    def is_drill(self) -> bool:
        """Whether somebody tried the alerts out, and nothing was wrong."""
        return self.incident_id.startswith(DRILL_ID)


class Incident(Alert):
    """
    What people handle: the alerts of one app that fire together, or of apps with a common cause.

    The fields cover all its alerts, from the first that fired to the last that ended;
    `metric`, `segment` and `window_s` are those of the worst alert.
    """

    alerts: tuple[Alert, ...] = Field((), description="Its alerts, the first to fire first.")

    @classmethod
    def of(cls, alerts: Sequence[Alert]) -> Self:
        """Return the incident that *alerts*, one or more of the same group, make up."""
        going_on = [alert for alert in alerts if alert.is_open]
        lead = max(going_on or alerts, key=lambda a: (_BY_LEVEL[a.level], _BY_LEVEL[a.peak_level]))
        updated_at = max(alert.updated_at for alert in alerts)
        last = max(alerts, key=lambda alert: alert.resolved_at or updated_at)
        silenced = all(alert.silenced_by for alert in going_on)
        return cls(
            incident_id=lead.group_id or lead.incident_id,
            **lead.model_dump(
                include={"app", "metric", "segment", "window_s", "level", "group_id"}
            ),
            peak_level=max((alert.peak_level for alert in alerts), key=_BY_LEVEL.__getitem__),
            since=min(alert.since for alert in alerts),
            opened_at=min(alert.opened_at for alert in alerts),
            updated_at=updated_at,
            resolved_at=None if going_on else last.resolved_at,
            sequence=sum(alert.sequence for alert in alerts),
            silenced_by=lead.silenced_by if silenced else None,
            closed_as=None if going_on else last.closed_as,
            alerts=tuple(sorted(alerts, key=lambda a: (a.opened_at, a.app, a.metric, a.segment))),
        )

    def narrowed(self, apps: Container[str]) -> Self | None:
        """Return the incident as far as it is about these apps; None if it is about others."""
        left = [alert for alert in self.alerts if alert.app in apps]
        whole = len(left) == len(self.alerts)
        return (self if self.app in apps else None) if whole else self.of(left) if left else None

    @property
    def apps(self) -> list[str]:
        """The apps of its alerts, that of the worst first."""
        return list(dict.fromkeys((self.app, *(alert.app for alert in self.alerts))))

    @property
    def metrics(self) -> list[str]:
        """The metrics of its alerts, that of the worst first."""
        return list(dict.fromkeys((self.metric, *(alert.metric for alert in self.alerts))))


class TimelineEvent(_View):
    """One line of an incident's timeline, with the evidence it rested on."""

    incident_id: str
    sequence: int = Field(ge=1)
    event: AlertEvent
    level: Severity
    previous_level: Severity | None = None
    reason: str
    at: AwareDatetime
    app: str
    metric: str
    segment: str
    window_s: int = Field(gt=0)
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)
    low: float | None = Field(None, ge=0.0, le=1.0)
    high: float | None = Field(None, ge=0.0, le=1.0)
    n: int = Field(ge=0)


class Delivery(_View):
    """One message to one recipient, and how far it has come."""

    delivery_id: str
    incident_id: str
    sequence: int = Field(ge=1)
    event: AlertEvent | Literal["digest"]
    channel: str
    recipient: str = Field(description="An email address; empty for a channel with one place.")
    status: DeliveryStatus
    attempts: int = Field(ge=0)
    created_at: AwareDatetime
    due_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    error_code: str | None = Field(None, description="Why the last attempt failed.")
    possible_duplicate: bool = Field(
        False, description="An earlier attempt may have arrived; it had the same delivery id."
    )
    merged_into: str | None = Field(None, description="The delivery that was sent in its place.")
    fallback: str | None = Field(None, description="The channel that is used if this one fails.")


class ChannelHealth(_View):
    """What is known of how a channel does."""

    channel: str
    paused_until: AwareDatetime | None = Field(None, description="It asked callers to wait.")
    last_success_at: AwareDatetime | None = None
    last_failure_at: AwareDatetime | None = None
    last_error_code: str | None = None
