"""
Dead letters: entries of the queue that no worker could score.

Each is kept whole, with its reason, so that people can inspect it, retry it or drop it;
it counts as failed in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from monitor.errors import SettingsError
from monitor.store.engine import insert_new
from monitor.store.ledger import Entry, Kind, book
from monitor.store.tables import dead_letters, samples

DEAD, RETRYING, DROPPED = "dead", "retrying", "dropped"
_SHORTEST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One entry with what is known of it."""

    entry_id: str
    sample_id: str | None  #: None where it cannot be read
    app: str
    at: datetime
    reason: str
    detail: str
    body: bytes
    version: str = "1"
    state: str = DEAD


def set_aside(connection: Connection, items: Sequence[DeadLetter]) -> list[DeadLetter]:
    """
    Insert dead letters; return the new ones whose sample is not stored either.

    Those are for the caller to count as failed, in the same transaction.
    """
    ids = [item.sample_id for item in items if item.sample_id is not None]
    query = select(samples.c.sample_id).where(samples.c.sample_id.in_(ids))
    stored = set(connection.execute(query).scalars()) if ids else set()
    lost = {item.entry_id: item for item in items if item.sample_id not in stored}
    rows = [
        {
            "entry_id": item.entry_id,
            "app": item.app,
            "at_ms": round(item.at.timestamp() * 1000),
            "reason": item.reason,
            "detail": item.detail,
            "body": item.body,
            "version": item.version[:20],
            "sample_id": item.sample_id,
        }
        for _, item in sorted(lost.items())
    ]
    new = insert_new(connection, dead_letters, rows, returning=dead_letters.c.entry_id)
    return [lost[entry_id] for entry_id in sorted(new)]


def newest_dead_letters(connection: Connection, *, limit: int = 1000) -> Sequence[DeadLetter]:
    """List the entries that can be inspected, the newest first."""
    columns = dead_letters.c
    query = select(dead_letters).where(columns.state != DROPPED)
    rows = connection.execute(query.order_by(columns.at_ms.desc(), columns.entry_id).limit(limit))
    return [_dead_letter(row) for row in rows]


def find_dead_letter(connection: Connection, name: str) -> DeadLetter:
    """
    Find an entry by its id, or the beginning of it.

    Raises
    ------
    SettingsError
        If there is none of that name, or more than one.
    """
    columns = dead_letters.c
    begins = columns.entry_id.startswith(name, autoescape=True) & (columns.state != DROPPED)
    rows = connection.execute(select(dead_letters).where(begins).limit(2)).all()
    exact = [row for row in rows if row.entry_id == name]
    if not exact and (len(name) < _SHORTEST or len(rows) != 1):
        problem = "several entries are" if len(rows) > 1 else "no entry is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch dead-letters list")
    return _dead_letter((exact or rows)[0])


def begin_retry(connection: Connection, letter: DeadLetter, *, bucket_s: int) -> None:
    """
    Take back that the entry failed, before it is put into the queue again.

    Its row stays until `end_retry`, so that nothing is lost in between; its sample may
    become a dead letter once more.
    """
    if letter.state == DEAD:
        start_s = int(letter.at.timestamp()) // bucket_s * bucket_s
        book(connection, [Entry(letter.app, start_s, Kind.FAILED, letter.reason, -1)])
    mine = dead_letters.c.entry_id == letter.entry_id
    connection.execute(dead_letters.update().where(mine).values(state=RETRYING, sample_id=None))


def end_retry(connection: Connection, letter: DeadLetter) -> None:
    """Delete the row of an entry that is in the queue again."""
    mine = (dead_letters.c.entry_id == letter.entry_id) & (dead_letters.c.state == RETRYING)
    connection.execute(dead_letters.delete().where(mine))


def drop_dead_letter(connection: Connection, entry_id: str, *, why: str) -> None:
    """Delete what an entry holds; it stays counted as failed."""
    mine = (dead_letters.c.entry_id == entry_id) & (dead_letters.c.state == DEAD)
    values = {"state": DROPPED, "body": b"", "detail": why}
    connection.execute(dead_letters.update().where(mine).values(values))


def _dead_letter(row: Any) -> DeadLetter:
    return DeadLetter(
        entry_id=row.entry_id,
        app=row.app,
        at=datetime.fromtimestamp(row.at_ms / 1000, UTC),
        reason=row.reason,
        detail=row.detail,
        body=bytes(row.body),
        version=row.version,
        sample_id=row.sample_id,
        state=row.state,
    )
