"""The newest verdict of each key, every change of status, and what evidence is collected from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from monitor.models import ROOT, Status, Verdict
from monitor.models.status import FleetFall
from monitor.store.engine import put
from monitor.store.packing import record_of
from monitor.store.tables import (
    detectors,
    evaluations,
    pools,
    samples,
    status_changes,
    streams,
    verdicts,
)

VerdictKey = tuple[str, str, str, int]


class StatusChange(NamedTuple):
    """A status that began; ``before`` is None for the first one."""

    at: datetime
    app: str
    metric: str
    segment: str
    window_s: int
    before: Status | None
    after: Status
    verdict: Verdict


class StatusStep(NamedTuple):
    """A status of a whole app and metric that began, without its evidence."""

    change_id: int
    at_s: float
    app: str
    metric: str
    before: Status | None
    after: Status


def key_of(verdict: Verdict) -> VerdictKey:
    """Tell whose verdict it is."""
    return (verdict.app, verdict.metric, verdict.segment, verdict.window_s)


def read_verdicts(connection: Connection, app: str | None = None) -> dict[VerdictKey, Verdict]:
    """Read the newest verdict of every key, of one app only when it is named."""
    query = select(verdicts.c.verdict)
    if app is not None:
        query = query.where(verdicts.c.app == app)
    found = (Verdict.model_validate(value) for value in connection.execute(query).scalars())
    return {key_of(verdict): verdict for verdict in found}


def save_verdicts(
    connection: Connection, new: Sequence[Verdict], before: dict[VerdictKey, Verdict]
) -> list[StatusChange]:
    """Replace the verdicts, and note each status that differs from the one before."""
    rows, changes, change_rows = [], [], []
    for verdict in new:
        app, metric, segment, window_s = key = key_of(verdict)
        key_columns = {"app": app, "metric": metric, "segment": segment, "window_s": window_s}
        at_ms, record = _ms(verdict.evaluated_at), verdict.model_dump(mode="json")
        rows.append(key_columns | {"evaluated_at_ms": at_ms, "verdict": record})
        last = before.get(key)
        if last is None or last.status is not verdict.status:
            status, after = last.status if last else None, verdict.status
            changes.append(
                StatusChange(
                    verdict.evaluated_at, *key, before=status, after=after, verdict=verdict
                )
            )
            change_rows.append(
                key_columns
                | {
                    "at_ms": at_ms,
                    "before": status.value if status else None,
                    "after": after.value,
                    "verdict": record,
                }
            )
    put(connection, verdicts, rows)
    if change_rows:
        connection.execute(status_changes.insert(), change_rows)
    return changes


def read_changes(
    connection: Connection, *, since: datetime, app: str | None = None
) -> list[StatusChange]:
    """List the changes of status since *since*, oldest first."""
    query = (
        select(status_changes)
        .where(status_changes.c.at_ms >= _ms(since))
        .order_by(status_changes.c.change_id)
    )
    if app is not None:
        query = query.where(status_changes.c.app == app)
    return [
        StatusChange(
            at=datetime.fromtimestamp(row.at_ms / 1000, UTC),
            app=row.app,
            metric=row.metric,
            segment=row.segment,
            window_s=row.window_s,
            before=Status(row.before) if row.before else None,
            after=Status(row.after),
            verdict=Verdict.model_validate(row.verdict),
        )
        for row in connection.execute(query)
    ]


def read_steps(
    connection: Connection, *, since: datetime, window_s: int, after_id: int = 0
) -> list[StatusStep]:
    """List the changes of status of whole apps in one window, oldest first, after one of them."""
    columns = status_changes.c
    names = ("change_id", "at_ms", "app", "metric", "before", "after")
    query = (
        select(*(columns[name] for name in names))
        .where(
            columns.at_ms >= _ms(since),
            columns.change_id > after_id,
            columns.window_s == window_s,
            columns.segment == ROOT,
        )
        .order_by(columns.change_id)
    )
    return [
        StatusStep(
            row.change_id,
            row.at_ms / 1000,
            row.app,
            row.metric,
            Status(row.before) if row.before else None,
            Status(row.after),
        )
        for row in connection.execute(query)
    ]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def read_states(connection: Connection) -> dict[int, dict[str, Any]]:
    """Read what the policy ``anytime`` remembers of each stream, by stream id."""
    query = select(detectors.c.stream_id, detectors.c.state)
    return {row.stream_id: row.state for row in connection.execute(query)}


def save_states(
    connection: Connection, states: Mapping[int, Mapping[str, Any]], *, now: datetime
) -> None:
    """Remember these; call it in the transaction that is fenced by the lease."""
    at_ms = round(now.timestamp() * 1000)
    rows = [
        {"stream_id": stream_id, "updated_at_ms": at_ms, "state": dict(state)}
        for stream_id, state in sorted(states.items())
    ]
    put(connection, detectors, rows)


def apps_with_rising_evidence(connection: Connection, *, version_prefix: str) -> frozenset[str]:
    """Return the apps of which evidence of a fall builds up, by evaluators of that prefix."""
    query = (
        select(streams.c.app, detectors.c.state)
        .select_from(streams.join(detectors, streams.c.stream_id == detectors.c.stream_id))
        .where(streams.c.evaluator_version.startswith(version_prefix), streams.c.segment == ROOT)
    )
    return frozenset(row.app for row in connection.execute(query) if row.state.get("rises"))


PoolKey = tuple[str, str]


def read_pools(connection: Connection) -> dict[PoolKey, dict[str, dict[str, Any]]]:
    """
    Read what is remembered of apps that share an evaluator, by metric and its version.

    Each by what else the apps share: nothing (""), a model or a release.
    """
    query = select(pools.c.metric, pools.c.evaluator_version, pools.c.state)
    return {
        # A former form was the state of the one pool that there was.
        (row.metric, row.evaluator_version): {"": row.state} if "at_s" in row.state else row.state
        for row in connection.execute(query)
    }


def save_pools(
    connection: Connection,
    states: Mapping[PoolKey, Mapping[str, Mapping[str, Any]]],
    falls: Mapping[PoolKey, FleetFall],
    *,
    now: datetime,
) -> None:
    """Remember these and forget all others; call it in the transaction fenced by the lease."""
    put(
        connection,
        pools,
        [
            {
                "metric": metric,
                "evaluator_version": version,
                "updated_at_ms": _ms(now),
                "state": dict(state),
                "fall": falls[metric, version].model_dump(mode="json")
                if (metric, version) in falls
                else None,
            }
            for (metric, version), state in sorted(states.items())
        ],
    )
    connection.execute(delete(pools).where(pools.c.updated_at_ms < _ms(now)))


def fleet_falls(connection: Connection) -> list[FleetFall]:
    """List the falls of apps together that go on, the worst first."""
    found = connection.execute(select(pools.c.fall)).scalars()
    falls = [FleetFall.model_validate(fall) for fall in found if fall]
    return sorted(falls, key=lambda fall: (fall.high, fall.metric))


class StoredScore(NamedTuple):
    """A completed evaluation of a stream; times in epoch milliseconds."""

    evaluation_id: str
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
    columns = evaluations.c
    query = (
        select(
            *(columns.app, columns.metric, columns.evaluator_version, columns.evaluation_id),
            *(samples.c.received_at_ms, columns.occurred_at_ms, samples.c.sample_rate),
            *(columns.passed, columns.record, samples.c.payload),
        )
        .select_from(samples.join(evaluations, samples.c.sample_id == columns.sample_id))
        .where(samples.c.received_at_ms > after_ms, columns.passed.is_not(None))
        .order_by(samples.c.received_at_ms, columns.evaluation_id)
    )
    if app is not None:
        query = query.where(columns.app == app)
    if metric is not None:
        query = query.where(columns.metric == metric)
    found: dict[tuple[str, str, str], list[StoredScore]] = {}
    for row in connection.execute(query):
        score = StoredScore(
            row.evaluation_id,
            row.received_at_ms,
            row.occurred_at_ms,
            row.sample_rate,
            bool(row.passed),
            record_of(row).get("metadata"),
        )
        found.setdefault((row.app, row.metric, row.evaluator_version), []).append(score)
    return found
