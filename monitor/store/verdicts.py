"""
The newest verdict of each key, every change of status, and what evidence is collected from.

Then what explains them: recorded deploys, insights and proofs of detection objectives. Last the
sample rates that the hooks of each app were asked for, with what their tuning remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select, tuple_

from monitor.models import ROOT, Status, Verdict
from monitor.models.insight import AppInsight, DetectionProof, Insight, SampleRate
from monitor.models.status import FleetFall
from monitor.store.columns import epoch_ms, matches, time_of
from monitor.store.engine import put, rows_of
from monitor.store.tables import (
    detectors,
    insights,
    marks,
    pools,
    proofs,
    sample_rates,
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
    """Return the key of a verdict."""
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


# --- what explains a verdict: deploys, insights, and how soon a fall would be found ---

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


def read_release_marks(
    connection: Connection, *, app: str | None = None, since: datetime | None = None
) -> list[ReleaseMark]:
    """List deploys that were recorded, oldest first."""
    c = marks.c
    query = select(c.app, c.release, c.at, c.note, c.made_at).where(matches(c.app, app))
    if since is not None:
        query = query.where(c.at >= since)
    return [ReleaseMark(*row) for row in connection.execute(query.order_by(c.at, c.mark_id))]


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


# --- the sample rates that were asked for ---

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
