"""The newest verdict of each key, every change of status, and what evidence is collected from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from monitor.models import ROOT, Status, Verdict
from monitor.models.status import FleetFall
from monitor.store.columns import matches, record_of
from monitor.store.engine import put
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
    query = select(verdicts.c.verdict).where(matches(verdicts.c.app, app))
    found = (Verdict.model_validate(value) for value in connection.execute(query).scalars())
    return {key_of(verdict): verdict for verdict in found}


def save_verdicts(
    connection: Connection, new: Sequence[Verdict], before: dict[VerdictKey, Verdict]
) -> list[StatusChange]:
    """Replace the verdicts, and note each status that differs from the one before."""
    rows, changes, change_rows = [], [], []
    for verdict in new:
        key, at, status = key_of(verdict), verdict.evaluated_at, verdict.status
        row = dict(zip(("app", "metric", "segment", "window_s"), key, strict=True))
        row["verdict"] = verdict.model_dump(mode="json")
        rows.append(row | {"evaluated_at": at})
        last = before[key].status if key in before else None
        if last is not status:
            changes.append(StatusChange(at, *key, before=last, after=status, verdict=verdict))
            change_rows.append(
                row | {"at": at, "before": last and last.value, "after": status.value}
            )
    put(connection, verdicts, rows)
    if change_rows:
        connection.execute(status_changes.insert(), change_rows)
    return changes


def read_changes(
    connection: Connection, *, since: datetime, app: str | None = None
) -> list[StatusChange]:
    """List the changes of status since *since*, oldest first."""
    c = status_changes.c
    query = (
        select(c.at, c.app, c.metric, c.segment, c.window_s, c.before, c.after, c.verdict)
        .where(c.at >= since, matches(c.app, app))
        .order_by(c.change_id)
    )
    return [
        StatusChange(
            row.at, row.app, row.metric, row.segment, row.window_s, _status(row.before),
            Status(row.after), Verdict.model_validate(row.verdict),
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def _status(name: str | None) -> Status | None:
    return Status(name) if name else None


def read_steps(
    connection: Connection, *, since: datetime, window_s: int, after_id: int = 0
) -> list[StatusStep]:
    """List the changes of status of whole apps in one window, oldest first, after one of them."""
    c = status_changes.c
    query = (
        select(c.change_id, c.at, c.app, c.metric, c.before, c.after)
        .where(c.at >= since, c.change_id > after_id, c.window_s == window_s, c.segment == ROOT)
        .order_by(c.change_id)
    )
    return [
        StatusStep(change_id, at.timestamp(), app, metric, _status(before), Status(after))
        for change_id, at, app, metric, before, after in connection.execute(query)
    ]


def read_states(
    connection: Connection, stream_ids: Sequence[int] | None = None
) -> dict[int, dict[str, Any]]:
    """Read what the policy ``anytime`` remembers of these streams, or all, by stream id."""
    query = select(detectors.c.stream_id, detectors.c.state)
    if stream_ids is not None:
        query = query.where(detectors.c.stream_id.in_(stream_ids))
    return {row.stream_id: row.state for row in connection.execute(query)}


def save_states(
    connection: Connection, states: Mapping[int, Mapping[str, Any]], *, now: datetime
) -> None:
    """Remember these; call it in the transaction that is fenced by the lease."""
    rows = [
        {"stream_id": stream_id, "updated_at": now, "state": dict(state)}
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
    rows = []
    for (metric, version), state in states.items():
        fall = falls.get((metric, version))
        row = {"metric": metric, "evaluator_version": version, "updated_at": now}
        rows.append(row | {"state": dict(state), "fall": fall and fall.model_dump(mode="json")})
    put(connection, pools, rows)
    connection.execute(delete(pools).where(pools.c.updated_at < now))


def fleet_falls(connection: Connection) -> list[FleetFall]:
    """List the falls of apps together that go on, the worst first."""
    found = connection.execute(select(pools.c.fall)).scalars()
    falls = [FleetFall.model_validate(fall) for fall in found if fall]
    return sorted(falls, key=lambda fall: (fall.high, fall.metric))


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
        select(evaluations, of.received_at_ms, of.sample_rate, of.payload)
        .select_from(samples.join(evaluations, of.sample_id == c.sample_id))
        .where(of.received_at_ms > after_ms, c.passed.is_not(None))
        .where(matches(c.app, app), matches(c.metric, metric))
        .order_by(of.received_at_ms, c.sample_id)
    )
    found: dict[tuple[str, str, str], list[StoredScore]] = {}
    for row in connection.execute(query):
        score = StoredScore(
            row.sample_id, row.received_at_ms, row.occurred_at_ms, row.sample_rate,
            bool(row.passed), record_of(row).get("metadata"),
        )  # fmt: skip
        found.setdefault((row.app, row.metric, row.evaluator_version), []).append(score)
    return found
