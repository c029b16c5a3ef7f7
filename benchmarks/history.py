"""
Whether anything grows with the store: the same work beside 1, 10 and 100 days of samples.

    python benchmarks/history.py DATABASE_URL [--per-day 100000] [--days 1,10,100]

An empty PostgreSQL on this machine, as a superuser; 3 GB a million samples. One of version 18 with
``wal_level=minimal`` indexes ten million in a quarter of an hour. A day of 20 apps is written as
workers write it and copied into the past by SQL: samples, evaluations and index under new ids, the
sums as roll-up and retention leave them. Texts are short (40 words), as their number is what
matters here. CPU in milliseconds, of this process and of the database's connections.
"""
# ruff: noqa: S608 - no SQL is from outside

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from common import print_head, print_row, script
from made import SHORT, Maker, scheduler_of, write
from samples import cpu_s, filters, measure
from sqlalchemy import Connection, Row, Table, text

from monitor.models.status import TALLY_SUMS
from monitor.settings import Settings
from monitor.store.columns import facet
from monitor.store.engine import Store
from monitor.store.retention import Retention, size_bytes
from monitor.store.rollup import BUCKETS, DAY_S, DAYS, HOUR_S, HOURS, roll_up
from monitor.store.sample_filter import SampleFilter
from monitor.store.sample_index import TERMS
from monitor.store.schema import migrate
from monitor.store.tables import counts, input_bins
from monitor.web.overview import OverviewReader, PipelineState
from workers.context import Components

_BATCH, _FIRST_BATCH, _APPS, _LOOKS = 50, 500, 20, 7
_ROWS = ("groundwatch_samples", "groundwatch_scores", TERMS)
#: Level, what it is summed from, and how many days it is kept.
_LEVELS = ((BUCKETS, BUCKETS, 2), (HOURS, HOURS, 35), (DAYS, HOURS, 400))
_INDEXES = """
    SELECT i.indexname, i.indexdef, i.tablename, pg_get_constraintdef(c.oid)
    FROM pg_indexes i LEFT JOIN pg_constraint c ON c.conname = i.indexname
    WHERE i.tablename = ANY(:tables) AND i.indexname <> 'ix_groundwatch_samples_position'
"""
#: What only a session has, such as its id, is apart: in other days it is another one.
_POOL_OF_TERMS = f"""
    CREATE TABLE pool_rare AS SELECT number FROM {TERMS}, unnest(facets[2:]) AS f(number)
    GROUP BY number HAVING count(*) < 6;
    CREATE TABLE pool_parts AS SELECT position,
    array_agg(f.number) FILTER (WHERE r IS NULL) AS common,
    array_agg(f.number) FILTER (WHERE r IS NOT NULL) AS rare
    FROM {TERMS}, unnest(facets[2:]) AS f(number) LEFT JOIN pool_rare r USING (number)
    GROUP BY position;
    CREATE TABLE pool_{TERMS} AS SELECT position, words, rare, facets[1:1] || common AS facets
    FROM {TERMS} JOIN pool_parts USING (position)
"""


class History:
    """A store whose last day ends at *end*; ``days`` is how far it goes back."""

    def __init__(self, store: Store, per_day: int, end: datetime) -> None:
        self.store, self.per_day, self.end, self.days = store, per_day, end, 1
        self.now = end + timedelta(minutes=15)
        self._maker = Maker(SHORT)
        for n in range(_FIRST_BATCH, per_day + 1, _FIRST_BATCH):
            self.write(end - timedelta(days=1 - n / per_day), _FIRST_BATCH)
        roll_up(store, now_s=end.timestamp() + HOUR_S, settle_s=600)
        with self._loading() as connection:
            tables = [table for level, _, _ in _LEVELS for table in (level.sums, level.bins)]
            for name in (*_ROWS[:2], *(table.name for table in (*tables, counts, input_bins))):
                connection.execute(text(f"CREATE TABLE pool_{name} AS TABLE {name}"))
            for statement in _POOL_OF_TERMS.split(";"):
                connection.execute(text(statement))
            connection.execute(text(f"TRUNCATE {DAYS.sums.name}, {DAYS.bins.name}"))
            self._copy_sums(connection, range(1))

    def write(self, at: datetime, n: int = _BATCH) -> None:
        """Write the samples of one transaction of a worker, the last of them of *at*."""
        every = timedelta(days=1) / self.per_day
        results = [self._maker.result(at - back * every) for back in range(n, 0, -1)]
        write(self.store, results, n)

    def reach(self, days: int) -> None:
        """Copy the first day until there are so many."""
        more, self.days = range(self.days, days), days
        if not more:
            return
        with self._loading() as connection:
            indexes = connection.execute(text(_INDEXES), {"tables": list(_ROWS)}).all()
            for name, _, table, constraint in indexes:
                drop = f"ALTER TABLE {table} DROP CONSTRAINT" if constraint else "DROP INDEX"
                connection.execute(text(f"{drop} {name}"))
            for back in more:
                _copy_rows(connection, back)
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(self._make_index, indexes))
            self._copy_sums(connection, more)
            marks = "DELETE FROM groundwatch_levels WHERE level IN ('texts', 'samples')"
            for statement in (marks, "VACUUM ANALYZE"):
                connection.execute(text(statement))

    def _make_index(self, index: Row[Any]) -> None:
        name, definition, table, constraint = index
        add = f"ALTER TABLE {table} ADD CONSTRAINT {name} {constraint}"
        with self._loading() as connection:
            connection.execute(text(add if constraint else definition))

    @contextmanager
    def _loading(self) -> Iterator[Connection]:
        engine = self.store.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("SET session_replication_role = replica"))  # no foreign keys
            connection.execute(text("SET maintenance_work_mem = '1GB'"))
            yield connection
            connection.execute(text("RESET ALL"))

    def _copy_sums(self, connection: Connection, days: Sequence[int]) -> None:
        """Copy what the levels keep of these days."""
        end_s = int(self.end.timestamp())
        complete_s = {HOURS: end_s, DAYS: end_s // DAY_S * DAY_S, BUCKETS: 0}
        for level, source, kept in _LEVELS:
            # Of the first day there are minutes and hours already.
            first = days[0] if level is DAYS else max(1, days[0])
            for back in range(first, min(days[-1] + 1, kept)):
                for into, of, sums in (
                    (level.sums, source.sums, TALLY_SUMS), (level.bins, source.bins, ["count"]),
                ):  # fmt: skip
                    to_s = complete_s[DAYS] if level is DAYS else end_s
                    _copy_shifted(connection, into, of, sums, back, level.width_s, to_s)
            kept_from_s = end_s // DAY_S * DAY_S - kept * DAY_S if days[-1] else 0
            mark = "UPDATE groundwatch_levels SET kept_from_s = :kept, complete_to_s = :to"
            connection.execute(
                text(f"{mark} WHERE level = :name"),
                {"kept": kept_from_s, "to": complete_s[level], "name": level.name},
            )
        for back in range(max(1, days[0]), days[-1] + 1):
            width_s = 60 if back < 9 else HOUR_S
            _copy_shifted(connection, counts, counts, ["count"], back, width_s, end_s)
            if back < 35:
                _copy_shifted(connection, input_bins, input_bins, ["count"], back, HOUR_S, end_s)


def _copy_rows(connection: Connection, back: int) -> None:
    """Copy the rows of the first day so many days into the past."""
    ms, release = back * DAY_S * 1000, f"v{1 + back // 10}"
    # The first 48 bits of an id are its time.
    time_of_id = "('x' || replace(left(sample_id, 13), '-', ''))::bit(48)::bigint"
    moved = f"lpad(to_hex({time_of_id} - {ms}), 12, '0')"
    changed = {
        "sample_id": f"left({moved}, 8) || '-' || right({moved}, 4) || substr(sample_id, 14)",
        "trace_id": f"left(trace_id, 28) || '{back:04}'",
        "session_id": f"session_id || '-{back}'",
        "occurred_at_ms": f"occurred_at_ms - {ms}",
        "received_at_ms": f"received_at_ms - {ms}",
        "position": f"position - ({ms}::bigint << 21)",
        "release": f"'{release}'",
        "facets": f"array_replace(facets, {facet('release', 'v0')}, {facet('release', release)})"
        f" || ARRAY(SELECT number + {back} FROM unnest(rare) AS r(number))",
    }
    for table in _ROWS:
        names = connection.execute(text(f"SELECT * FROM {table} LIMIT 0")).keys()
        values = ", ".join(changed.get(name, name) for name in names)
        into = f"INSERT INTO {table} ({', '.join(names)})"
        connection.execute(text(f"{into} SELECT {values} FROM pool_{table}"))


def _copy_shifted(
    connection: Connection, into: Table, of: Table, sums: Sequence[str], back: int, width_s: int,
    to_s: int,
) -> None:  # fmt: skip
    """Add the sums of the first day to those of an earlier one, in steps of *width_s*."""
    at = f"(start_s - {back * DAY_S}) / {width_s} * {width_s}"
    key = [column.name for column in into.primary_key]
    by = ", ".join(at if name == "start_s" else name for name in key)
    connection.execute(text(
        f"INSERT INTO {into.name} ({', '.join([*key, *sums])})"
        f" SELECT {by}, {', '.join(f'sum({name})' for name in sums)} FROM pool_{of.name}"
        f" WHERE {at} < {to_s} GROUP BY {by} ON CONFLICT ({', '.join(key)}) DO UPDATE SET "
        + ", ".join(f"{name} = {into.name}.{name} + excluded.{name}" for name in sums)
    ))  # fmt: skip


def look(history: History, context: Components) -> Iterator[tuple[str, float]]:
    """Do what the product does all the time; yield milliseconds of CPU by what was done."""
    store, settings = history.store, context.settings
    evaluator, explainer, lease = scheduler_of(context)
    overview = OverviewReader(
        store, settings, lambda: history.now, lambda: PipelineState(by_app={})
    )
    steps: dict[str, Callable[[], object]] = {
        "writing 50 samples": lambda: history.write(history.now),
        "status tick": lambda: evaluator.run(lease, now=history.now),
        "overview": overview.read,
        "insights": lambda: explainer.run(lease, now=history.now),
    }
    for number in range(_LOOKS):
        history.now += timedelta(seconds=15)
        for name, step in steps.items():
            began_s = cpu_s(store)
            step()
            if number > 1:  # the first reads everything
                yield name, 1000 * (cpu_s(store) - began_s)
        time.sleep(2.1)  # longer than an overview is served
    middle = history.end - timedelta(days=history.days / 2)
    for _, wanted, sort in filters(0):
        moved = dict(wanted)
        if "release" in moved:
            moved["release"] = f"v{(history.days + 8) // 10}"
        if "since" in moved:
            moved |= {"since": middle, "until": middle + timedelta(hours=1)}
        for far, page in ((False, "first"), (True, "thousandth")):
            took_ms, _ = measure(store, SampleFilter(**moved), sort, far=far)
            yield f"samples, {page} page: median of 22 filters", took_ms
            yield f"samples, {page} page: slowest", took_ms
    yield from _retention(history)


def _retention(history: History) -> Iterator[tuple[str, float]]:
    """Blank the oldest samples, then delete them; the horizon leaves the rest alone."""
    oldest = text("SELECT received_at_ms FROM groundwatch_samples ORDER BY 1 OFFSET :n LIMIT 1")
    with history.store.read() as connection:
        n = max(_FIRST_BATCH, history.per_day // 20)
        horizon_s = connection.execute(oldest, {"n": n}).scalar_one() / 1000
    for name, days in (("texts", 1e4), ("samples", 0.0)):
        days_of = {"keep_texts_days": 0.0, "keep_evaluations_days": days}
        kept = Settings().retention.model_copy(update=days_of)
        retention = Retention(store=history.store, kept=kept, budget_s=600.0)
        began_s = cpu_s(history.store)
        done = retention.run(horizon_s)
        used_s = cpu_s(history.store) - began_s
        yield f"retention: 1,000 {name}", 1e6 * used_s / done[name]


@script
def main(url: str, *, per_day: int = 100_000, days: str = "1,10,100") -> None:
    """Print a column for each size of the store."""
    columns: dict[int, dict[str, float]] = {}
    settings = Settings.from_env({"GROUNDWATCH_DATABASE_URL": url})
    with closing(Components(settings)) as context:
        migrate(context.store)
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        history = History(context.store, per_day, end)
        for n in map(int, days.split(",")):
            history.reach(n)
            with context.store.read() as connection:
                size = size_bytes(connection)
            print(f"{n * per_day:,} samples: {size / 1e9:.1f} GB", flush=True)
            found = defaultdict[str, list[float]](list)
            for name, took_ms in look(history, context):
                found[name].append(took_ms)
            columns[n * per_day] = {
                name: max(each) if name.endswith("slowest") else statistics.median(each)
                for name, each in found.items()
            }
    print_head("CPU in ms", *(f"{n:,} samples" for n in columns))
    for name in next(iter(columns.values())):
        print_row(name, *(f"{column[name]:,.1f}" for column in columns.values()))
