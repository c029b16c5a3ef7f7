"""The ledger: every interaction in exactly one place, counted by app, kind and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from monitor.store.engine import add, put
from monitor.store.tables import counts, hooks, totals


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


# --- hooks ---
# The counters of the hooks: cumulative where they come from, added once here.


_PLAIN = {Kind.SEEN: "seen", Kind.SAMPLED: "sampled", Kind.SENT: "sent"}
_DROPPED = "dropped:"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCounters:
    """What one hook has counted since it started."""

    hook_id: str
    app: str
    host: str
    pid: int
    heartbeat_at: datetime  #: by the clock of its host
    heard_at: datetime | None = None  #: by ours, where we know it better than its host does
    counters: Mapping[str, int]  #: seen, sampled, sent, and dropped:<reason>


def absorb(connection: Connection, news: Sequence[HookCounters], *, bucket_s: int) -> None:
    """
    Add what is new since the last time to the ledger.

    Counters never fall, so absorbing the same ones again adds nothing.
    """
    known = _known(connection, [item.hook_id for item in news])
    entries = [
        entry for item in news for entry in _entries(item, known.get(item.hook_id, {}), bucket_s)
    ]
    book(connection, entries)
    put(connection, hooks, [_row(item, known.get(item.hook_id, {})) for item in news])


def last_heartbeat(connection: Connection, app: str | None = None) -> datetime | None:
    """Tell when any hook of *app* was last heard of."""
    query = select(func.max(hooks.c.heartbeat_at_ms))
    if app is not None:
        query = query.where(hooks.c.app == app)
    at_ms = connection.execute(query).scalar()
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000).astimezone()


def last_heartbeats(connection: Connection) -> dict[str, datetime]:
    """Tell when any hook of each app was last heard of, in one query."""
    query = select(hooks.c.app, func.max(hooks.c.heartbeat_at_ms)).group_by(hooks.c.app)
    return {
        app: datetime.fromtimestamp(at_ms / 1000).astimezone()
        for app, at_ms in connection.execute(query)
    }


def _known(connection: Connection, hook_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    query = select(hooks.c.hook_id, hooks.c.counters).where(hooks.c.hook_id.in_(hook_ids))
    return {hook_id: dict(counters) for hook_id, counters in connection.execute(query)}


def _entries(item: HookCounters, before: Mapping[str, int], bucket_s: int) -> list[Entry]:
    start_s = int(item.heartbeat_at.timestamp()) // bucket_s * bucket_s
    found = []
    for name, value in item.counters.items():
        new = value - before.get(name, 0)
        if new <= 0:
            continue
        if name.startswith(_DROPPED):
            reason = name.removeprefix(_DROPPED)
            found.append(Entry(item.app, start_s, Kind.DROPPED, reason, new))
        elif name in _PLAIN.values():
            found.append(Entry(item.app, start_s, Kind(name), "", new))
    return found


def _row(item: HookCounters, before: Mapping[str, int]) -> dict[str, object]:
    # A report that comes late must not turn the clock of a counter back.
    highest = {name: max(n, before.get(name, 0)) for name, n in item.counters.items()}
    return {
        "hook_id": item.hook_id,
        "app": item.app,
        "host": item.host,
        "pid": item.pid,
        "heartbeat_at_ms": round((item.heard_at or item.heartbeat_at).timestamp() * 1000),
        "counters": {**before, **highest},
    }
