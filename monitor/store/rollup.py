"""
Buckets, hours and days: how sums get wider as they age, and which rows a window is summed from.

An hour is summed once it is closed, in one transaction that also moves the mark up to
which hours are complete. Whatever is written later for a time before the mark goes into
the bucket and into the hour, in one transaction too. So each level is exact at any
moment, and a window may be put together from all three. The histograms of inputs, which
only become whole hours, follow at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, delete, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from monitor.models.status import TALLY_SUMS
from monitor.store.engine import Row, Store, add, batched, insert_new
from monitor.store.tables import (
    bucket_bins,
    buckets,
    day_bins,
    day_buckets,
    hour_bins,
    hour_buckets,
    input_bins,
    levels,
    streams,
)

HOUR_S, DAY_S = 3600, 86_400
#: Streams whose old rows are deleted in one transaction.
_STREAMS_AT_ONCE = 200
#: Histograms of inputs: hours are kept this long, and single buckets until they are this old.
_INPUTS_KEEP_S, _INPUTS_FINE_S = 35 * DAY_S, 3 * HOUR_S

Guard = Callable[[Connection], object]


class Level(NamedTuple):
    """Rows of one width; those of the finest level are as wide as the setting says."""

    name: str
    width_s: int
    sums: Table
    bins: Table
    keep_s: int


BUCKETS = Level("bucket", 1, buckets, bucket_bins, 48 * HOUR_S)
HOURS = Level("hour", HOUR_S, hour_buckets, hour_bins, 35 * DAY_S)
DAYS = Level("day", DAY_S, day_buckets, day_bins, 400 * DAY_S)
LEVELS: Sequence[Level] = (BUCKETS, HOURS, DAYS)


class RollupMark(NamedTuple):
    """A level holds everything in [kept_from_s, complete_to_s), in epoch seconds."""

    complete_to_s: int = 0
    kept_from_s: int = 0


class Piece(NamedTuple):
    """A stretch that is read from one level; without an end it is open."""

    level: Level
    from_s: int
    to_s: int | None


def read_marks(
    connection: Connection, *, lock: bool = False, names: Sequence[str] = ("bucket", "hour", "day")
) -> dict[str, RollupMark]:
    """
    Read how far each level goes, by its name.

    A writer locks the marks, shared, for as long as its transaction lasts: none may
    move between its reading and its writing.
    """
    query = select(levels)
    found = {
        row.level: RollupMark(row.complete_to_s, row.kept_from_s)
        for row in connection.execute(query.with_for_update(read=True) if lock else query)
    }
    return {name: found.get(name, RollupMark()) for name in names}


def ensure_marks(connection: Connection) -> None:
    """Insert the rows of the marks, so that there is something to lock."""
    rows = [{"level": level.name, "complete_to_s": 0, "kept_from_s": 0} for level in LEVELS]
    insert_new(connection, levels, rows, returning=levels.c.level)


def add_late(connection: Connection, sums: Iterable[Row], bins: Iterable[Row]) -> None:
    """Add rows of buckets to the hours and days that were summed before they came."""
    marks = read_marks(connection, lock=True)
    if not any(mark.complete_to_s for mark in marks.values()):
        ensure_marks(connection)
        marks = read_marks(connection, lock=True)
    sums, bins = list(sums), list(bins)
    for level in (HOURS, DAYS):
        complete_to_s = marks[level.name].complete_to_s
        for table, rows, names in ((level.sums, sums, TALLY_SUMS), (level.bins, bins, ("count",))):
            wider: dict[tuple[Any, ...], dict[str, Any]] = {}
            for row in rows:
                if row["start_s"] < complete_to_s:
                    start_s = row["start_s"] // level.width_s * level.width_s
                    place = (row["stream_id"], start_s, row.get("bin"))
                    if place in wider:
                        wider[place] |= {name: wider[place][name] + row[name] for name in names}
                    else:
                        wider[place] = {**row, "start_s": start_s}
            add(connection, table, wider.values(), sums=names)


def pieces(
    from_s: int, to_s: int | None, marks: Mapping[str, RollupMark], *, widest_s: int = DAY_S
) -> list[Piece]:
    """
    Cut [from_s, to_s) into pieces, each read from the widest level that holds it.

    A beginning for which the narrow rows are gone is moved back to the hour or the day
    that holds it.

    Parameters
    ----------
    from_s, to_s
        Epoch seconds; without an end the window is open.
    marks
        How far each level goes, by its name.
    widest_s
        No level wider than this is used, as long as a narrower one is kept.
    """
    for level, wider in ((BUCKETS, HOURS), (HOURS, DAYS)):
        if from_s < marks[level.name].kept_from_s:
            from_s = from_s // wider.width_s * wider.width_s
            widest_s = max(widest_s, wider.width_s)
    usable = [level for level in LEVELS if level.width_s <= widest_s]
    return list(_cut(from_s, to_s, marks, usable))


def _cut(
    from_s: int, to_s: int | None, marks: Mapping[str, RollupMark], usable: Sequence[Level]
) -> Iterator[Piece]:
    if to_s is not None and to_s <= from_s:
        return
    *narrower, level = usable
    if not narrower:
        yield Piece(level, from_s, to_s)
        return
    width_s, complete_to_s = level.width_s, marks[level.name].complete_to_s
    end_s = complete_to_s if to_s is None else min(to_s, complete_to_s)
    first_s, last_s = -(-from_s // width_s) * width_s, end_s // width_s * width_s
    if last_s <= first_s:
        yield from _cut(from_s, to_s, marks, narrower)
        return
    yield from _cut(from_s, first_s, marks, narrower)
    yield Piece(level, first_s, last_s)
    yield from _cut(last_s, to_s, marks, narrower)


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
        _sum(connection, source.sums, level.sums, start_s, level.width_s, TALLY_SUMS)
        _sum(connection, source.bins, level.bins, start_s, level.width_s, ("count",))
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


def _sum(
    connection: Connection, source: Table, target: Table, start_s: int, width_s: int,
    sums: Iterable[str],
) -> None:  # fmt: skip
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


class Inputs(NamedTuple):
    """What one sample adds: so many in each bin of each feature."""

    app: str
    start_s: int
    bins: Mapping[str, Mapping[int, int]]


#: App, start of the bucket in epoch seconds, feature and bin.
_InputKey = tuple[str, int, str, int]


def add_inputs(connection: Connection, items: Iterable[Inputs]) -> None:
    """Add to the histograms, within the transaction that stores the samples."""
    counts: Counter[_InputKey] = Counter()
    for app, start_s, bins in items:
        for feature, histogram in bins.items():
            for position, count in histogram.items():
                counts[app, start_s, feature, position] += count
    _add_input_counts(connection, counts)


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
                counts: Counter[_InputKey] = Counter()
                gone = connection.execute(delete(input_bins).where(within).returning(*taken))
                for feature, position, count in gone:
                    counts[app, hour_s, feature, position] += count
                _add_input_counts(connection, counts)
        with store.write() as connection:
            guard(connection)
            old = (columns.app == app) & (columns.start_s < now_s - _INPUTS_KEEP_S)
            connection.execute(delete(input_bins).where(old))


def _add_input_counts(connection: Connection, counts: Mapping[_InputKey, int]) -> None:
    names = ("app", "start_s", "feature", "bin")
    rows = [dict(zip(names, key, strict=True)) | {"count": n} for key, n in counts.items()]
    add(connection, input_bins, rows, sums=["count"])
