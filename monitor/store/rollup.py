"""Sum closed hours and days, and let go what is older than its level keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from monitor.models.tally import TALLY_SUMS
from monitor.store.engine import Store
from monitor.store.levels import (
    BUCKETS,
    DAYS,
    HOUR_S,
    HOURS,
    LEVELS,
    Level,
    Mark,
    ensure_marks,
    read_marks,
)
from monitor.store.tables import levels, streams

#: Streams whose old rows are deleted in one transaction.
_STREAMS_AT_ONCE = 200


def roll_up(
    store: Store,
    *,
    now_s: float,
    settle_s: float,
    keep_s: Mapping[str, float] = MappingProxyType({}),
    guard: Callable[[Connection], object] = lambda _: None,
) -> int:
    """
    Bring hours and days up to date, and delete what is too old; return the steps taken.

    Each hour, each day and each batch of deletions is one transaction. Safe to repeat
    and to run twice at once: the mark that a step moves is locked.

    Parameters
    ----------
    store
        Where the buckets are.
    now_s
        Epoch seconds.
    settle_s
        An hour is summed this long after its end; what comes later is added to it.
    keep_s
        How long a level is kept, by its name; those that are not named for their usual time.
    guard
        Called first in each transaction, such as to check a lease.
    """
    steps = 0
    for source, level in ((BUCKETS, HOURS), (HOURS, DAYS)):
        while _step(store, source, level, now_s - settle_s, guard):
            steps += 1
    _forget(store, int(now_s), keep_s, guard)
    return steps


def _step(
    store: Store,
    source: Level,
    level: Level,
    settled_s: float,
    guard: Callable[[Connection], object],
) -> bool:
    with store.read() as connection:
        seen = read_marks(connection)
    if seen[level.name].complete_to_s + level.width_s > _end_s(source, settled_s, seen):
        return False
    with store.write() as connection:
        guard(connection)
        ensure_marks(connection)
        query = select(levels).with_for_update()
        rows = connection.execute(query)
        marks = {row.level: Mark(row.complete_to_s, row.kept_from_s) for row in rows}
        start_s = _next_start(connection, source, level, marks[level.name].complete_to_s)
        if start_s is None or start_s + level.width_s > _end_s(source, settled_s, marks):
            return False
        _sum(connection, source.sums, level.sums, start_s, level.width_s, TALLY_SUMS)
        _sum(connection, source.bins, level.bins, start_s, level.width_s, ("count",))
        moved = levels.update().where(levels.c.level == level.name)
        connection.execute(moved.values(complete_to_s=start_s + level.width_s))
        return True


def _end_s(source: Level, settled_s: float, marks: Mapping[str, Mark]) -> int:
    """Tell up to when the source holds all there is."""
    return int(settled_s) if source is BUCKETS else marks[source.name].complete_to_s


def _next_start(connection: Connection, source: Level, level: Level, mark_s: int) -> int | None:
    """Find the first stretch after the mark in which there is anything; mostly the next one."""
    first_s = _first(connection, source, mark_s, mark_s + level.width_s)
    if first_s is None:
        first_s = _first(connection, source, mark_s + level.width_s, None)
    return None if first_s is None else first_s // level.width_s * level.width_s


def _first(connection: Connection, source: Level, from_s: int, to_s: int | None) -> int | None:
    starts = source.sums.c
    # By stream, so that SQLite seeks each one's rows rather than reading them all.
    query = (
        select(func.min(starts.start_s))
        .select_from(streams.join(source.sums, streams.c.stream_id == starts.stream_id))
        .where(streams.c.last_bucket_s >= from_s, starts.start_s >= from_s)
        .group_by(streams.c.stream_id)
    )
    if to_s is not None:
        query = query.where(starts.start_s < to_s)
    return min((int(first_s) for first_s in connection.execute(query).scalars()), default=None)


def _sum(
    connection: Connection,
    source: Table,
    target: Table,
    start_s: int,
    width_s: int,
    sums: Iterable[str],
) -> None:
    keys = [streams.c.stream_id, *(c for c in source.primary_key if c.name == "bin")]
    totals = [func.sum(source.c[name]).label(name) for name in sums]
    rows: Select[Any] = (
        select(*keys, literal(start_s).label("start_s"), *totals)
        # By way of the streams, so that each one's rows are found by their key.
        .select_from(streams.join(source, streams.c.stream_id == source.c.stream_id))
        .where(
            streams.c.last_bucket_s >= start_s,
            source.c.start_s >= start_s,
            source.c.start_s < start_s + width_s,
        )
        .group_by(*keys)
    )
    names = [column.name for column in rows.selected_columns]
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(target).from_select(names, rows)
    new = {name: insert.excluded[name] for name in sums}
    key = [column.name for column in target.primary_key]
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=new))


def _forget(
    store: Store,
    now_s: int,
    keep_s: Mapping[str, float],
    guard: Callable[[Connection], object],
) -> None:
    with store.read() as connection:
        marks = read_marks(connection)
    due = {}
    for level, wider in zip(LEVELS, (*LEVELS[1:], None), strict=True):
        oldest_s = int(now_s - keep_s.get(level.name, level.keep_s))
        horizon_s = _horizon_s(wider, marks, oldest_s)
        if horizon_s > marks[level.name].kept_from_s:
            due[level] = horizon_s
    if not due:
        return
    with store.read() as connection:
        stream_ids = list(connection.execute(select(streams.c.stream_id)).scalars())
    batches = [
        stream_ids[first : first + _STREAMS_AT_ONCE]
        for first in range(0, len(stream_ids), _STREAMS_AT_ONCE)
    ]
    for level, horizon_s in due.items():
        # First the mark: a reader must not look for rows that are being deleted.
        with store.write() as connection:
            guard(connection)
            moved = levels.update().where(levels.c.level == level.name)
            connection.execute(moved.values(kept_from_s=horizon_s))
        for batch in batches:
            with store.write() as connection:
                guard(connection)
                for table in (level.bins, level.sums):
                    old = table.c.stream_id.in_(batch) & (table.c.start_s < horizon_s)
                    connection.execute(delete(table).where(old))


def _horizon_s(wider: Level | None, marks: Mapping[str, Mark], oldest_s: int) -> int:
    """Tell before when a level is let go: never what the wider one does not hold yet."""
    if wider is not None:
        oldest_s = min(oldest_s, marks[wider.name].complete_to_s)
    width_s = wider.width_s if wider is not None else DAYS.width_s
    return oldest_s // max(width_s, HOUR_S) * max(width_s, HOUR_S)
