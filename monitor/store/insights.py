"""
What explains a status: deploys, drift detectors' states, findings, insights, newest runs.

And how soon a fall would be found: the proofs of detection objectives. Then the sample rates that
the hooks of each app were asked for, with what their tuning remembers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, tuple_

from monitor.models.insight import AppInsight, DetectionProof, DriftFinding, Insight, SampleRate
from monitor.models.interaction import Figure, RunRecord
from monitor.models.status import ROOT
from monitor.store.columns import epoch_ms, matches, record_of, time_of
from monitor.store.engine import batched, put, rows_of
from monitor.store.query import BUCKETS, LEVELS
from monitor.store.tables import (
    bucket_bins,
    drift_findings,
    drift_states,
    evaluations,
    insights,
    marks,
    proofs,
    sample_rates,
    samples,
    streams,
)

#: Findings older than this are deleted.
_KEEP_FINDINGS = timedelta(days=400)
#: So many ids are named in one query: databases bound the length of a list.
_MOST_IDS = 1_000
#: An insight that was not renewed for so long explains nothing any more.
_EXPLAINED_FOR = timedelta(minutes=15)


class ReleaseMark(NamedTuple):
    """A recorded deploy: whose, which release, when it went out, and a note."""

    app: str
    release: str
    at: datetime
    note: str
    made_at: datetime


def add_mark(connection: Connection, mark: ReleaseMark) -> None:
    """Record a deploy."""
    connection.execute(marks.insert(), [mark._asdict()])


def read_marks(
    connection: Connection, *, app: str | None = None, since: datetime | None = None
) -> list[ReleaseMark]:
    """List deploys that were recorded, oldest first."""
    c = marks.c
    query = select(c.app, c.release, c.at, c.note, c.made_at).where(matches(c.app, app))
    if since is not None:
        query = query.where(c.at >= since)
    return [ReleaseMark(*row) for row in connection.execute(query.order_by(c.at, c.mark_id))]


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


def save_insights(
    connection: Connection, found: Iterable[Insight], of_apps: Iterable[AppInsight]
) -> None:
    """Replace the newest insights."""
    items: list[Insight | AppInsight] = [*found, *of_apps]
    rows = [
        {
            "app": item.app, "metric": item.metric if isinstance(item, Insight) else "",
            "made_at": item.made_at, "insight": item.model_dump(mode="json"),
        }
        for item in items
    ]  # fmt: skip
    put(connection, insights, rows)


def read_insights(
    connection: Connection, *, now: datetime, app: str | None = None
) -> tuple[dict[tuple[str, str], Insight], dict[str, AppInsight]]:
    """Read the newest insights that still explain something: by app and metric, and by app."""
    lately = insights.c.made_at >= now - _EXPLAINED_FOR
    query = select(insights).where(lately, matches(insights.c.app, app))
    of_metrics: dict[tuple[str, str], Insight] = {}
    of_apps: dict[str, AppInsight] = {}
    for row in connection.execute(query):
        if row.metric:
            # What a former release knew besides is left out.
            known = {name: row.insight[name] for name in Insight.model_fields & row.insight.keys()}
            of_metrics[row.app, row.metric] = Insight.model_validate(known)
        else:
            of_apps[row.app] = AppInsight.model_validate(row.insight)
    return of_metrics, of_apps


def read_proofs(
    connection: Connection, *, app: str | None = None
) -> dict[tuple[str, str], DetectionProof]:
    """Read the newest proof of each detection objective, by app and metric."""
    rows = connection.execute(select(proofs).where(matches(proofs.c.app, app)))
    return {(row.app, row.metric): DetectionProof.model_validate(row.proof) for row in rows}


def save_proofs(
    connection: Connection, found: Iterable[DetectionProof], *, gone: Iterable[tuple[str, str]]
) -> None:
    """Replace proofs, and delete those of the apps and metrics that are *gone*."""
    for app, metric in gone:
        connection.execute(delete(proofs).where(proofs.c.app == app, proofs.c.metric == metric))
    rows = [
        {
            **item.model_dump(include={"app", "metric", "made_at"}),
            "proof": item.model_dump(mode="json"),
        }
        for item in found
    ]
    put(connection, proofs, rows)


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


#: A reference of eight days weighs its samples by them.
_KEPT = timedelta(days=10)
_NEWEST = 100
_FIELDS = ("rate", "own", "reason", "until", "set_by")

#: What was asked for last, and the state of its tuning; None where a person set it.
Asked = tuple[SampleRate, Mapping[str, Any] | None]
#: From when until when which rate was asked for, and the app's own; times in epoch seconds.
AskedSpan = tuple[float, float, float, float]


def read_sample_rates(connection: Connection, app: str | None = None) -> dict[str, Asked]:
    """Return what was asked for last, by app."""
    c = sample_rates.c
    newest = select(c.app, func.max(c.since_ms)).where(matches(c.app, app)).group_by(c.app)
    query = select(sample_rates).where(tuple_(c.app, c.since_ms).in_(newest))
    return {
        row["app"]: (
            SampleRate(
                **{name: row[name] for name in _FIELDS}, since=time_of(row["since_ms"]),
                follows_evidence=row["tuning"] is not None,
            ),
            row["tuning"],
        )
        for row in rows_of(connection, query)
    }  # fmt: skip


def read_asked_spans(connection: Connection) -> dict[str, list[AskedSpan]]:
    """Return all that was asked for in the last days, by app."""
    found: dict[str, list[AskedSpan]] = {}
    c = sample_rates.c
    for app, since_ms, until, rate, own in connection.execute(
        select(c.app, c.since_ms, c.until, c.rate, c.own).order_by(c.app, c.since_ms)
    ):
        found.setdefault(app, []).append((since_ms / 1000, until.timestamp(), rate, own))
    return found


def save_sample_rate(
    connection: Connection, app: str, asked: SampleRate, tuning: Mapping[str, Any] | None
) -> None:
    """Keep what was asked for; the one before it ends, and what is older than ten days goes."""
    c, since_ms = sample_rates.c, epoch_ms(asked.since)
    earlier = (c.app == app) & (c.since_ms < since_ms)
    ends = sample_rates.update().where(earlier, c.until > asked.since)
    connection.execute(ends.values(until=asked.since))
    connection.execute(sample_rates.delete().where(earlier, c.until < asked.since - _KEPT))
    row = {name: getattr(asked, name) for name in _FIELDS}
    kept = None if tuning is None else dict(tuning)
    put(connection, sample_rates, [row | {"app": app, "since_ms": since_ms, "tuning": kept}])


def own_rate(connection: Connection, app: str) -> float | None:
    """Return the commonest sample rate of an app's newest samples; None without any."""
    c = samples.c
    newest = (
        select(c.sample_rate)
        .where(c.app == app)
        .order_by(c.occurred_at_ms.desc())
        .limit(_NEWEST)
        .subquery()
    )
    rate = newest.c.sample_rate
    query = select(rate).group_by(rate).order_by(func.count().desc(), rate).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else float(found)
