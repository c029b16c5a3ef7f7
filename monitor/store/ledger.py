"""The ledger: every interaction in exactly one place, counted by app, kind and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from monitor.store.tables import counts, totals
from monitor.store.upsert import add


class Kind(StrEnum):
    """What happened to an interaction on its way."""

    SEEN = "seen"
    SAMPLED = "sampled"
    DROPPED = "dropped"
    SENT = "sent"
    SCORED = "scored"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class Entry(NamedTuple):
    """So many interactions of one kind in one bucket of time."""

    app: str
    start_s: int
    kind: Kind
    reason: str
    n: int


class Booking(NamedTuple):
    """A kind with its reason; the reason is '' where none is needed."""

    kind: Kind
    reason: str


def book(connection: Connection, entries: Iterable[Entry]) -> None:
    """Add to the ledger, within the transaction that made it happen."""
    by_bucket: Counter[tuple[str | int, ...]] = Counter()
    by_app: Counter[tuple[str | int, ...]] = Counter()
    for app, start_s, kind, reason, n in entries:
        by_bucket[app, start_s, kind.value, reason] += n
        by_app[app, kind.value, reason] += n
    add(connection, counts, _rows(by_bucket, ("app", "start_s", "kind", "reason")), sums=["count"])
    add(connection, totals, _rows(by_app, ("app", "kind", "reason")), sums=["count"])


def read_totals(connection: Connection, app: str | None = None) -> dict[str, Counter[Booking]]:
    """Read all that was ever counted, by app; one app only when it is named."""
    query = select(totals.c.app, totals.c.kind, totals.c.reason, totals.c.count)
    if app is not None:
        query = query.where(totals.c.app == app)
    return _by_app(connection.execute(query))


def read_since(
    connection: Connection, since_s: float, app: str | None = None
) -> dict[str, Counter[Booking]]:
    """Read what was counted since *since_s* (epoch seconds), by app."""
    query = (
        select(counts.c.app, counts.c.kind, counts.c.reason, func.sum(counts.c.count))
        .where(counts.c.start_s >= since_s)
        .group_by(counts.c.app, counts.c.kind, counts.c.reason)
    )
    if app is not None:
        query = query.where(counts.c.app == app)
    return _by_app(connection.execute(query))


def read_between(
    connection: Connection, since_s: float, until_s: float
) -> dict[str, Counter[Booking]]:
    """Read what was counted in [since_s, until_s) (epoch seconds), by app."""
    query = (
        select(counts.c.app, counts.c.kind, counts.c.reason, func.sum(counts.c.count))
        .where(counts.c.start_s >= since_s, counts.c.start_s < until_s)
        .group_by(counts.c.app, counts.c.kind, counts.c.reason)
    )
    return _by_app(connection.execute(query))


def _rows(
    counter: Mapping[tuple[str | int, ...], int], names: Sequence[str]
) -> list[dict[str, str | int]]:
    return [dict(zip(names, key, strict=True)) | {"count": n} for key, n in counter.items() if n]


def _by_app(rows: Iterable[Any]) -> dict[str, Counter[Booking]]:
    found: dict[str, Counter[Booking]] = {}
    for app, kind, reason, n in rows:
        found.setdefault(app, Counter())[Booking(Kind(kind), reason)] += int(n)
    return found
