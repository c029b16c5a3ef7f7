"""
What drift detectors and reports read: when values and versions first came, bins, findings.

Then the newest runs, sample by sample, and the scores that arrived since a moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select

from monitor.models.insight import DriftFinding
from monitor.models.interaction import Figure, RunRecord
from monitor.models.status import ROOT
from monitor.store.columns import epoch_ms, matches, record_of, time_of
from monitor.store.engine import batched, put
from monitor.store.query import BUCKETS, LEVELS
from monitor.store.tables import (
    bucket_bins,
    drift_findings,
    drift_states,
    evaluations,
    samples,
    streams,
)

#: Findings older than this are deleted.
_KEEP_FINDINGS = timedelta(days=400)
#: So many ids are named in one query: databases bound the length of a list.
_MOST_IDS = 1_000


def first_seen(connection: Connection, app: str, dimension: str, *, since_s: int) -> dict[str, int]:
    """
    Return when each value of a dimension first came, in epoch seconds; only what is new.

    A value that came before *since_s*, as far back as anything is kept, is left out.
    """
    prefix = f"{dimension}="
    wanted = (
        (streams.c.app == app)
        & streams.c.segment.startswith(prefix, autoescape=True)
        & (streams.c.last_bucket_s >= since_s)
    )
    first: dict[str, int] = {}
    for _, segment, first_s in _first_rows(connection, wanted):
        value = segment.removeprefix(prefix)
        first[value] = min(first_s, first.get(value, first_s))
    return {value: first_s for value, first_s in first.items() if first_s >= since_s}


def _first_rows(
    connection: Connection, wanted: ColumnElement[bool]
) -> Iterator[tuple[int, str, int]]:
    """Yield each stream with the start of its first row at each level."""
    for level in LEVELS:
        start_s = level.sums.c.start_s
        query = (
            select(streams.c.stream_id, streams.c.segment, func.min(start_s))
            .select_from(streams.join(level.sums, streams.c.stream_id == level.sums.c.stream_id))
            .where(wanted)
            .group_by(streams.c.stream_id, streams.c.segment)
        )
        for stream_id, segment, first_s in connection.execute(query):
            # The start of an hour or a day gives way to that of a bucket within it.
            finest_s = int(first_s) + (0 if level is BUCKETS else level.width_s - 1)
            yield stream_id, segment, finest_s


def read_states(connection: Connection, stream_ids: Sequence[int]) -> dict[int, Any]:
    """Read the detectors' states of these streams, by stream id."""
    query = select(drift_states.c.stream_id, drift_states.c.state)
    return {
        row.stream_id: row.state
        for some in batched(stream_ids, _MOST_IDS)
        for row in connection.execute(query.where(drift_states.c.stream_id.in_(some)))
    }


def save_states(connection: Connection, states: Mapping[int, Any]) -> None:
    """Replace the states of these streams."""
    rows = [{"stream_id": stream_id, "state": state} for stream_id, state in states.items()]
    put(connection, drift_states, rows)


def bins_by_bucket(
    connection: Connection, stream_ids: Sequence[int], *, from_s: int, to_s: int
) -> dict[int, dict[int, Counter[int]]]:
    """Read histograms of buckets in [from_s, to_s) of these streams, by stream and by start."""
    columns = bucket_bins.c
    query = select(columns.stream_id, columns.start_s, columns.bin, columns.count).where(
        columns.start_s >= from_s, columns.start_s < to_s
    )
    found: dict[int, dict[int, Counter[int]]] = {}
    if from_s >= to_s:
        return found
    for some in batched(stream_ids, _MOST_IDS):
        of_these = query.where(columns.stream_id.in_(some))
        for stream_id, start_s, position, count in connection.execute(of_these):
            found.setdefault(stream_id, {}).setdefault(start_s, Counter())[position] = int(count)
    return found


def save_findings(connection: Connection, found: Sequence[DriftFinding]) -> None:
    """Store findings; one that was stored before is replaced."""
    key = ("app", "metric", "segment", "test", "from_s", "found_at")
    rows = [
        {name: getattr(item, name) for name in key} | {"finding": item.model_dump(mode="json")}
        for item in found
    ]
    put(connection, drift_findings, rows)


def read_findings(
    connection: Connection, *, since: datetime, app: str | None = None
) -> list[DriftFinding]:
    """List what was found since then, oldest first."""
    c = drift_findings.c
    query = select(c.finding).where(c.found_at >= since, matches(c.app, app))
    found = connection.execute(query.order_by(c.found_at, c.segment, c.test)).scalars()
    return [DriftFinding.model_validate(value) for value in found]


def forget_findings(connection: Connection, now: datetime) -> None:
    """Delete findings of more than a year ago."""
    oldest = drift_findings.c.found_at < now - _KEEP_FINDINGS
    connection.execute(delete(drift_findings).where(oldest))


def version_since(connection: Connection, stream_id: int) -> int | None:
    """Return when a stream that followed another evaluator version began, in epoch seconds."""
    mine = select(streams).where(streams.c.stream_id == stream_id).subquery()
    older = (
        select(streams.c.stream_id)
        .where(
            streams.c.app == mine.c.app,
            streams.c.metric == mine.c.metric,
            streams.c.segment == ROOT,
            streams.c.stream_id < stream_id,
            streams.c.evaluator_version != mine.c.evaluator_version,
        )
        .limit(1)
    )
    if connection.execute(older).first() is None:
        return None
    rows = _first_rows(connection, streams.c.stream_id == stream_id)
    return min((first_s for _, _, first_s in rows), default=None)


def read_runs(
    connection: Connection, *, since: datetime, limit: int, app: str | None = None
) -> tuple[list[RunRecord], int]:
    """Read the newest *limit* runs since *since*, oldest first, and how many there are in all."""
    wanted = and_(samples.c.occurred_at_ms >= epoch_ms(since), matches(samples.c.app, app))
    total = connection.execute(select(func.count()).select_from(samples).where(wanted))
    newest = (
        select(samples)
        .where(wanted)
        .order_by(samples.c.occurred_at_ms.desc(), samples.c.sample_id.desc())
        .limit(limit)
    )
    rows = {row.sample_id: row for row in reversed(connection.execute(newest).all())}
    figures: dict[str, dict[str, Figure]] = defaultdict(dict)
    for some in batched(rows, _MOST_IDS):
        query = select(evaluations).where(evaluations.c.sample_id.in_(some))
        for row in connection.execute(query):
            record = record_of(row, rows[row.sample_id].payload)
            value = (record.get("metadata") or {}).get("value")
            figures[row.sample_id][row.metric] = Figure(
                score=row.score,
                value=float(value) if isinstance(value, int | float) else None,
                explanation=record.get("explanation") or "",
            )
    runs = []
    for sample_id, row in rows.items():
        interaction = row.payload["interaction"]
        named = (interaction.get("metadata") or {}) | (interaction.get("tags") or {})
        runs.append(
            RunRecord(
                sample_id=sample_id,
                run_id=row.interaction_id,
                app=row.app,
                at=time_of(row.occurred_at_ms),
                company_name=_text(named.get("company_name")),
                model_used=_text(named.get("model_used") or named.get("model")),
                figures=figures.get(sample_id, {}),
            )
        )
    return runs, total.scalar_one()


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


class StoredScore(NamedTuple):
    """A completed evaluation of a stream; times in epoch milliseconds."""

    sample_id: str
    received_at_ms: int
    occurred_at_ms: int
    sample_rate: float
    passed: bool
    metadata: Mapping[str, Any] | None


def scores_since(
    connection: Connection, *, after_ms: int, app: str | None = None, metric: str | None = None
) -> dict[tuple[str, str, str], list[StoredScore]]:
    """
    Read the scores that arrived after *after_ms*, in that order, by app, metric and version.

    Of one app and metric only when they are named.
    """
    c, of = evaluations.c, samples.c
    query = (
        select(
            c.app, c.metric, c.evaluator_version, c.occurred_at_ms, c.passed,
            of.sample_id, of.received_at_ms, of.sample_rate, of.payload,
        )
        .select_from(samples.join(evaluations, of.position == c.position))
        .where(of.received_at_ms > after_ms, c.passed.is_not(None))
        .where(matches(c.app, app), matches(c.metric, metric))
        .order_by(of.received_at_ms, of.sample_id)
    )  # fmt: skip
    found: dict[tuple[str, str, str], list[StoredScore]] = {}
    for row in connection.execute(query):
        score = StoredScore(
            row.sample_id, row.received_at_ms, row.occurred_at_ms, row.sample_rate,
            bool(row.passed), record_of(row).get("metadata"),
        )  # fmt: skip
        found.setdefault((row.app, row.metric, row.evaluator_version), []).append(score)
    return found
