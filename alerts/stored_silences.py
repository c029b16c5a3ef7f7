"""Silences in the store: add, list, end early."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from alerts.routing.matchers import Matcher, parse_all
from alerts.routing.silences import Silence
from monitor.errors import SettingsError
from monitor.store.alert_tables import silences

#: A silence that is meant to last for longer is one that somebody forgets.
LONGEST = timedelta(days=30)


def add_silence(
    connection: Connection,
    matchers: Sequence[Matcher],
    *,
    now: datetime,
    ends_at: datetime,
    author: str,
    comment: str,
    starts_at: datetime | None = None,
) -> Silence:
    """
    Write a silence down; it holds from the next evaluation on.

    Raises
    ------
    SettingsError
        If it matches everything by having no matcher, has no end within 30 days, or
        nobody says who wants it and why.
    """
    silence = Silence(
        hush_id=uuid.uuid4().hex[:8],
        matchers=tuple(matchers),
        starts_at=starts_at or now,
        ends_at=ends_at,
        author=author.strip(),
        comment=comment.strip(),
    )
    _check(silence, now)
    connection.execute(insert(silences), [_row(silence, now)])
    return silence


def expire_silence(connection: Connection, silence_id: str, now: datetime) -> bool:
    """End a silence now; say whether there was one to end."""
    ended = connection.execute(
        update(silences)
        .where(silences.c.silence_id == silence_id, silences.c.ends_at > now)
        .values(ends_at=now)
    )
    return ended.rowcount == 1


def silences_after(connection: Connection, moment: datetime) -> list[Silence]:
    """List the silences that end after *moment*, the first to end first."""
    query = select(silences).where(silences.c.ends_at > moment).order_by(silences.c.ends_at)
    return [_silence(row) for row in connection.execute(query)]


def silence_named(connection: Connection, silence_id: str) -> Silence | None:
    """Find a silence, over or not."""
    query = select(silences).where(silences.c.silence_id == silence_id)
    row = connection.execute(query).first()
    return None if row is None else _silence(row)


def _check(silence: Silence, now: datetime) -> None:
    if not silence.matchers:
        raise SettingsError("a silence needs a matcher, such as app=support-bot")
    if not silence.author or not silence.comment:
        raise SettingsError("a silence needs an author and a comment: who wants it, and why")
    if silence.ends_at <= max(now, silence.starts_at):
        raise SettingsError("the silence would end before it begins")
    if silence.ends_at - silence.starts_at > LONGEST:
        raise SettingsError(f"a silence may last {LONGEST.days} days at most")


def _row(silence: Silence, now: datetime) -> dict[str, Any]:
    return {
        "silence_id": silence.hush_id,
        "matchers": [str(matcher) for matcher in silence.matchers],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "author": silence.author[:200],
        "comment": silence.comment[:1000],
        "created_at": now,
    }


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        hush_id=row.silence_id,
        matchers=parse_all(row.matchers),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        author=row.author,
        comment=row.comment,
    )
