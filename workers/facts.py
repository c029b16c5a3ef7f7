"""Read from the store what a report says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from alerts.ledger import incidents_since, outbox_counts
from monitor.models import Tally, Verdict
from monitor.models.insight import InputDrift, Insight
from monitor.report.build import (
    AppFacts,
    blind_when_stale,
    build_report,
    make_ledger,
    newest_only,
)
from monitor.report.model import Change, Report, Worst
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.hooks import last_heartbeat, last_heartbeats
from monitor.store.insights import read_findings, read_insights
from monitor.store.ledger import Booking, Kind, read_since, read_totals
from monitor.store.query import active_streams, series
from monitor.store.verdicts import StatusChange, read_changes, read_verdicts
from monitor.store.worst import unscored, worst_samples

_STEPS = 48
_STALE_AFTER_S = 60.0
#: An insight that was not renewed for so long explains nothing any more.
_EXPLAINED_FOR = timedelta(minutes=15)


class _Spans(NamedTuple):
    window_s: int
    status_window_s: int
    step_s: int


def read_status(
    store: Store, settings: Settings, *, now: datetime, app: str | None = None
) -> Report:
    """Read the glance: verdicts and ledger, without courses and samples."""
    with store.read() as connection:
        verdicts = verdicts_by_app(connection, settings, now, app)
        totals = read_totals(connection, app)
        heartbeats = last_heartbeats(connection)
        facts = [
            AppFacts(
                app=name,
                verdicts=verdicts.get(name, []),
                ledger=make_ledger(plain_counts(totals.get(name))),
                last_heartbeat=heartbeats.get(name),
            )
            for name in sorted(verdicts.keys() | totals.keys())
        ]
    return build_report(
        facts,
        now=now,
        window_s=settings.status_window_s,
        status_window_s=settings.status_window_s,
    )


def read_report(
    store: Store, settings: Settings, *, now: datetime, window_s: int, app: str | None = None
) -> Report:
    """Read everything that a report over the last *window_s* seconds says."""
    spans = _Spans(window_s, settings.status_window_s, _step_s(window_s, settings.bucket_s))
    with store.read() as connection:
        verdicts = verdicts_by_app(connection, settings, now, app)
        totals = read_totals(connection, app)
        facts = [
            _facts(connection, name, verdicts.get(name, []), totals, now, spans)
            for name in sorted(verdicts.keys() | totals.keys())
        ]
        deliveries = {str(state): n for state, n in outbox_counts(connection).items()}
    return build_report(
        facts,
        now=now,
        window_s=window_s,
        status_window_s=settings.status_window_s,
        deliveries=deliveries,
        step_s=spans.step_s,
    )


def _facts(
    connection: Connection,
    app: str,
    verdicts: list[Verdict],
    totals: Mapping[str, Counter[Booking]],
    now: datetime,
    spans: _Spans,
) -> AppFacts:
    since = now - timedelta(seconds=spans.window_s)
    metrics = sorted({verdict.metric for verdict in verdicts})
    without = {
        metric: unscored(connection, app=app, metric=metric, since=since) for metric in metrics
    }
    return AppFacts(
        app=app,
        verdicts=verdicts,
        ledger=make_ledger(plain_counts(totals.get(app))),
        recent=_by_kind(read_since(connection, since.timestamp(), app).get(app)),
        series=_series(connection, app, since, spans.step_s),
        changes=[
            told_change(change)
            for change in read_changes(connection, since=since, app=app)
            if change.window_s == spans.status_window_s
        ],
        incidents=[item for item in incidents_since(connection, since) if item.app == app],
        worst={metric: _worst(connection, app, metric, since) for metric in metrics},
        failed={metric: found.failed for metric, found in without.items()},
        skipped={metric: found.skipped for metric, found in without.items()},
        insights=read_explained(connection, app, now=now, since=since),
        inputs=_inputs(connection, app, now),
        last_heartbeat=last_heartbeat(connection, app),
    )


def told_change(change: StatusChange) -> Change:
    """Leave of a change of status what a report says of it."""
    return Change(
        at=change.at,
        metric=change.metric,
        before=change.before,
        after=change.after,
        pass_rate=change.verdict.pass_rate,
        n=change.verdict.n,
        reason=change.verdict.reason,
    )


def read_explained(
    connection: Connection, app: str, *, now: datetime, since: datetime
) -> dict[str, Insight]:
    """Read what explains each metric of an app, with the findings of the whole stretch."""
    of_metrics, _ = read_insights(connection, since=now - _EXPLAINED_FOR, app=app)
    found = read_findings(connection, since=since, app=app)
    return {
        metric: insight.model_copy(
            update={"findings": [item for item in found if item.metric == metric]}
        )
        for (_, metric), insight in of_metrics.items()
    }


def _inputs(connection: Connection, app: str, now: datetime) -> Sequence[InputDrift]:
    _, of_apps = read_insights(connection, since=now - _EXPLAINED_FOR, app=app)
    return of_apps[app].inputs if app in of_apps else ()


def _by_kind(counts: Counter[Booking] | None) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (kind, _), n in (counts or {}).items():
        found[kind.value] += n
    return {kind.value: found[kind.value] for kind in Kind}


def plain_counts(counts: Counter[Booking] | None) -> dict[tuple[str, str], int]:
    """Give counts as the report's own words have them."""
    return {(kind.value, reason): n for (kind, reason), n in (counts or {}).items()}


def verdicts_by_app(
    connection: Connection, settings: Settings, now: datetime, app: str | None
) -> dict[str, list[Verdict]]:
    """Read the newest verdicts by app; what nobody has looked at for long is blind."""
    stale_after_s = max(_STALE_AFTER_S, 5 * settings.evaluate_every_s)
    found: dict[str, list[Verdict]] = {}
    for verdict in newest_only(list(read_verdicts(connection).values())):
        if app in (None, verdict.app):
            fresh = blind_when_stale(verdict, now=now, stale_after_s=stale_after_s)
            found.setdefault(verdict.app, []).append(fresh)
    return found


def _series(
    connection: Connection, app: str, since: datetime, step_s: int
) -> dict[str, Mapping[int, Tally]]:
    from_s = int(since.timestamp()) // step_s * step_s
    streams = {
        stream.stream_id: stream.key.metric
        for stream in active_streams(connection, since_s=from_s)
        if stream.key.app == app and stream.key.segment == "*"
    }
    found = series(connection, streams, from_s=from_s, step_s=step_s)
    return {streams[stream_id]: tallies for stream_id, tallies in found.items()}


def _worst(connection: Connection, app: str, metric: str, since: datetime) -> list[Worst]:
    return [
        Worst(
            interaction_id=item.interaction_id,
            at=item.occurred_at,
            score=item.score,
            explanation=item.evaluation.explanation or "",
        )
        for item in worst_samples(connection, app=app, metric=metric, since=since)
    ]


def _step_s(window_s: int, bucket_s: int) -> int:
    """Cut the window into about fifty steps of whole buckets."""
    return max(1, -(-window_s // _STEPS // bucket_s)) * bucket_s
