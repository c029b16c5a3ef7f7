"""One function for each question that the product asks of the buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, func, select

from monitor.models import StreamKey, Tally
from monitor.models.tally import TALLY_SUMS
from monitor.store.tables import bucket_bins, buckets, streams

#: Sums that a stream keeps of all it ever counted.
STREAM_SUMS = ("sum_w", "sum_w2", "sum_wy")
#: Sums of a bucket from which a baseline is learned.
BASELINE_SUMS = ("n", "sum_w", "sum_w2", "sum_wy", "sum_w2y", "sum_w2yy")


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream with how much it has counted, ever, and when it last counted anything."""

    stream_id: int
    key: StreamKey
    n_total: int
    last_bucket_s: int
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0


def active_streams(
    connection: Connection, *, since_s: float, current_since_s: float | None = None
) -> list[Stream]:
    """
    List the streams that counted something since *since_s*, one version of each.

    Of several evaluator versions of a metric the newest one speaks that counted
    since *current_since_s*, or else the one that was used last. So two workers with
    different judges do not take turns.
    """
    rows = connection.execute(select(streams).where(streams.c.last_bucket_s >= since_s))
    found = [
        Stream(
            row.stream_id,
            StreamKey(row.app, row.metric, row.segment, row.evaluator_version),
            row.n_total,
            row.last_bucket_s,
            *(getattr(row, name) for name in STREAM_SUMS),
        )
        for row in rows
    ]
    current_s = since_s if current_since_s is None else current_since_s
    found.sort(key=lambda stream: _rank(stream, current_s))
    speaking = {stream.key[:3]: stream for stream in found}
    return [speaking[key] for key in sorted(speaking)]


def _rank(stream: Stream, current_since_s: float) -> tuple[bool, int]:
    current = stream.last_bucket_s >= current_since_s
    return current, stream.stream_id if current else stream.last_bucket_s


def window_tallies(
    connection: Connection, *, from_s: int, to_s: int | None = None, app: str | None = None
) -> dict[int, Tally]:
    """
    Sum the buckets that start in [from_s, to_s), by stream id.

    Costs the buckets in the window, however many samples are behind them.
    """
    tallies = {
        row.stream_id: Tally(**{name: _number(row, name) for name in TALLY_SUMS})
        for row in connection.execute(_sum_of_buckets(from_s, to_s, app))
    }
    histograms: dict[int, Counter[int]] = {}
    for stream_id, position, count in connection.execute(_sum_of_bins(from_s, to_s, app)):
        histograms.setdefault(stream_id, Counter())[position] = int(count)
    return {
        stream_id: replace(tally, histogram=histograms.get(stream_id, Counter()))
        for stream_id, tally in tallies.items()
    }


def bucket_sums(
    connection: Connection, stream_id: int, *, from_s: int, to_s: int
) -> list[tuple[float, ...]]:
    """List the buckets of one stream in [from_s, to_s): start, then `BASELINE_SUMS`, in order."""
    columns = (buckets.c.start_s, *(buckets.c[name] for name in BASELINE_SUMS))
    query = (
        select(*columns)
        .where(
            buckets.c.stream_id == stream_id,
            buckets.c.start_s >= from_s,
            buckets.c.start_s < to_s,
        )
        .order_by(buckets.c.start_s)
    )
    return [tuple(float(value) for value in row) for row in connection.execute(query)]


def series(
    connection: Connection, stream_ids: Iterable[int], *, from_s: int, step_s: int
) -> dict[int, dict[int, Tally]]:
    """Sum buckets to steps of *step_s* seconds since *from_s*, for charts; gaps stay gaps."""
    step = (buckets.c.start_s - buckets.c.start_s % step_s).label("step_s")
    query = (
        select(
            buckets.c.stream_id,
            step,
            *(func.sum(buckets.c[name]).label(name) for name in TALLY_SUMS),
        )
        .where(buckets.c.stream_id.in_(list(stream_ids)), buckets.c.start_s >= from_s)
        .group_by(buckets.c.stream_id, step)
    )
    found: dict[int, dict[int, Tally]] = {}
    for row in connection.execute(query):
        tally = Tally(**{name: _number(row, name) for name in TALLY_SUMS})
        found.setdefault(row.stream_id, {})[int(row.step_s)] = tally
    return found


def _sum_of_buckets(from_s: int, to_s: int | None, app: str | None) -> Select[Any]:
    sums = (func.sum(buckets.c[name]).label(name) for name in TALLY_SUMS)
    query = select(buckets.c.stream_id, *sums).where(buckets.c.start_s >= from_s)
    if to_s is not None:
        query = query.where(buckets.c.start_s < to_s)
    return _of_app(query, buckets.c.stream_id, app).group_by(buckets.c.stream_id)


def _sum_of_bins(from_s: int, to_s: int | None, app: str | None) -> Select[Any]:
    table = bucket_bins
    query = select(table.c.stream_id, table.c.bin, func.sum(table.c.count)).where(
        table.c.start_s >= from_s
    )
    if to_s is not None:
        query = query.where(table.c.start_s < to_s)
    return _of_app(query, table.c.stream_id, app).group_by(table.c.stream_id, table.c.bin)


def _of_app(query: Select[Any], stream_id: Column[Any], app: str | None) -> Select[Any]:
    if app is None:
        return query
    return query.where(stream_id.in_(select(streams.c.stream_id).where(streams.c.app == app)))


def _number(row: Row[Any], name: str) -> Any:
    """Read a sum: PostgreSQL gives Decimal for whole numbers."""
    value = getattr(row, name)
    return float(value) if name.startswith("sum_") else int(value)
