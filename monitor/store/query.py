"""
What the product reads from the buckets: streams, windows, series over time and costs.

A window is summed from the widest rows that hold it: `pieces` cuts it into minutes, hours and days.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, Table, bindparam, case, func, select, tuple_

from monitor.models import ROOT, StreamKey, Tally
from monitor.models.evaluation import OWN_LEARNT_AT
from monitor.models.status import TALLY_SUMS
from monitor.stats.agreement import level_lines
from monitor.store.columns import matches
from monitor.store.engine import insert_new
from monitor.store.tables import (
    bucket_bins,
    buckets,
    day_bins,
    day_buckets,
    evaluators,
    hour_bins,
    hour_buckets,
    levels,
    pass_lines,
    streams,
)

HOUR_S, DAY_S = 3600, 86_400
#: Sums that a stream keeps of all it ever counted.
STREAM_SUMS = ("sum_w", "sum_w2", "sum_wy")
#: Sums of a bucket from which a baseline is learned.
BASELINE_SUMS = ("n", "sum_w", "sum_w2", "sum_wy", "sum_w2y", "sum_w2yy")


@dataclass(frozen=True, slots=True)
class Stream:
    """
    A stream with how much it has counted, ever, and when it last counted anything.

    Without what was older than the status window when it came: that is not current.
    """

    stream_id: int
    key: StreamKey
    n_total: int
    last_bucket_s: int
    sum_w: float
    sum_w2: float
    sum_wy: float


def past_name(name: str) -> str:
    """Return the column with the part of a stream's sum that was not current when it came."""
    return name.replace("sum_", "past_")


def shared_values(connection: Connection, *, since_s: float) -> dict[str, list[str]]:
    """
    Return the segments ``model=...`` and ``release=...`` that each app's newest samples are of.

    One of each at most, of those that counted something since *since_s*, in epoch seconds; of
    several in use at once the one with the most samples.
    """
    c = streams.c
    query = select(c.app, c.segment).where(
        c.last_bucket_s >= math.ceil(since_s),
        c.segment.startswith("model=") | c.segment.startswith("release="),
    )
    rows = connection.execute(query.order_by(c.last_bucket_s, c.n_total, c.stream_id))
    found: dict[str, dict[str, str]] = {}
    for app, segment in rows:
        found.setdefault(app, {})[segment.partition("=")[0]] = segment
    return {app: list(values.values()) for app, values in found.items()}


def evaluated_metrics(connection: Connection, app: str | None = None) -> list[str]:
    """Return the metrics that anything, or an *app*, was evaluated by, sorted."""
    found = select(evaluators.c.metric).where(matches(evaluators.c.app, app)).distinct()
    return sorted(connection.scalars(found))


def active_streams(
    connection: Connection,
    *,
    since_s: float,
    current_since_s: float | None = None,
    segment: str | None = ROOT,
    app: str | None = None,
) -> list[Stream]:
    """
    List the streams that counted something since *since_s*, one version of each.

    Those of *segment* only, which is the whole app by default, None for all;
    and of one *app* only when it is named.

    Of several evaluator versions of a metric the newest one speaks that counted
    since *current_since_s*, or else the one that was used last. So two workers with
    different judges do not take turns.
    """
    # PostgreSQL uses the index for a whole number only.
    query = select(streams).where(
        streams.c.last_bucket_s >= math.ceil(since_s),
        matches(streams.c.segment, segment),
        matches(streams.c.app, app),
    )
    rows = connection.execute(query)
    found = [
        Stream(
            row.stream_id,
            StreamKey(row.app, row.metric, row.segment, row.evaluator_version),
            row.n_total - row.past_n,
            row.last_bucket_s,
            *(getattr(row, name) - getattr(row, past_name(name)) for name in STREAM_SUMS),
        )
        for row in rows
    ]
    current_s = since_s if current_since_s is None else current_since_s
    # By whether it is current; then by when it began, or else by when it last counted anything.
    found.sort(
        key=lambda stream: (
            (True, stream.stream_id)
            if stream.last_bucket_s >= current_s
            else (False, stream.last_bucket_s)
        )
    )
    speaking = {stream.key[:3]: stream for stream in found}
    return [speaking[key] for key in sorted(speaking)]


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


_LEVELS = select(levels)
_LOCKED_LEVELS = _LEVELS.with_for_update(read=True)


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
    found = {
        row.level: RollupMark(row.complete_to_s, row.kept_from_s)
        for row in connection.execute(_LOCKED_LEVELS if lock else _LEVELS)
    }
    return {name: found.get(name, RollupMark()) for name in names}


def ensure_marks(connection: Connection) -> None:
    """Insert the rows of the marks, so that there is something to lock."""
    rows = [{"level": level.name, "complete_to_s": 0, "kept_from_s": 0} for level in LEVELS]
    insert_new(connection, levels, rows, returning=levels.c.level)


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


def window_tallies(
    connection: Connection,
    *,
    from_s: int,
    to_s: int | None = None,
    app: str | None = None,
    segment: str | None = ROOT,
    histograms: bool = True,
) -> dict[int, Tally]:
    """
    Sum the buckets that start in [from_s, to_s), by stream id; hours and days where it can be.

    Costs the rows in the window, however many samples are behind them; without histograms,
    which have the most rows, far fewer. Of the whole app unless another *segment* is named;
    None for all of them.
    """
    of = {name: value for name, value in (("app", app), ("segment", segment)) if value is not None}
    found: dict[int, list[Tally]] = {}
    for piece in pieces(from_s, to_s, read_marks(connection)):
        bins: dict[int, Counter[int]] = {}
        if histograms:
            rows = _summed(connection, piece.level.bins, piece, ("bin", "count"), **of)
            for stream_id, position, count in rows:
                bins.setdefault(stream_id, Counter())[position] = int(count)
        for stream_id, *sums in _summed(connection, piece.level.sums, piece, TALLY_SUMS, **of):
            found.setdefault(stream_id, []).append(_tally(sums, bins.get(stream_id)))
    return {stream_id: Tally.total(parts) for stream_id, parts in found.items()}


def bucket_sums(
    connection: Connection, stream_id: int, *, from_s: int, to_s: int
) -> list[tuple[float, ...]]:
    """
    List the buckets of one stream in [from_s, to_s): start, then `BASELINE_SUMS`, in order.

    Where the buckets are gone, hours stand for them.
    """
    kept_from_s = read_marks(connection)[BUCKETS.name].kept_from_s
    found: list[tuple[float, ...]] = []
    for table, begin_s, end_s in (
        (HOURS.sums, from_s, min(to_s, kept_from_s)),
        (BUCKETS.sums, max(from_s, kept_from_s), to_s),
    ):
        if begin_s < end_s:
            given = {"stream_id": stream_id, "begin_s": begin_s, "end_s": end_s}
            found += map(tuple, connection.execute(_baselines_of(table), given).all())
    return found


# Making a statement costs more than reading a few rows does.
@cache
def _baselines_of(table: Table) -> Select[Any]:
    c = table.c
    within = (c.start_s >= bindparam("begin_s")) & (c.start_s < bindparam("end_s"))
    return (
        select(c.start_s, *(c[name] for name in BASELINE_SUMS))
        .where(c.stream_id == bindparam("stream_id"), within)
        .order_by(c.start_s)
    )


def series(
    connection: Connection,
    stream_ids: Iterable[int],
    *,
    from_s: int,
    step_s: int,
    to_s: int | None = None,
) -> dict[int, dict[int, Tally]]:
    """Sum buckets in [from_s, to_s) to steps of *step_s* seconds, in order; gaps stay gaps."""
    found: dict[int, dict[int, Tally]] = {}
    of = {"stream_ids": list(stream_ids), "step_s": step_s}
    for piece in pieces(from_s, to_s, read_marks(connection), widest_s=step_s):
        names = ("step", *TALLY_SUMS)
        for stream_id, at_s, *sums in _summed(connection, piece.level.sums, piece, names, **of):
            steps, tally = found.setdefault(stream_id, {}), _tally(sums)
            before = steps.get(int(at_s))
            steps[int(at_s)] = tally if before is None else before + tally
    return {stream_id: dict(sorted(steps.items())) for stream_id, steps in found.items()}


def _summed(
    connection: Connection, table: Table, piece: Piece, names: tuple[str, ...], **of: Any
) -> Sequence[Any]:
    """Return the stream, then *names*, of the rows of a piece; *of* are values of `_summing`."""
    ends = {} if piece.to_s is None else {"to_s": piece.to_s}
    given = {"from_s": piece.from_s, **ends, **of}
    return connection.execute(_summing(table, names, tuple(given)), given).all()


@cache
def _summing(table: Table, names: tuple[str, ...], given: tuple[str, ...]) -> Select[Any]:
    """
    Return a query that sums the rows of a table, by stream, and by step or bin if they are named.

    By way of the streams, so they are found by their key. SQLite does that only where it is grouped
    by the streams' own column.
    """
    start_s, step_s = table.c.start_s, bindparam("step_s", type_=BigInteger)
    parts: dict[str, Any] = {"step": (start_s - start_s % step_s).label("step")}
    if "bin" in table.c:
        parts["bin"] = table.c.bin
    by = [streams.c.stream_id, *(parts[name] for name in names if name in parts)]
    sums = (func.sum(table.c[name]).label(name) for name in names if name not in parts)
    conditions = {
        "from_s": start_s >= bindparam("from_s"),
        "to_s": start_s < bindparam("to_s"),
        "app": streams.c.app == bindparam("app"),
        "segment": streams.c.segment == bindparam("segment"),
        "stream_ids": streams.c.stream_id.in_(bindparam("stream_ids", expanding=True)),
    }
    return (
        select(*by, *sums)
        .select_from(streams.join(table, streams.c.stream_id == table.c.stream_id))
        .where(
            streams.c.last_bucket_s >= bindparam("from_s"),
            *(condition for name, condition in conditions.items() if name in given),
        )
        .group_by(*by)
    )


#: PostgreSQL gives Decimal for whole numbers.
_KINDS: Sequence[Callable[[Any], Any]] = tuple(
    float if name.startswith("sum_") else int for name in TALLY_SUMS
)


def _tally(sums: Sequence[Any], histogram: Counter[int] | None = None) -> Tally:
    values = {name: kind(value) for name, kind, value in zip(TALLY_SUMS, _KINDS, sums, strict=True)}
    return Tally(**values, histogram=Counter() if histogram is None else histogram)


class PassLine(NamedTuple):
    """An app's own pass line, and how many of its first scores it is learnt from so far."""

    line: float
    n: int


def read_first_scores(connection: Connection, key: LineKey) -> dict[int, int]:
    """Read an app's first scores by hundredths, from which its own lines are learnt."""
    c = pass_lines.c
    query = select(c.bins).where(tuple_(c.app, c.metric, c.evaluator_version) == key)
    bins = connection.execute(query).scalar() or {}
    return {int(position): int(count) for position, count in bins.items()}


def read_level_lines(connection: Connection, key: LineKey) -> tuple[int, ...]:
    """Return the hundredths that part scores into bands to label; none before an app has a line."""
    first = read_first_scores(connection, key)
    return level_lines(first) if sum(first.values()) >= OWN_LEARNT_AT[0] else ()


def passes_from_bins(
    connection: Connection, stream_id: int, positions: Sequence[int], *, from_s: int
) -> list[tuple[int, int, list[int]]]:
    """List start, scores, and scores from each of *positions* hundredths on, of minutes since."""
    table = BUCKETS.bins
    above = [func.sum(case((table.c.bin >= p, table.c.count), else_=0)) for p in positions]
    query = (
        select(table.c.start_s, func.sum(table.c.count), *above)
        .where(table.c.stream_id == stream_id, table.c.start_s >= from_s)
        .group_by(table.c.start_s)
        .order_by(table.c.start_s)
    )
    rows = connection.execute(query)
    return [(start_s, int(n), [int(count) for count in passed]) for start_s, n, *passed in rows]


LineKey = tuple[str, str, str]  #: app, metric and evaluator version


def read_pass_lines(connection: Connection) -> dict[LineKey, PassLine]:
    """Read the pass line of every app that has one of its own."""
    c = pass_lines.c
    rows = connection.execute(select(c.app, c.metric, c.evaluator_version, c.line, c.n))
    return {(app, metric, version): PassLine(line, n) for app, metric, version, line, n in rows}


def cost_usd_since(connection: Connection, since_s: float, app: str | None = None) -> float:
    """
    Return what was spent on samples since *since_s*, of all apps or one, in US dollars.

    Where the buckets are gone, the hour or the day that holds *since_s* counts whole.
    """
    # What a segment cost is in the whole app's sum already.
    of = {"segment": ROOT} if app is None else {"segment": ROOT, "app": app}
    microusd = sum(
        float(cost)
        for piece in pieces(int(since_s), None, read_marks(connection))
        for _, cost in _summed(connection, piece.level.sums, piece, ("cost_microusd",), **of)
    )
    return microusd / 1e6
