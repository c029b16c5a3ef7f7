"""
Segments: which values of a dimension are counted on their own, however many come.

`admit` decides, purely; `place` reads and keeps what it decided, in the transaction that stores the
samples. The names of apps are bounded in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from monitor.models import ROOT
from monitor.models.status import OTHER, segment_name
from monitor.store.engine import insert_new, put
from monitor.store.tables import dimensions, streams

#: The names of apps are bounded like the values of a dimension; this one belongs to no app.
APPS: Final = ("", "app")
_DimensionKey = tuple[str, str]  # app and dimension


class Placed(NamedTuple):
    """Where one sample belongs: its app, its value in each dimension, and its time."""

    app: str
    places: Sequence[tuple[str, str]]
    start_s: int


def place(connection: Connection, items: Sequence[Placed]) -> list[tuple[str, ...]]:
    """
    Return the segments of each sample; a value without a segment of its own goes to the others.

    Only a value that was not known yet costs a lock, on its dimension: writers that see
    known values do not wait for each other.
    """
    counts: dict[_DimensionKey, Counter[str]] = {}
    latest: dict[_DimensionKey, int] = {}
    for item in items:
        for dimension, value in item.places:
            key = (item.app, dimension)
            counts.setdefault(key, Counter())[value] += 1
            latest[key] = max(item.start_s, latest.get(key, 0))
    known = _read_censuses(connection, counts)
    new = sorted(
        key
        for key, values in counts.items()
        if key not in known or not known[key].named.keys() >= values.keys()
    )
    if new:
        empty: dict[str, Any] = {"named": {}, "waiting": {}}
        rows = [{"app": key[0], "dimension": key[1], "census": empty} for key in new]
        insert_new(connection, dimensions, rows, returning=dimensions.c.dimension)
        locked = _read_censuses(connection, new, lock=True)
        for key in new:
            seen: dict[str, Seen] = {}
            if len(locked[key].named) + len(counts[key]) > PLACES:
                # How often and when the values with a segment were counted, from their streams.
                app, dimension = key
                n_total, last_s = func.max(streams.c.n_total), func.max(streams.c.last_bucket_s)
                if key == APPS:
                    named = {value: value for value in locked[key].named}
                    column, among = streams.c.app, streams.c.segment == ROOT
                else:
                    named = {segment_name(dimension, value): value for value in locked[key].named}
                    column, among = streams.c.segment, streams.c.app == app
                query = (
                    select(column, n_total, last_s)
                    .where(among, column.in_(list(named)))
                    .group_by(column)
                )
                seen = {
                    named[segment]: Seen(int(n), int(at_s))
                    for segment, n, at_s in connection.execute(query)
                }
            known[key] = admit(locked[key], counts[key], seen, now_s=latest[key])
        rows = [
            {"app": key[0], "dimension": key[1], "census": {
                "named": dict(known[key].named),
                "waiting": {value: list(pair) for value, pair in known[key].waiting.items()},
            }}
            for key in new
        ]  # fmt: skip
        put(connection, dimensions, rows)
    return [
        tuple(
            segment_name(dimension, value if value in known[item.app, dimension].named else OTHER)
            for dimension, value in item.places
        )
        for item in items
    ]


def _read_censuses(
    connection: Connection, keys: Iterable[_DimensionKey], *, lock: bool = False
) -> dict[_DimensionKey, Census]:
    wanted = sorted(keys)
    if not wanted:
        return {}
    columns = (dimensions.c.app, dimensions.c.dimension)
    query = select(dimensions).where(tuple_(*columns).in_(wanted)).order_by(*columns)
    rows = connection.execute(query.with_for_update() if lock else query)
    return {
        (row.app, row.dimension): Census(
            {value: int(count) for value, count in row.census["named"].items()},
            {value: (int(n), int(error)) for value, (n, error) in row.census["waiting"].items()},
        )
        for row in rows
    }


def read_app_names(connection: Connection) -> Census:
    """Return which apps count under their own names, and which wait for a place."""
    return _read_censuses(connection, [APPS]).get(APPS, Census())


#: Values of a dimension that have a place of their own; and those that are watched for one.
PLACES = 200
_WAITING = 200
#: A value that was not seen for so long gives up its place to whoever comes.
PATIENCE_S = 7 * 86_400


class Seen(NamedTuple):
    """How often a value with a place was counted, and when last, in epoch seconds."""

    n: int
    last_s: int


@dataclass(frozen=True, slots=True)
class Census:
    """
    Who has a place, and who waits.

    ``named`` gives the count that a value had when it got its place. ``waiting`` gives
    a count and by how much it may be too high: a true count lies between the two.
    """

    named: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def admit(
    census: Census,
    counts: Mapping[str, int],
    seen: Mapping[str, Seen],
    *,
    now_s: int,
    places: int = PLACES,
    waiting: int = _WAITING,
) -> Census:
    """
    Count values, and decide which of them have a place of their own.

    While there is room, a value gets a place when it first comes. Later, one that waits
    takes the place of the least frequent one once it was certainly seen more often, or
    the place of one that has not been seen for a week. Those that wait are counted by
    the Space-Saving algorithm, so that memory stays bounded whatever comes.

    *census* and *counts*: what was known before, and how often each value came now. *seen*: how
    often and when those with a place were counted since they got it; one that is missing was
    not counted yet. *now_s*: epoch seconds of what is counted now. *places* and *waiting*: how
    many values have a place, and how many wait, at most.

    Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
    elements in data streams", ICDT (2005), 398-412.
    """
    named, queue = dict(census.named), dict(census.waiting)
    ranks = {}
    for value, base in named.items():
        count, last_s = seen.get(value, Seen(0, now_s))
        ranks[value] = Seen(base + count, last_s)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        if value in named:
            continue
        if len(named) < places:
            named[value] = 0
            ranks[value] = Seen(counts[value], now_s)
            continue
        if value in queue:
            count, error = queue[value][0] + counts[value], queue[value][1]
        elif len(queue) < waiting:
            count, error = counts[value], 0
        else:  # it takes over the lowest count
            lowest = min(queue, key=lambda other: (queue[other][0], other))
            error = queue.pop(lowest)[0]
            count = error + counts[value]
        least = min(
            ranks, key=lambda other: (not _is_idle(ranks[other], now_s), *ranks[other], other)
        )
        if _is_idle(ranks[least], now_s) or count - error > ranks[least].n:
            del named[least], ranks[least]
            named[value] = count - error - counts[value]
            ranks[value] = Seen(count - error, now_s)
            queue.pop(value, None)
        else:
            queue[value] = (count, error)
    return Census(named, queue)


def _is_idle(seen: Seen, now_s: int) -> bool:
    return now_s - seen.last_s > PATIENCE_S
