"""
Compute every total of the store two ways: ledger, samples, evaluations, buckets, roll-ups.

Sums over all time are read from small tables; those over rows are taken of a window,
by their index, so that a store of any size can be checked. Everything is one
transaction, which sees one state. `sums_of_store` lists the checks, a `Sum` is one figure
beside its counterpart, a `Reconciliation` is the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal, select, type_coerce

from monitor.models import ROOT, Tally
from monitor.store.columns import SegmentsColumn, time_of
from monitor.store.ledger import Kind, read_totals
from monitor.store.query import (
    BUCKETS,
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    LEVELS,
    read_marks,
    window_tallies,
)
from monitor.store.samples import evaluations_of
from monitor.store.tables import (
    counts,
    dead_letters,
    evaluations,
    hooks,
    samples,
    streams,
    totals,
)

#: The ledger is kept by the hour at least for longer than this.
_BY_HOURS_S = 30 * DAY_S
#: What ended, by the word for it in the ledger.
ENDED = (Kind.SCORED, Kind.FAILED, Kind.SKIPPED, Kind.EXPIRED)
#: What hooks count.
COUNTED_BY_HOOKS = (
    *(Kind.SEEN, Kind.SAMPLED, Kind.SENT, Kind.DROPPED, Kind.ERRORED, Kind.UNSEEN, Kind.FEEDBACK),
)
#: Sums of a bucket that are compared; the others move with them, in the same statement.
_SUMS = ("n", "passed", "failed", "skipped", "sum_w", "sum_wy", "sum_x")
#: Sums of fractions differ by rounding, in proportion to their size.
_CRUMB = 1e-6
#: So many samples are read at once.
_AT_ONCE = 1_000


def window_start(now_s: float, window_s: float, bucket_s: int) -> int:
    """Return the start of a window, where an hour and a bucket begin; of a long one, a day."""
    width_s = math.lcm(HOUR_S if window_s <= _BY_HOURS_S else DAY_S, bucket_s)
    return int(now_s - window_s) // width_s * width_s


def sums_of_store(connection: Connection, *, since_s: int) -> Iterator[Sum]:
    """Yield every sum of the store beside its counterpart; those over rows since *since_s*."""
    yield from check_ledger(connection)
    yield from check_samples(connection, since_s)
    yield from check_buckets(connection, since_s)
    yield from check_segments(connection, since_s)
    yield from check_roll_ups(connection, since_s)
    if knows_all_buckets(connection):
        yield from check_streams(connection)


def check_ledger(connection: Connection) -> Iterator[Sum]:
    """Compare the ledger with what hooks counted, and with the ledger by time."""
    t = totals.c
    ledger = _counted(connection, select(t.app, t.kind, t.reason, t.count))
    hooked: Counter[tuple[str, str, str]] = Counter()
    for app, values in connection.execute(select(hooks.c.app, hooks.c.counters)):
        for name, n in values.items():
            kind, _, reason = name.partition(":")
            hooked[app, kind, reason] += n
    booked = {key: n for key, n in ledger.items() if key[1] in COUNTED_BY_HOOKS}
    yield from compare("hook counters = ledger", hooked, booked)
    yield from compare("ledger by time = ledger", _ledger_by_time(connection), ledger)


def _ledger_by_time(connection: Connection, *where: ColumnElement[bool]) -> Counter[Any]:
    key = (counts.c.app, counts.c.kind, counts.c.reason)
    query = select(*key, func.sum(counts.c.count)).where(*where).group_by(*key)
    return _counted(connection, query)


def _counted(connection: Connection, query: Select[Any]) -> Counter[Any]:
    """Return the last column of each row by the others."""
    return Counter({tuple(key): int(n) for *key, n in connection.execute(query)})


def check_samples(connection: Connection, since_s: int) -> Iterator[Sum]:
    """Compare the rows of samples and dead letters, by how they ended, with the ledger."""
    found: Counter[Any] = Counter()
    key = (samples.c.app, samples.c.outcome, samples.c.reason)
    for app in sorted(read_totals(connection)):
        of_app = (samples.c.app == app) & (samples.c.occurred_at_ms >= since_s * 1000)
        found += _counted(connection, select(*key, func.count()).where(of_app).group_by(*key))
    letters = dead_letters.c
    failed = literal(Kind.FAILED.value)
    found += _counted(
        connection,
        select(letters.app, failed, letters.reason, func.count())
        .where(letters.at >= time_of(since_s * 1000), letters.state != "retrying")
        .group_by(letters.app, letters.reason),
    )
    kinds = counts.c.kind.in_([kind.value for kind in ENDED])
    expected = _ledger_by_time(connection, counts.c.start_s >= since_s, kinds)
    yield from compare("samples = ledger", found, expected)


def check_buckets(connection: Connection, since_s: int) -> Iterator[Sum]:
    """Compare buckets, read as every reader reads them, with the evaluations behind them."""
    columns = (streams.c.app, streams.c.metric, streams.c.evaluator_version)
    query = select(streams.c.stream_id, *columns).where(streams.c.segment == ROOT)
    keys = {row[0]: (row[1], row[2], row[3]) for row in connection.execute(query)}
    tallies = window_tallies(connection, from_s=since_s)
    rows = {i: evaluation_sums(connection, key, since_s) for i, key in keys.items()}
    for column in ("n", "passed", "failed", "skipped", "sum_x"):
        yield from compare(
            "buckets = evaluations",
            {(*keys[i], column): getattr(tally, column) for i, tally in tallies.items()},
            {(*keys[i], column): row[column] for i, row in rows.items()},
        )
    yield from compare(
        "histograms = buckets",
        {keys[i]: tally.histogram.total() for i, tally in tallies.items()},
        {keys[i]: tally.n for i, tally in tallies.items()},
    )


def evaluation_sums(
    connection: Connection, key: tuple[str, str, str], since_s: int
) -> dict[str, float]:
    """Return the sums of one app, metric and evaluator version over the rows of evaluations."""
    c = evaluations.c
    columns = {
        "rows": func.count(),
        "n": func.count(c.score),
        "skipped": func.count(case((c.score.is_(None) & (c.status == "skipped"), 1))),
        "passed": func.coalesce(func.sum(c.passed), 0),
        "sum_x": func.coalesce(func.sum(c.score), 0.0),
    }
    query = select(*(column.label(name) for name, column in columns.items())).where(
        evaluations_of(key[0], key[1]),
        c.evaluator_version == key[2],
        c.occurred_at_ms >= since_s * 1000,
    )
    sums = dict(connection.execute(query).mappings().one())
    whole = {name: int(sums[name]) for name in ("n", "passed", "skipped")}
    failed = int(sums["rows"]) - whole["n"] - whole["skipped"]
    return whole | {"failed": failed, "sum_x": float(sums["sum_x"])}


def check_segments(connection: Connection, since_s: int) -> Iterator[Sum]:
    """Compare the buckets of segments with the evaluations of the samples that lie in them."""
    tallies = window_tallies(connection, from_s=since_s, segment=None, histograms=False)
    columns = (streams.c.app, streams.c.metric, streams.c.evaluator_version, streams.c.segment)
    query = select(streams.c.stream_id, *columns).where(streams.c.segment != ROOT)
    found = {
        tuple(key): tallies.get(stream_id, Tally()).n
        for stream_id, *key in connection.execute(query)
    }
    s, e = samples.c, evaluations.c
    packed = type_coerce(s.payload, SegmentsColumn)
    query = select(s.app, e.metric, e.evaluator_version, packed, s.segments)
    scored = query.join(evaluations, e.position == s.position).where(e.score.is_not(None))
    expected: Counter[Any] = Counter()
    for app in sorted({key[0] for key in found}):
        of_app = scored.where(s.app == app, s.occurred_at_ms >= since_s * 1000)
        rows = connection.execute(of_app, execution_options={"yield_per": _AT_ONCE})
        for *key, listed, before in rows:
            expected.update((*key, segment) for segment in listed or before)
    yield from compare("segments = evaluations", found, expected)


def check_roll_ups(connection: Connection, since_s: int) -> Iterator[Sum]:
    """Compare hours with their buckets and days with their hours, where both are kept."""
    marks = read_marks(connection)
    for narrow, wide in ((BUCKETS, HOURS), (HOURS, DAYS)):
        width_s = wide.width_s
        from_s = -(-max(marks[narrow.name].kept_from_s, since_s) // width_s) * width_s
        to_s = marks[wide.name].complete_to_s
        if from_s >= to_s:
            continue
        histograms = f"histograms of {wide.name}s = of {narrow.name}s"
        for check, tables, names in (
            (f"{wide.name}s = {narrow.name}s", (wide.sums, narrow.sums), _SUMS),
            (histograms, (wide.bins, narrow.bins), ("count",)),
        ):
            sums = []
            for table in tables:
                summed = (func.coalesce(func.sum(table.c[name]), 0).label(name) for name in names)
                # Over all streams, each found by its key.
                query = (
                    select(*summed)
                    .select_from(streams.join(table, streams.c.stream_id == table.c.stream_id))
                    .where(streams.c.last_bucket_s >= from_s)
                    .where(table.c.start_s >= from_s, table.c.start_s < to_s)
                )
                # As whole numbers and fractions: PostgreSQL sums whole numbers to decimals.
                sums.append(
                    {
                        str(name): float(value) if str(name).startswith("sum_") else int(value)
                        for name, value in connection.execute(query).mappings().one().items()
                    }
                )
            yield from compare(check, *sums)


def check_streams(connection: Connection) -> Iterator[Sum]:
    """Compare what each stream ever counted with all its buckets."""
    tallies = window_tallies(connection, from_s=0, segment=None, histograms=False)
    columns = (streams.c.app, streams.c.metric, streams.c.segment, streams.c.evaluator_version)
    query = select(streams.c.stream_id, streams.c.n_total, streams.c.sum_wy, *columns)
    found: dict[Any, float] = {}
    expected: dict[Any, float] = {}
    for stream_id, n_total, sum_wy, *key in connection.execute(query):
        tally = tallies.get(stream_id, Tally())
        found[(*key, "n")], expected[(*key, "n")] = int(n_total), tally.n
        found[(*key, "sum_wy")], expected[(*key, "sum_wy")] = float(sum_wy), tally.sum_wy
    yield from compare("streams = buckets", found, expected)


def knows_all_buckets(connection: Connection) -> bool:
    """Return whether nothing was counted in days that were deleted by their age."""
    kept_from_s = read_marks(connection)[LEVELS[-1].name].kept_from_s
    first_s = connection.execute(select(func.min(counts.c.start_s))).scalar()
    return first_s is None or int(first_s) >= kept_from_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """
    One sum, and its counterpart that was counted elsewhere.

    ``above`` and ``below`` say by how much the sum may be larger or smaller than its
    counterpart while nothing is wrong, such as by what is on its way.
    """

    check: str
    where: str
    found: float
    expected: float
    below: float = 0
    above: float = 0

    @property
    def difference(self) -> float:
        """By how much the sum is larger than its counterpart."""
        return self.found - self.expected

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        crumb = _CRUMB * max(1.0, abs(self.found), abs(self.expected))
        whole = isinstance(self.found, int) and isinstance(self.expected, int)
        slack = 0.0 if whole else crumb
        return -self.below - slack <= self.difference <= self.above + slack


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """All sums of one kind, added up, with those that do not agree."""

    name: str
    sums: int
    found: float
    expected: float
    wrong: Sequence[Sum]

    @property
    def difference(self) -> float:
        """The differences of all sums, without their signs: two errors never cancel out."""
        return sum(abs(item.difference) for item in self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Every sum beside its counterpart, and notes on what cannot be known."""

    since_s: int
    sums: Sequence[Sum]
    notes: Sequence[str] = ()
    complete: bool = True  #: False where the queue could not be read

    @property
    def holds(self) -> bool:
        """Whether all sums agree, those of the queue among them."""
        return self.complete and all(item.holds for item in self.sums)

    @property
    def checks(self) -> list[Check]:
        """The sums by kind, in the order in which they were taken."""
        by_name: dict[str, list[Sum]] = {}
        for item in self.sums:
            by_name.setdefault(item.check, []).append(item)
        return [
            Check(
                name=name,
                sums=len(items),
                found=sum(item.found for item in items),
                expected=sum(item.expected for item in items),
                wrong=[item for item in items if not item.holds],
            )
            for name, items in by_name.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Write it as plain values; of the sums that agree only how many there are."""
        figures = ("found", "expected", "difference")

        def plain(item: Sum | Check) -> dict[str, Any]:
            return {name: getattr(item, name) for name in figures}

        checks = [
            {"check": check.name, "sums": check.sums}
            | plain(check)
            | {"wrong": [{"where": item.where} | plain(item) for item in check.wrong]}
            for check in self.checks
        ]
        return {
            "holds": self.holds, "complete": self.complete, "since_s": self.since_s,
            "checks": checks, "notes": list(self.notes),
        }  # fmt: skip


def compare(check: str, found: Mapping[Any, float], expected: Mapping[Any, float]) -> Iterable[Sum]:
    """Set two families of sums beside each other; one that is missing on a side is 0 there."""
    for key in sorted(found.keys() | expected.keys(), key=str):
        parts = key if isinstance(key, tuple) else (key,)
        where = " ".join(str(part) for part in parts if part != "")
        yield Sum(check=check, where=where, found=found.get(key, 0), expected=expected.get(key, 0))
