"""Tables of alerts: states, incidents, their timeline, the outbox, and the channels' health."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
    text,
)

from monitor.store.columns import BigInt, Json, UtcTime
from monitor.store.tables import metadata, required


def _key_columns(*, primary: bool) -> list[Column[Any]]:
    return [
        Column("app", String(200), primary_key=primary, nullable=False),
        Column("metric", String(200), primary_key=primary, nullable=False),
        Column("segment", String(200), primary_key=primary, nullable=False),
        Column("window_s", Integer, primary_key=primary, nullable=False, autoincrement=False),
    ]


#: One row a key; ``version`` is compared and set, so that of two deciders one wins.
alert_states = Table(
    "groundwatch_alert_states",
    metadata,
    *_key_columns(primary=True),
    *required(Integer, "version"),
    *required(String(20), "phase"),
    *required(Json, "state"),
    *required(UtcTime, "updated_at"),
)

incidents = Table(
    "groundwatch_incidents",
    metadata,
    Column("incident_id", String(32), primary_key=True),
    *_key_columns(primary=False),
    *required(String(20), "level", "peak_level"),
    *required(UtcTime, "since", "opened_at", "updated_at"),
    Column("resolved_at", UtcTime),
    *required(Integer, "sequence"),
    #: The group that it is notified with, and the silence that mutes it now.
    Column("group_id", String(32)),
    Column("hushed_by", String(64), key="silenced_by"),
    Index(None, "resolved_at"),
    Index(None, "opened_at"),
    Index(None, "group_id"),
)

#: Alerts that share one message: of one app, or with a common cause. Named after their first
#: incident; ``level`` and ``told_at`` are what people know.
alert_groups = Table(
    "groundwatch_alert_groups",
    metadata,
    Column("group_id", String(32), primary_key=True),
    *required(String(200), "app"),
    Column("cause", String(300)),
    *required(UtcTime, "opened_at"),
    Column("resolved_at", UtcTime),
    Column("level", String(20)),
    Column("told_at", UtcTime),
    *required(Integer, "sequence"),
    *required(Json, "flapping"),
    Column("acked_until", UtcTime),
    Column("acked_at", UtcTime),
    Column("acked_by", String(200)),
    Column("ack_note", String(500)),
    Index(None, "resolved_at"),
)

#: What people want to be left in peace about, and until when.
silences = Table(
    "groundwatch_silences",
    metadata,
    Column("silence_id", String(32), primary_key=True),
    *required(Json, "matchers"),
    *required(UtcTime, "starts_at", "ends_at"),
    *required(String(200), "author"),
    *required(String(1000), "comment"),
    *required(UtcTime, "created_at"),
    Index(None, "ends_at"),
)

#: The timeline: one row an event, with the evidence as it was when the event was decided.
alert_events = Table(
    "groundwatch_alert_events",
    metadata,
    Column("event_id", BigInt, primary_key=True, autoincrement=True),
    Column("incident_id", ForeignKey(incidents.c.incident_id), nullable=False),
    *required(Integer, "sequence"),
    *required(String(20), "event"),
    *required(UtcTime, "at"),
    *required(Json, "snapshot"),
    UniqueConstraint("incident_id", "sequence"),
)

#: One row a message and recipient. A lane is (incident, channel, recipient), in order of
#: ``sequence``; ``token`` grows with each claim, and only its holder may finish.
outbox = Table(
    "groundwatch_outbox",
    metadata,
    Column("delivery_id", String(32), primary_key=True),
    #: The incident or group, or the name of a digest: no foreign key.
    *required(String(32), "incident_id"),
    *required(Integer, "sequence"),
    *required(String(100), "channel"),
    *required(String(320), "recipient"),
    *required(String(20), "event", "level"),
    *required(Json, "snapshot"),
    *required(String(20), "status"),
    *required(Integer, "attempts", "token"),
    *required(UtcTime, "created_at", "due_at"),
    Column("lease_until", UtcTime),
    Column("finished_at", UtcTime),
    *required(String(100), "tells"),
    Column("error_code", String(100)),
    *required(Boolean, "possible_duplicate"),
    Column("merged_into", String(32)),
    #: The channel that gets the message too when this one fails; then it is emptied.
    Column("fallback", String(100)),
    #: What the other side calls the message, to answer or change it later.
    Column("remote_ref", String(300)),
    UniqueConstraint("incident_id", "channel", "recipient", "sequence"),
    Index(None, "status", "channel", "due_at"),
    Index(None, "finished_at"),
    # Who has had many messages lately, and what a message carries besides its own news.
    Index("ix_groundwatch_outbox_finished", "status", "channel", "finished_at"),
    Index(
        "ix_groundwatch_outbox_merged",
        "merged_into",
        sqlite_where=text("merged_into IS NOT NULL"),
        postgresql_where=text("merged_into IS NOT NULL"),
    ),
)

#: The periodic digests that were made: a name is written once, and with it its messages.
digests = Table(
    "groundwatch_digests",
    metadata,
    Column("name", String(40), primary_key=True),
    *required(UtcTime, "made_at"),
    *required(Integer, "messages"),
)

#: How each channel does; a row appears with the first delivery or failure.
alert_channels = Table(
    "groundwatch_alert_channels",
    metadata,
    Column("channel", String(100), primary_key=True),
    Column("paused_until", UtcTime),
    Column("last_success_at", UtcTime),
    Column("last_failure_at", UtcTime),
    Column("last_error_code", String(100)),
    #: The bucket of its rate: how many messages may go at once, as of when.
    Column("tokens", Float),
    Column("tokens_at", UtcTime),
)
