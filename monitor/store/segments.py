"""Decide in which segments a sample is counted, in the transaction that counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from monitor.models.tally import OTHER, segment_name
from monitor.stats.heavy_hitters import PLACES, Census, Seen, admit
from monitor.store.tables import dimensions, streams
from monitor.store.upsert import insert_new, put

_Key = tuple[str, str]  # app and dimension


class Placed(NamedTuple):
    """Where one sample belongs: its app, its value in each dimension, and its time."""

    app: str
    places: Sequence[tuple[str, str]]
    start_s: int


def place(connection: Connection, samples: Sequence[Placed]) -> list[tuple[str, ...]]:
    """
    Name the segments of each sample; a value without a place of its own goes to the others.

    Only a value that was not known yet costs a lock, on its dimension: writers that see
    known values do not wait for each other.
    """
    counts: dict[_Key, Counter[str]] = {}
    latest: dict[_Key, int] = {}
    for sample in samples:
        for dimension, value in sample.places:
            key = (sample.app, dimension)
            counts.setdefault(key, Counter())[value] += 1
            latest[key] = max(sample.start_s, latest.get(key, 0))
    known = _censuses(connection, counts)
    new = sorted(
        key
        for key, values in counts.items()
        if key not in known or not known[key].named.keys() >= values.keys()
    )
    if new:
        known |= _admit(connection, {key: counts[key] for key in new}, latest)
    return [
        tuple(
            segment_name(dimension, value if value in known[sample.app, dimension].named else OTHER)
            for dimension, value in sample.places
        )
        for sample in samples
    ]


def known_values(connection: Connection, app: str) -> dict[str, Census]:
    """Read the values of each dimension of an app."""
    query = select(dimensions).where(dimensions.c.app == app)
    return {row.dimension: _census(row.census) for row in connection.execute(query)}


def _admit(
    connection: Connection, counts: Mapping[_Key, Counter[str]], latest: Mapping[_Key, int]
) -> dict[_Key, Census]:
    rows = [
        {"app": app, "dimension": dimension, "census": _stored(Census())}
        for app, dimension in sorted(counts)
    ]
    insert_new(connection, dimensions, rows, returning=dimensions.c.dimension)
    found = _censuses(connection, counts, lock=True)
    for key, values in counts.items():
        seen = _seen(connection, *key, found[key]) if len(found[key].named) >= PLACES else {}
        found[key] = admit(found[key], values, seen, now_s=latest[key])
    put(
        connection,
        dimensions,
        [
            {"app": app, "dimension": dimension, "census": _stored(found[app, dimension])}
            for app, dimension in sorted(counts)
        ],
    )
    return found


def _censuses(
    connection: Connection, keys: Iterable[_Key], *, lock: bool = False
) -> dict[_Key, Census]:
    wanted = sorted(keys)
    if not wanted:
        return {}
    columns = (dimensions.c.app, dimensions.c.dimension)
    query = select(dimensions).where(tuple_(*columns).in_(wanted)).order_by(*columns)
    rows = connection.execute(query.with_for_update() if lock else query)
    return {(row.app, row.dimension): _census(row.census) for row in rows}


def _seen(connection: Connection, app: str, dimension: str, census: Census) -> dict[str, Seen]:
    """Read how often and when the values with a place were counted, from their streams."""
    names = {segment_name(dimension, value): value for value in census.named}
    query = (
        select(streams.c.segment, func.max(streams.c.n_total), func.max(streams.c.last_bucket_s))
        .where(streams.c.app == app, streams.c.segment.in_(list(names)))
        .group_by(streams.c.segment)
    )
    return {
        names[segment]: Seen(int(n), int(last_s))
        for segment, n, last_s in connection.execute(query)
    }


def _census(stored: Mapping[str, Mapping[str, object]]) -> Census:
    named = {value: int(str(count)) for value, count in stored["named"].items()}
    waiting = {
        value: (int(pair[0]), int(pair[1]))
        for value, pair in stored["waiting"].items()
        if isinstance(pair, list)
    }
    return Census(named, waiting)


def _stored(census: Census) -> dict[str, object]:
    waiting = {value: list(pair) for value, pair in census.waiting.items()}
    return {"named": dict(census.named), "waiting": waiting}
