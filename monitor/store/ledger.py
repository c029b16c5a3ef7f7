"""
The ledger: every interaction in exactly one place, counted by app, kind and reason.

Hooks count what they see, sample, send and drop; workers what they score. `book` adds to
the ledger, `absorb` adds what is new in the cumulative counters of hooks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from monitor.store.engine import add, put
from monitor.store.tables import counts, hooks, totals

_COUNTED = frozenset({"seen", "sampled", "sent", "unseen"})
_BY_REASON = frozenset({"dropped", "errored", "feedback"})


class Kind(StrEnum):
    """What happened to an interaction on its way."""

    SEEN = "seen"
    ERRORED = "errored"  #: requests of the app that failed, by their error
    UNSEEN = "unseen"  #: those of them that are not among the interactions seen
    SAMPLED = "sampled"
    DROPPED = "dropped"
    SENT = "sent"
    SCORED = "scored"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    FEEDBACK = "feedback"  #: what users said, as hooks count it: given, sent, or why dropped
    FEEDBACK_STORED = "feedback_stored"  #: by source and word, such as ``hook_good``


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
    by_bucket: Counter[tuple[str, int, str, str]] = Counter()
    by_app: Counter[tuple[str, str, str]] = Counter()
    for app, start_s, kind, reason, n in entries:
        by_bucket[app, start_s, kind.value, reason] += n
        by_app[app, kind.value, reason] += n
    rows = [
        {"app": app, "start_s": start_s, "kind": kind, "reason": reason, "count": n}
        for (app, start_s, kind, reason), n in by_bucket.items()
        if n
    ]
    add(connection, counts, rows, sums=["count"])
    rows = [
        {"app": app, "kind": kind, "reason": reason, "count": n}
        for (app, kind, reason), n in by_app.items()
        if n
    ]
    add(connection, totals, rows, sums=["count"])


def read_totals(connection: Connection, app: str | None = None) -> dict[str, Counter[Booking]]:
    """Read all that was ever counted, by app; one app only when it is named."""
    query = select(totals.c.app, totals.c.kind, totals.c.reason, totals.c.count)
    if app is not None:
        query = query.where(totals.c.app == app)
    found: dict[str, Counter[Booking]] = {}
    for of_app, kind, reason, n in connection.execute(query):
        found.setdefault(of_app, Counter())[Booking(Kind(kind), reason)] += int(n)
    return found


def read_between(
    connection: Connection,
    since_s: float,
    until_s: float | None = None,
    *,
    app: str | None = None,
) -> dict[str, Counter[Booking]]:
    """Read what was counted in [since_s, until_s) (epoch seconds; None: until now), by app."""
    query = (
        select(counts.c.app, counts.c.kind, counts.c.reason, func.sum(counts.c.count))
        .where(counts.c.start_s >= since_s)
        .group_by(counts.c.app, counts.c.kind, counts.c.reason)
    )
    if until_s is not None:
        query = query.where(counts.c.start_s < until_s)
    if app is not None:
        query = query.where(counts.c.app == app)
    found: dict[str, Counter[Booking]] = {}
    for of_app, kind, reason, n in connection.execute(query):
        found.setdefault(of_app, Counter())[Booking(Kind(kind), reason)] += int(n)
    return found


def read_volume(
    connection: Connection, app: str, *, since_s: int, step_s: int
) -> dict[Kind, dict[int, int]]:
    """Read what was counted of an app since then, by kind and start of the step (epoch seconds)."""
    start_s = (counts.c.start_s - counts.c.start_s % step_s).label("step_start_s")
    query = (
        select(counts.c.kind, start_s, func.sum(counts.c.count))
        .where(counts.c.app == app, counts.c.start_s >= since_s)
        .group_by(counts.c.kind, start_s)
    )
    found: dict[Kind, dict[int, int]] = {}
    for kind, at_s, n in connection.execute(query):
        found.setdefault(Kind(kind), {})[int(at_s)] = int(n)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCounters:
    """What one hook has counted since it started."""

    hook_id: str
    app: str
    host: str
    pid: int
    heartbeat_at: datetime  #: by the clock of its host
    heard_at: datetime | None = None  #: by ours, where we know it better than its host
    counters: Mapping[
        str, int
    ]  #: seen, sampled, sent, dropped:<reason>, errored:<error>, feedback:<...>


def absorb(connection: Connection, news: Sequence[HookCounters], *, bucket_s: int) -> None:
    """
    Add what is new in the counters of these hooks to the ledger.

    Counters never fall, so absorbing the same ones again adds nothing.
    """
    query = select(hooks.c.hook_id, hooks.c.counters)
    query = query.where(hooks.c.hook_id.in_([item.hook_id for item in news]))
    known = {hook_id: dict(counters) for hook_id, counters in connection.execute(query)}
    entries, rows = [], []
    for item in news:
        before = known.get(item.hook_id, {})
        start_s = int(item.heartbeat_at.timestamp()) // bucket_s * bucket_s
        for name, value in item.counters.items():
            new = value - before.get(name, 0)
            kind, _, reason = name.partition(":")
            if new > 0 and (kind in _BY_REASON if reason else kind in _COUNTED):
                entries.append(Entry(item.app, start_s, Kind(kind), reason, new))
        # A report that comes late must not turn the clock of a counter back.
        highest = {name: max(n, before.get(name, 0)) for name, n in item.counters.items()}
        rows.append(
            {
                "hook_id": item.hook_id,
                "app": item.app,
                "host": item.host,
                "pid": item.pid,
                "heartbeat_at_ms": round((item.heard_at or item.heartbeat_at).timestamp() * 1000),
                "counters": {**before, **highest},
            }
        )
    book(connection, entries)
    put(connection, hooks, rows)


def last_heartbeat(connection: Connection, app: str | None = None) -> datetime | None:
    """Return when any hook of *app* last reported; None when none ever did."""
    query = select(func.max(hooks.c.heartbeat_at_ms))
    if app is not None:
        query = query.where(hooks.c.app == app)
    at_ms = connection.execute(query).scalar()
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000).astimezone()


def last_heartbeats(connection: Connection) -> dict[str, datetime]:
    """Return when any hook of each app last reported."""
    query = select(hooks.c.app, func.max(hooks.c.heartbeat_at_ms)).group_by(hooks.c.app)
    return {
        app: datetime.fromtimestamp(at_ms / 1000).astimezone()
        for app, at_ms in connection.execute(query)
    }
