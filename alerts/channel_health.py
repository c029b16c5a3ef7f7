"""How each channel does: last success, last failure, and until when it asked to be left alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql, sqlite

from alerts.channels.base import Rate
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


def tokens(connection: Connection, channel: str, rate: Rate, now: datetime) -> float:
    """
    Say how many messages may go at once on a channel now.

    The bucket is kept in the store, so that all dispatchers draw from the same one.
    """
    row = connection.execute(
        select(alert_channels.c.tokens, alert_channels.c.tokens_at)
        .where(alert_channels.c.channel == channel)
        .with_for_update()
    ).first()
    if row is None or row.tokens is None or row.tokens_at is None:
        return rate.burst
    # A clock that was set back must not empty the bucket.
    passed_s = max(0.0, (now - row.tokens_at).total_seconds())
    return min(rate.burst, float(row.tokens + passed_s * rate.per_minute / 60))


def spend(connection: Connection, channel: str, left: float, now: datetime) -> None:
    """Note what is left in the bucket of a channel."""
    _note(connection, channel, {"tokens": left, "tokens_at": now})


def _note(connection: Connection, channel: str, values: dict[str, Any]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(alert_channels).values(channel=channel, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["channel"], set_=values))
