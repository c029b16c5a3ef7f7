"""
The ledger: every interaction in exactly one place, counted by app, kind and reason.

Hooks count what they see, sample, send and drop; workers what they score. `book` adds to
the ledger, `absorb` adds what is new in the cumulative counters of hooks.

Entries of the queue that no worker could score are dead letters: each is kept whole, with its
reason, so that people can inspect it, retry it or drop it; it counts as failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from monitor.errors import SettingsError
from monitor.queue.wire import OUTSIDE
from monitor.store.columns import epoch_ms, matches, time_of
from monitor.store.engine import add, insert_new, put, rows_of
from monitor.store.tables import counts, dead_letters, hooks, samples, totals

DEAD, RETRYING, DROPPED = "dead", "retrying", "dropped"
_SHORTEST_NAME = 4
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
    for table, sums in ((counts, by_bucket), (totals, by_app)):
        key = table.primary_key.columns.keys()
        rows = [dict(zip(key, at, strict=True)) | {"count": n} for at, n in sums.items() if n]
        add(connection, table, rows, sums=["count"])


def read_totals(connection: Connection, app: str | None = None) -> dict[str, Counter[Booking]]:
    """Read all that was ever counted, by app; one app only when it is named."""
    c = totals.c
    query = select(c.app, c.kind, c.reason, c.count).where(matches(c.app, app))
    return _by_app(connection, query)


def read_between(
    connection: Connection, since_s: float, until_s: float | None = None, *, app: str | None = None
) -> dict[str, Counter[Booking]]:
    """Read what was counted in [since_s, until_s) (epoch seconds; None: until now), by app."""
    c = counts.c
    query = select(c.app, c.kind, c.reason, func.sum(c.count)).where(c.start_s >= since_s)
    if until_s is not None:
        query = query.where(c.start_s < until_s)
    query = query.where(matches(c.app, app)).group_by(c.app, c.kind, c.reason)
    return _by_app(connection, query)


def _by_app(connection: Connection, query: Select[Any]) -> dict[str, Counter[Booking]]:
    found: dict[str, Counter[Booking]] = {}
    for app, kind, reason, n in connection.execute(query):
        found.setdefault(app, Counter())[Booking(Kind(kind), reason)] += int(n)
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
    #: seen, sampled, sent, dropped:<reason>, errored:<error>, feedback:<...>
    counters: Mapping[str, int]


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
        row = {name: getattr(item, name) for name in ("hook_id", "app", "host", "pid")}
        row["heartbeat_at_ms"] = epoch_ms(item.heard_at or item.heartbeat_at)
        rows.append(row | {"counters": {**before, **highest}})
    book(connection, entries)
    put(connection, hooks, rows)


def book_outside(
    connection: Connection, written: Mapping[str, int], *, now: datetime, bucket_s: int
) -> None:
    """
    Count samples that another program than the hook wrote, by app, as a hook would have done.

    Such a program has no heartbeat, so nothing is wrong when it is silent: its row is a day old.
    """
    ids = {app: f"{OUTSIDE}-{blake2b(app.encode(), digest_size=16).hexdigest()}" for app in written}
    rows = {
        hook_id: HookCounters(
            hook_id=hook_id, app=app, host="", pid=0,
            heartbeat_at=now, heard_at=now - timedelta(days=1), counters={},
        )
        for app, hook_id in ids.items()
    }  # fmt: skip
    columns = ("hook_id", "app", "host", "pid", "counters")
    new = [
        {name: getattr(row, name) for name in columns} | {"heartbeat_at_ms": 0}
        for row in rows.values()
    ]
    insert_new(connection, hooks, new, returning=hooks.c.hook_id)
    query = select(hooks.c.hook_id, hooks.c.counters).where(hooks.c.hook_id.in_(sorted(rows)))
    before = connection.execute(query.order_by(hooks.c.hook_id).with_for_update()).all()
    absorb(
        connection,
        [
            replace(
                row := rows[hook_id],
                counters={
                    kind.value: counters.get(kind.value, 0) + written[row.app]
                    for kind in (Kind.SEEN, Kind.SAMPLED, Kind.SENT)
                },
            )
            for hook_id, counters in before
        ],
        bucket_s=bucket_s,
    )


def last_heartbeat(connection: Connection, app: str | None = None) -> datetime | None:
    """Return when any hook of *app* last reported; None when none ever did."""
    query = select(func.max(hooks.c.heartbeat_at_ms)).where(matches(hooks.c.app, app))
    at_ms = connection.execute(query).scalar()
    return None if at_ms is None else time_of(at_ms).astimezone()


def last_heartbeats(connection: Connection) -> dict[str, datetime]:
    """Return when any hook of each app last reported."""
    query = select(hooks.c.app, func.max(hooks.c.heartbeat_at_ms)).group_by(hooks.c.app)
    return {app: time_of(at_ms).astimezone() for app, at_ms in connection.execute(query)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One entry with its state."""

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
    rows = [asdict(item) | {"version": item.version[:20]} for _, item in sorted(lost.items())]
    new = insert_new(connection, dead_letters, rows, returning=dead_letters.c.entry_id)
    return [lost[entry_id] for entry_id in sorted(new)]


def newest_dead_letters(connection: Connection, *, limit: int = 1000) -> Sequence[DeadLetter]:
    """List the entries that can be inspected, the newest first."""
    columns = dead_letters.c
    query = select(dead_letters).where(columns.state != DROPPED)
    newest = query.order_by(columns.at.desc(), columns.entry_id).limit(limit)
    return [DeadLetter(**row) for row in rows_of(connection, newest)]


def find_dead_letter(connection: Connection, name: str) -> DeadLetter:
    """
    Find an entry by its id, or by how the id begins.

    Raises
    ------
    SettingsError
        If there is none of that name, or more than one.
    """
    columns = dead_letters.c
    begins = columns.entry_id.startswith(name, autoescape=True) & (columns.state != DROPPED)
    rows = rows_of(connection, select(dead_letters).where(begins).limit(2))
    exact = [row for row in rows if row["entry_id"] == name]
    if not exact and (len(name) < _SHORTEST_NAME or len(rows) != 1):
        problem = "several entries are" if len(rows) > 1 else "no entry is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch dead-letters list")
    return DeadLetter(**(exact or rows)[0])


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
