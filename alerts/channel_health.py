"""How each channel does: last success, last failure, and until when it asked to be left alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql, sqlite

from monitor.store.alert_tables import alert_channels


def note_success(connection: Connection, channel: str, now: datetime) -> None:
    """Write down that the channel took a message."""
    _note(connection, channel, {"last_success_at": now})


def note_failure(
    connection: Connection, channel: str, now: datetime, code: str, paused_until: datetime | None
) -> None:
    """Write down that the channel refused a message, and how long it wants to be left alone."""
    values: dict[str, Any] = {"last_failure_at": now, "last_error_code": code}
    if paused_until is not None:
        values["paused_until"] = paused_until
    _note(connection, channel, values)


def paused(now: datetime) -> Select[Any]:
    """Select the names of the channels that may not be used yet."""
    return select(alert_channels.c.channel).where(alert_channels.c.paused_until > now)


def _note(connection: Connection, channel: str, values: dict[str, Any]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(alert_channels).values(channel=channel, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["channel"], set_=values))
