"""What people see of alerts: incidents, their timeline, and what became of each message."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field


class Severity(StrEnum):
    """How bad an incident is."""

    WARNING = "warning"
    CRITICAL = "critical"


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


class Incident(_View):
    """One stretch of time in which one app and metric was not well, from fired to resolved."""

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
    group_id: str | None = Field(None, description="The incidents told with it share this.")
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
    paused_until: AwareDatetime | None = Field(None, description="It asked to be left alone.")
    last_success_at: AwareDatetime | None = None
    last_failure_at: AwareDatetime | None = None
    last_error_code: str | None = None
