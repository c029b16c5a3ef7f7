"""
Buckets, hours and days: which rows a stretch of time is summed from.

An hour is summed once it is closed, in one transaction that also moves the mark up to
which hours are complete. Whatever is written later for a time before the mark goes into
the bucket and into the hour, in one transaction too. So each level is exact at any
moment, and a window may be put together from all three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, select

from monitor.models.tally import TALLY_SUMS
from monitor.store.tables import (
    bucket_bins,
    buckets,
    day_bins,
    day_buckets,
    hour_bins,
    hour_buckets,
    levels,
)
from monitor.store.upsert import Row, add, insert_new

HOUR_S, DAY_S = 3600, 86_400


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


class Mark(NamedTuple):
    """A level holds everything in [kept_from_s, complete_to_s), in epoch seconds."""

    complete_to_s: int = 0
    kept_from_s: int = 0


class Piece(NamedTuple):
    """A stretch that is read from one level; without an end it is open."""

    level: Level
    from_s: int
    to_s: int | None


def read_marks(
    connection: Connection,
    *,
    lock: bool = False,
    names: Sequence[str] = ("bucket", "hour", "day"),
) -> dict[str, Mark]:
    """
    Read how far each level goes.

    A writer locks the marks, shared, for as long as its transaction lasts: none may
    move between its looking and its writing.
    """
    query = select(levels)
    found = {
        row.level: Mark(row.complete_to_s, row.kept_from_s)
        for row in connection.execute(query.with_for_update(read=True) if lock else query)
    }
    return {name: found.get(name, Mark()) for name in names}


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
        late = _widen(sums, level.width_s, complete_to_s, TALLY_SUMS)
        add(connection, level.sums, late, sums=TALLY_SUMS)
        late = _widen(bins, level.width_s, complete_to_s, ("count",))
        add(connection, level.bins, late, sums=("count",))


def pieces(
    from_s: int, to_s: int | None, marks: Mapping[str, Mark], *, widest_s: int = DAY_S
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
    from_s: int, to_s: int | None, marks: Mapping[str, Mark], usable: Sequence[Level]
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


def _widen(
    rows: Sequence[Row], width_s: int, complete_to_s: int, sums: Sequence[str]
) -> list[dict[str, Any]]:
    """Sum the rows that begin before the mark to rows of a wider level."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    totals: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(sums, 0))
    for row in rows:
        if row["start_s"] < complete_to_s:
            key = {name: value for name, value in row.items() if name not in sums}
            key["start_s"] = row["start_s"] // width_s * width_s
            place = tuple(key.values())
            found[place] = key
            for name in sums:
                totals[place][name] += row[name]
    return [key | totals[place] for place, key in found.items()]
