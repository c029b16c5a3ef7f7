"""Histograms of what the app was asked: written with the samples, summed to hours later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from monitor.store.engine import Store
from monitor.store.levels import HOUR_S
from monitor.store.tables import input_bins
from monitor.store.upsert import add

#: Hours are kept this long, and single buckets until they are this old.
_KEEP_S, _FINE_S = 35 * 86_400, 3 * HOUR_S


class Inputs(NamedTuple):
    """What one sample adds: so many in each bin of each feature."""

    app: str
    start_s: int
    bins: Mapping[str, Mapping[int, int]]


def add_inputs(connection: Connection, items: Iterable[Inputs]) -> None:
    """Add to the histograms, within the transaction that stores the samples."""
    counts: Counter[tuple[str, int, str, int]] = Counter()
    for app, start_s, bins in items:
        for feature, histogram in bins.items():
            for position, count in histogram.items():
                counts[app, start_s, feature, position] += count
    _add(connection, counts)


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
    store: Store,
    apps: Iterable[str],
    *,
    now_s: float,
    guard: Callable[[Connection], object] = lambda _: None,
) -> None:
    """
    Sum what is some hours old to whole hours, and delete what is too old.

    One transaction an app and hour; an hour that is summed already costs nothing more.
    """
    fine_s = int(now_s - _FINE_S) // HOUR_S * HOUR_S
    for app in apps:
        with store.read() as connection:
            odd = (input_bins.c.start_s % HOUR_S != 0) & (input_bins.c.start_s < fine_s)
            hour = (input_bins.c.start_s - input_bins.c.start_s % HOUR_S).label("hour_s")
            query = select(hour).where(input_bins.c.app == app, odd).distinct()
            hours = sorted(int(value) for value in connection.execute(query).scalars())
        for hour_s in hours:
            with store.write() as connection:
                guard(connection)
                _compact(connection, app, hour_s)
        with store.write() as connection:
            guard(connection)
            old = (input_bins.c.app == app) & (input_bins.c.start_s < now_s - _KEEP_S)
            connection.execute(delete(input_bins).where(old))


def _compact(connection: Connection, app: str, hour_s: int) -> None:
    columns = input_bins.c
    within = (columns.app == app) & (columns.start_s > hour_s) & (columns.start_s < hour_s + HOUR_S)
    gone = delete(input_bins).where(within).returning(columns.feature, columns.bin, columns.count)
    counts: Counter[tuple[str, int, str, int]] = Counter()
    for feature, position, count in connection.execute(gone):
        counts[app, hour_s, feature, position] += count
    _add(connection, counts)


def _add(connection: Connection, counts: Mapping[tuple[str, int, str, int], int]) -> None:
    rows = [
        {"app": app, "start_s": start_s, "feature": feature, "bin": position, "count": count}
        for (app, start_s, feature, position), count in counts.items()
    ]
    add(connection, input_bins, rows, sums=["count"])
