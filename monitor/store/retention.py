"""
Delete what is older than its age, in small batches, and give the space back.

Each batch is one short transaction, so that no writer waits; the rows of a batch are
found by an index. Safe to repeat, to interrupt and to run twice at once. What sums are
made of is deleted; the sums stay: the ledger is summed to hours and days instead.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, Connection, bindparam, delete, func, select, text

from monitor.models import CustomEvaluation
from monitor.models.interaction import without_texts
from monitor.queue.names import DOCTOR_APP
from monitor.settings.tables import RetentionTimes
from monitor.store.alert_tables import alert_events, alert_groups, incidents, outbox, silences
from monitor.store.columns import facet, pack, record_of, sample_of, segments_of, time_of
from monitor.store.engine import Store, add, compact_json, put
from monitor.store.query import DAY_S, HOUR_S, read_marks
from monitor.store.rollup import Guard
from monitor.store.sample_index import Terms, index_older, remove_terms, replace_terms, terms_of
from monitor.store.tables import (
    audit,
    counts,
    dead_letters,
    evaluations,
    feedback,
    hooks,
    levels,
    rejudged,
    samples,
    scores,
    status_changes,
)

_BATCH = 500
#: The ledger is kept by bucket so long, then by hours, then by days, for ever.
_COUNTS_FINE_S, _COUNTS_HOURS_S = 9 * DAY_S, 35 * DAY_S
#: Marks beside those of the levels: up to when texts are gone, and samples.
_TEXTS: Final = "texts"
_SAMPLES: Final = "samples"
_GONE = "gone"
_PAGES_AT_ONCE = 2_000
#: Less than this share of the file is left to what is written next.
_WORTH_IT = 0.05


#: What ends at a time: the word for it, that time, and the setting that says how long it is kept.
_BY_AGE = (
    ("outbox", outbox.c.finished_at, "keep_outbox_days"),
    ("status changes", status_changes.c.at, "keep_incidents_days"),
    ("feedback", feedback.c.received_at, "keep_texts_days"),
    ("silences", silences.c.ends_at, "keep_incidents_days"),
    ("audit", audit.c.at, "keep_audit_days"),
    ("dead letters", dead_letters.c.at, "keep_poison_days"),
)


@dataclass(slots=True, kw_only=True)
class Retention:
    """
    Deletes what is too old.

    ``budget_s`` bounds one run, of which half is left to other writers on SQLite, where they would
    wait; what remains then is for the next run, and ``is_behind`` says so. ``guard`` is called
    first in each transaction, such as to check a lease.
    """

    store: Store
    kept: RetentionTimes
    budget_s: float = 2.0
    guard: Guard = lambda _: None
    is_behind: bool = False

    def run(self, now_s: float) -> Counter[str]:
        """Delete what is too old as of *now_s* (epoch seconds); return how much, by kind."""
        kept = self.kept
        texts_s = now_s - kept.keep_texts_days * DAY_S
        rows_s = now_s - kept.keep_evaluations_days * DAY_S
        incidents_s = now_s - kept.keep_incidents_days * DAY_S
        # Each step does one batch and returns how much it was.
        steps: list[tuple[str, Callable[[Connection], int]]] = [
            ("samples", partial(_delete_samples, horizon_s=rows_s)),
            ("texts", partial(_blank_texts, from_s=rows_s, horizon_s=texts_s)),
            *(
                (name, partial(_delete_rows, at=at, horizon_s=now_s - getattr(kept, days) * DAY_S))
                for name, at, days in _BY_AGE
            ),
            ("incidents", partial(_delete_incidents, horizon_s=incidents_s)),
            ("hooks", partial(_sum_gone_hooks, horizon_s=rows_s)),
            ("ledger rows", partial(_compact_ledger, now_s=now_s)),
            ("older samples indexed", index_older),
        ]
        done: Counter[str] = Counter()
        end_s = time.monotonic() + self.budget_s
        # In turn, so that none waits for another that has too much to do.
        while steps and time.monotonic() < end_s:
            unfinished = []
            for name, step in steps:
                began_s = time.monotonic()
                with self.store.write() as connection:
                    self.guard(connection)
                    n = step(connection)
                done[name] += n
                if n:
                    unfinished.append((name, step))
                if not self.store.is_postgresql:
                    time.sleep(time.monotonic() - began_s)
            steps = unfinished
        self.is_behind = bool(steps)
        # Whatever was deleted: sums of minutes make room elsewhere.
        free_space(self.store, end_s=end_s + self.budget_s)
        return +done


def _delete_rows(connection: Connection, *, at: Column[Any], horizon_s: float) -> int:
    """Delete rows of one table whose time *at* is before the horizon, the oldest first."""
    table = at.table
    [key] = table.primary_key.columns
    oldest = select(key).where(at < time_of(horizon_s * 1000)).order_by(at).limit(_BATCH)
    keys = list(connection.execute(oldest).scalars())
    if keys:
        _move_mark(connection, table.name.removeprefix("groundwatch_"), horizon_s)
        connection.execute(delete(table).where(key.in_(keys)))
    return len(keys)


def _delete_incidents(connection: Connection, *, horizon_s: float) -> int:
    """Delete incidents that are over, with their timeline, messages and groups."""
    horizon = time_of(horizon_s * 1000)
    waiting = select(outbox.c.incident_id).where(outbox.c.finished_at.is_(None))
    oldest = (
        select(incidents.c.incident_id)
        .where(incidents.c.resolved_at < horizon, incidents.c.incident_id.not_in(waiting))
        .order_by(incidents.c.resolved_at)
        # Fewer, as an incident has many rows.
        .limit(_BATCH // 10)
    )
    keys = list(connection.execute(oldest).scalars())
    for table in (outbox, alert_events, incidents):
        if keys:
            connection.execute(delete(table).where(table.c.incident_id.in_(keys)))
    connection.execute(delete(alert_groups).where(alert_groups.c.resolved_at < horizon))
    return len(keys)


def _sum_gone_hooks(connection: Connection, *, horizon_s: float) -> int:
    """Sum the counters of hooks that are long gone to one row an app; the sum stays."""
    gone = (hooks.c.heartbeat_at_ms < horizon_s * 1000) & (hooks.c.host != _GONE)
    rows = connection.execute(select(hooks).where(gone).limit(_BATCH)).all()
    if not rows:
        return 0
    sums: dict[str, Counter[str]] = {}
    for row in rows:
        sums.setdefault(row.app, Counter()).update(row.counters)
    ids = {row.app: row.hook_id for row in rows}
    for row in connection.execute(
        select(hooks).where(hooks.c.host == _GONE, hooks.c.app.in_(list(sums)))
    ):
        ids[row.app] = row.hook_id
        sums[row.app].update(row.counters)
    connection.execute(delete(hooks).where(hooks.c.hook_id.in_([row.hook_id for row in rows])))
    put(connection, hooks, [
        {
            "hook_id": ids[app], "app": app, "host": _GONE, "pid": 0,
            "heartbeat_at_ms": int(horizon_s * 1000), "counters": dict(counters),
        }
        for app, counters in sums.items()
    ])  # fmt: skip
    return len(rows)


def _delete_samples(connection: Connection, *, horizon_s: float) -> int:
    """Delete samples with their evaluations; first the mark, so that no reader misses them."""
    at = samples.c.received_at_ms
    oldest = select(samples.c.sample_id).where(at < int(horizon_s * 1000))
    ids = list(connection.execute(oldest.order_by(at).limit(_BATCH)).scalars())
    if ids:
        _move_mark(connection, _SAMPLES, horizon_s)
        remove_terms(connection, ids)
        theirs = select(samples.c.position).where(samples.c.sample_id.in_(ids))
        connection.execute(delete(scores).where(scores.c.position.in_(theirs)))
        connection.execute(delete(rejudged).where(rejudged.c.sample_id.in_(ids)))
        connection.execute(delete(samples).where(samples.c.sample_id.in_(ids)))
    return len(ids)


def _blank_texts(connection: Connection, *, from_s: float, horizon_s: float) -> int:
    """Empty what people wrote and read since *from_s*; before, whole samples are deleted."""
    begin_s = max(int(from_s), read_marks(connection, names=(_TEXTS,))[_TEXTS].kept_from_s)
    if begin_s >= int(horizon_s):
        return 0
    at = samples.c.received_at_ms
    within = (at >= begin_s * 1000) & (at < int(horizon_s) * 1000)
    last = select(at).where(within).order_by(at).offset(_BATCH - 1).limit(1)
    last_ms = connection.execute(last).scalar()
    # Whole seconds, so that the mark can be one; a batch may be a second's rows larger.
    end_s = int(horizon_s) if last_ms is None else last_ms // 1000 + 1
    these = select(samples.c.sample_id).where(at >= begin_s * 1000, at < end_s * 1000)
    ids = list(connection.execute(these).scalars())
    blank(connection, ids, why="too old")
    if end_s > begin_s:
        _move_mark(connection, _TEXTS, end_s)
    return len(ids)


def blank(
    connection: Connection,
    sample_ids: Sequence[str],
    *,
    why: str,
    shorten: Callable[[dict[str, Any]], dict[str, Any]] = lambda record: record,
) -> None:
    """Empty samples, but for what counts; *shorten* says what stays of each evaluation's record."""
    mine = samples.c.sample_id.in_(sample_ids)
    rows = [dict(row) for row in connection.execute(select(samples).where(mine)).mappings()]
    if not rows:
        return
    known = {row["sample_id"]: row for row in rows}
    ended, ended_before = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
    records, moved = defaultdict[str, list[str]](list), []
    e = evaluations.c
    for said in connection.execute(select(evaluations).where(e.sample_id.in_(sample_ids))):
        now = before = said._asdict()
        record = record_of(said, known[said.sample_id]["payload"])
        if (short := shorten(record)) is not record:
            now = before | {"reason": CustomEvaluation.model_validate(short).reason}
            by = facet(said.app, said.metric, said.evaluator_version)
            moved.append({"of": said.position, "by": by, "why": now["reason"]})
        records[said.sample_id].append(compact_json(short))
        ended_before[said.sample_id].append(before)
        ended[said.sample_id].append(now)
    # PostgreSQL's index is replaced row by row; SQLite's wants to know what it held.
    is_sqlite = connection.dialect.name == "sqlite"
    indexed, emptied = list[Terms](), list[Terms]()
    for key, row in known.items():
        sample = sample_of(row["payload"])
        bare = without_texts(sample, why)
        place, of = row["position"], (segments_of(row), row["reason"])
        if place is not None and place >= 0 and row["app"] != DOCTOR_APP:
            emptied.append(terms_of(place, bare, *of, ended[key]))
            if is_sqlite:
                indexed.append(terms_of(place, sample, *of, ended_before[key]))
        plain = bare.model_dump_json(exclude_defaults=True)
        row["payload"], row["segments"] = pack(plain, records[key], segments_of(row)), []
        row["interaction_id"] = bare.interaction.id
        row["trace_id"] = row["session_id"] = row["release"] = None
    if is_sqlite:
        # A row that shrinks leaves its page half empty for ever. A new one goes to the end of the
        # file, and the pages of the old ones, which lie together, can be given back.
        connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        connection.execute(delete(samples).where(mine))
        connection.execute(samples.insert(), rows)
    else:
        put(connection, samples, rows)
    if moved:
        these = scores.update().where(
            scores.c.position == bindparam("of"), scores.c.evaluator_key == bindparam("by")
        )
        connection.execute(these.values(reason=bindparam("why")), moved)
    replace_terms(connection, indexed, emptied)


def _move_mark(connection: Connection, name: str, kept_from_s: float) -> None:
    before = read_marks(connection, names=(name,))[name]
    if int(kept_from_s) > before.kept_from_s:
        row = {"level": name, "complete_to_s": 0, "kept_from_s": int(kept_from_s)}
        put(connection, levels, [row])


def _compact_ledger(connection: Connection, *, now_s: float) -> int:
    """Sum the oldest hour or day of the ledger that is still in smaller pieces to one row."""
    for width_s, age_s in ((HOUR_S, _COUNTS_FINE_S), (DAY_S, _COUNTS_HOURS_S)):
        start = counts.c.start_s
        odd = (start < int(now_s - age_s) // width_s * width_s) & (start % width_s != 0)
        first_s = connection.execute(select(func.min(start)).where(odd)).scalar()
        if first_s is None:
            continue
        begin_s = first_s // width_s * width_s
        within = (start > begin_s) & (start < begin_s + width_s)
        columns = (counts.c.app, counts.c.kind, counts.c.reason, counts.c.count)
        gone = connection.execute(delete(counts).where(within).returning(*columns)).all()
        sums: Counter[tuple[str, str, str]] = Counter()
        for app, kind, reason, n in gone:
            sums[app, kind, reason] += n
        add(connection, counts, [
            {"app": app, "start_s": begin_s, "kind": kind, "reason": reason, "count": n}
            for (app, kind, reason), n in sums.items()
        ], sums=["count"])  # fmt: skip
        return len(gone)
    return 0


def free_space(store: Store, *, end_s: float) -> int:
    """
    Give free pages of an SQLite file back, until *end_s* (monotonic); return how many.

    PostgreSQL does so by itself: autovacuum makes the space of deleted rows usable again.
    An SQLite file of an older version gives nothing back until it was vacuumed once.
    """
    if store.is_postgresql:
        return 0
    freed = 0
    with store.read() as connection:
        left, pages = _pragma(connection, "freelist_count"), _pragma(connection, "page_count")
    if left < _WORTH_IT * pages:
        return 0
    while time.monotonic() < end_s:
        with closing(store.engine.raw_connection()) as borrowed:
            # Not by execute(), which takes one step, and a step frees one page.
            script = f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})"
            borrowed.driver_connection.executescript(script)  # type: ignore[union-attr]
        before = left
        with store.read() as connection:
            left = _pragma(connection, "freelist_count")
        freed += before - left
        if left in (0, before):
            break
    return freed


def size_bytes(connection: Connection) -> int:
    """Return the size of the store on disk in bytes, without its log."""
    if connection.dialect.name == "postgresql":
        query = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(query).scalar_one())
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
