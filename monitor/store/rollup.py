"""
How sums get wider as they age: buckets to hours, hours to days.

An hour is summed once it is closed, in one transaction that also moves the mark up to
which hours are complete. Whatever is written later for a time before the mark goes into
the bucket and into the hour, in one transaction too (`add_late` in `write.py`). So each level is
exact at any moment, and a window may be put together from all three. The histograms of inputs,
which only become whole hours, follow at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from monitor.models.status import TALLY_SUMS
from monitor.store.engine import Store, batched
from monitor.store.query import (
    BUCKETS,
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    LEVELS,
    Level,
    RollupMark,
    ensure_marks,
    read_marks,
)
from monitor.store.tables import input_bins, levels, streams
from monitor.store.write import InputKey, add_input_counts

#: Streams whose old rows are deleted in one transaction.
_STREAMS_AT_ONCE = 200
#: Histograms of inputs: hours are kept this long, and single buckets until they are this old.
_INPUTS_KEEP_S, _INPUTS_FINE_S = 35 * DAY_S, 3 * HOUR_S

Guard = Callable[[Connection], object]


def roll_up(
    store: Store,
    *,
    now_s: float,
    settle_s: float,
    keep_s: Mapping[str, float] = MappingProxyType({}),
    guard: Guard = lambda _: None,
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
        How long a level is kept, by its name; ``Level.keep_s`` for those that are not named.
    guard
        Called first in each transaction, such as to check a lease.
    """
    steps = 0
    for source, level in ((BUCKETS, HOURS), (HOURS, DAYS)):
        while _step(store, source, level, now_s - settle_s, guard):
            steps += 1
    with store.read() as connection:
        marks = read_marks(connection)
    due = {}
    for level, wider in zip(LEVELS, (*LEVELS[1:], None), strict=True):
        oldest_s = int(now_s - keep_s.get(level.name, level.keep_s))
        # Never what the wider level does not hold yet.
        if wider is not None:
            oldest_s = min(oldest_s, marks[wider.name].complete_to_s)
        width_s = (wider or DAYS).width_s
        horizon_s = oldest_s // width_s * width_s
        if horizon_s > marks[level.name].kept_from_s:
            due[level] = horizon_s
    if not due:
        return steps
    with store.read() as connection:
        stream_ids = list(connection.execute(select(streams.c.stream_id)).scalars())
    for level, horizon_s in due.items():
        # First the mark: a reader must not look for rows that are being deleted.
        with store.write() as connection:
            guard(connection)
            moved = levels.update().where(levels.c.level == level.name)
            connection.execute(moved.values(kept_from_s=horizon_s))
        for batch in batched(stream_ids, _STREAMS_AT_ONCE):
            with store.write() as connection:
                guard(connection)
                for table in (level.bins, level.sums):
                    old = table.c.stream_id.in_(batch) & (table.c.start_s < horizon_s)
                    connection.execute(delete(table).where(old))
    return steps


def _step(store: Store, source: Level, level: Level, settled_s: float, guard: Guard) -> bool:
    def complete_to_s(marks: Mapping[str, RollupMark]) -> int:
        """Return up to when the source holds all there is."""
        return int(settled_s) if source is BUCKETS else marks[source.name].complete_to_s

    with store.read() as connection:
        seen = read_marks(connection)
    if seen[level.name].complete_to_s + level.width_s > complete_to_s(seen):
        return False
    with store.write() as connection:
        guard(connection)
        ensure_marks(connection)
        rows = connection.execute(select(levels).with_for_update())
        marks = {row.level: RollupMark(row.complete_to_s, row.kept_from_s) for row in rows}
        # The first stretch after the mark in which there is anything; mostly the next one.
        mark_s = marks[level.name].complete_to_s
        first_s = _first(connection, source, mark_s, mark_s + level.width_s)
        if first_s is None:
            first_s = _first(connection, source, mark_s + level.width_s, None)
        if first_s is None:
            return False
        start_s = first_s // level.width_s * level.width_s
        if start_s + level.width_s > complete_to_s(marks):
            return False
        times = {"from_s": start_s, "to_s": start_s + level.width_s}
        for one, other, sums in (
            (source.sums, level.sums, TALLY_SUMS), (source.bins, level.bins, ("count",)),
        ):  # fmt: skip
            connection.execute(_sum(connection.dialect.name, one, other, sums), times)
        moved = levels.update().where(levels.c.level == level.name)
        connection.execute(moved.values(complete_to_s=start_s + level.width_s))
        return True


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


@cache
def _sum(dialect: str, source: Table, target: Table, sums: tuple[str, ...]) -> Any:
    """Return the statement that writes the sums of the rows in [:from_s, :to_s) to *target*."""
    from_s = bindparam("from_s", type_=source.c.start_s.type)
    keys = [streams.c.stream_id, *(c for c in source.primary_key if c.name == "bin")]
    totals = [func.sum(source.c[name]).label(name) for name in sums]
    rows: Select[Any] = (
        select(*keys, from_s.label("start_s"), *totals)
        # By way of the streams, so that each one's rows are found by their key.
        .select_from(streams.join(source, streams.c.stream_id == source.c.stream_id))
        .where(
            streams.c.last_bucket_s >= from_s,
            source.c.start_s >= from_s,
            source.c.start_s < bindparam("to_s", type_=source.c.start_s.type),
        )
        .group_by(*keys)
    )
    names = [column.name for column in rows.selected_columns]
    kind: Any = postgresql if dialect == "postgresql" else sqlite
    insert = kind.insert(target).from_select(names, rows)
    new = {name: insert.excluded[name] for name in sums}
    key = [column.name for column in target.primary_key]
    return insert.on_conflict_do_update(index_elements=key, set_=new)


def read_inputs(
    connection: Connection, app: str, *, from_s: int, to_s: int | None = None
) -> dict[str, Counter[int]]:
    """Sum the histograms of an app over [from_s, to_s), by feature."""
    columns = input_bins.c
    query = (
        select(columns.feature, columns.bin, func.sum(columns.count))
        .where(columns.app == app, columns.start_s >= from_s)
        .group_by(columns.feature, columns.bin)
    )
    if to_s is not None:
        query = query.where(columns.start_s < to_s)
    found: dict[str, Counter[int]] = {}
    for feature, position, count in connection.execute(query):
        found.setdefault(feature, Counter())[position] = int(count)
    return found


def compact_inputs(
    store: Store, apps: Iterable[str], *, now_s: float, guard: Guard = lambda _: None
) -> None:
    """
    Sum what is some hours old to whole hours, and delete what is too old.

    One transaction an app and hour; an hour that is summed already costs nothing more.
    """
    columns = input_bins.c
    fine_s = int(now_s - _INPUTS_FINE_S) // HOUR_S * HOUR_S
    for app in apps:
        with store.read() as connection:
            odd = (columns.start_s % HOUR_S != 0) & (columns.start_s < fine_s)
            hour = (columns.start_s - columns.start_s % HOUR_S).label("hour_s")
            query = select(hour).where(columns.app == app, odd).distinct()
            hours = sorted(int(value) for value in connection.execute(query).scalars())
        for hour_s in hours:
            with store.write() as connection:
                guard(connection)
                within = (
                    (columns.app == app)
                    & (columns.start_s > hour_s)
                    & (columns.start_s < hour_s + HOUR_S)
                )
                taken = (columns.feature, columns.bin, columns.count)
                counts: Counter[InputKey] = Counter()
                gone = connection.execute(delete(input_bins).where(within).returning(*taken))
                for feature, position, count in gone:
                    counts[app, hour_s, feature, position] += count
                add_input_counts(connection, counts)
        with store.write() as connection:
            guard(connection)
            old = (columns.app == app) & (columns.start_s < now_s - _INPUTS_KEEP_S)
            connection.execute(delete(input_bins).where(old))
