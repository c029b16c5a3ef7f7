"""What stands behind an alert: what changed, which segments, whether the monitor sees well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from alerts.conditions import SELF
from alerts.routing import MONITOR_PREFIX
from alerts.snapshot import Background, Snapshot
from monitor.models.insight import AppInsight, Attribution, InputDrift, Insight, SegmentEffect
from monitor.report.format import duration, number, percent, plain_text
from monitor.store.insights import ReleaseMark, read_insights, read_marks
from monitor.store.ledger import Booking, Kind, read_between
from monitor.store.tables import counts

#: A deploy this long before the trouble may have caused it.
_BEFORE = timedelta(hours=1)
#: An explanation that was made longer ago explains something else.
_EXPLAINED_FOR = timedelta(minutes=15)
_PIPELINE_S = 900
_MOST = 3
_NAME_CHARS = 60
_ENOUGH_LATE_S = 120.0


@dataclass(slots=True)
class Backgrounds:
    """Reads the background of alerts within one transaction, each app's facts once."""

    connection: Connection
    now: datetime
    _insights: dict[str, tuple[dict[tuple[str, str], Insight], dict[str, AppInsight]]] = field(
        default_factory=dict
    )
    _pipelines: dict[str, str] = field(default_factory=dict)

    def of(self, snapshot: Snapshot) -> Background:
        """Say what is known of what stands behind an alert; empty where nothing is."""
        app = snapshot.key.app
        if app == SELF:
            return Background()
        pipeline = self._pipeline(app)
        if snapshot.key.metric.startswith(MONITOR_PREFIX):
            return Background(pipeline=pipeline)
        insight, of_app = self._insight(snapshot)
        began, ended = _span(snapshot)
        marks = read_marks(self.connection, app=app, since=began)
        marks = [mark for mark in marks if mark.at <= ended]
        attribution = insight.attribution if insight else None
        return Background(
            changed="; ".join(_changed(marks, insight, of_app, (began, ended))),
            segments=_segments(attribution) if attribution else "",
            pipeline=pipeline,
        )

    def _insight(self, snapshot: Snapshot) -> tuple[Insight | None, AppInsight | None]:
        app = snapshot.key.app
        if app not in self._insights:
            since = self.now - _EXPLAINED_FOR
            self._insights[app] = read_insights(self.connection, since=since, app=app)
        of_metrics, of_apps = self._insights[app]
        return of_metrics.get((app, snapshot.key.metric)), of_apps.get(app)

    def _pipeline(self, app: str) -> str:
        if app not in self._pipelines:
            self._pipelines[app] = self._read_pipeline(app)
        return self._pipelines[app]

    def _read_pipeline(self, app: str) -> str:
        now_s = self.now.timestamp()
        bookings = read_between(self.connection, now_s - _PIPELINE_S, app=app).get(app, Counter())
        newest_s = self.connection.execute(
            select(func.max(counts.c.start_s)).where(
                counts.c.app == app,
                counts.c.kind == Kind.SCORED.value,
                counts.c.start_s >= now_s - 86_400,
            )
        ).scalar()
        return pipeline_words(bookings, None if newest_s is None else now_s - newest_s)


def pipeline_words(bookings: Counter[Booking], newest_age_s: float | None) -> str:
    """Write how samples went through the monitor lately; nothing where none did."""
    totals: Counter[Kind] = Counter()
    reasons: Counter[str] = Counter()
    for (kind, reason), n in bookings.items():
        totals[kind] += n
        if kind is Kind.FAILED:
            reasons[reason] += n
    if not totals:
        return ""
    parts = [f"{totals[kind]:,} {kind.value}" for kind in (Kind.SEEN, Kind.SAMPLED, Kind.SCORED)]
    parts += [
        f"{totals[kind]:,} {kind.value}"
        for kind in (Kind.FAILED, Kind.SKIPPED, Kind.DROPPED)
        if totals[kind]
    ]
    worst = reasons.most_common(1)
    why = f" (most of all {plain_text(worst[0][0], 40)})" if worst and worst[0][0] else ""
    text = ", ".join(parts) + f" in 15 min{why}"
    if newest_age_s is None:
        return f"{text}; no score within a day"
    late = newest_age_s >= _ENOUGH_LATE_S
    return f"{text}; the newest score is {duration(newest_age_s)} old" if late else text


def _span(snapshot: Snapshot) -> tuple[datetime, datetime]:
    """Give the time in which a change may have caused the trouble."""
    verdict = snapshot.verdict
    began = verdict.onset_earliest or verdict.onset or snapshot.since
    return began - _BEFORE, max(snapshot.at, snapshot.since)


def _changed(
    marks: Sequence[ReleaseMark],
    insight: Insight | None,
    of_app: AppInsight | None,
    span: tuple[datetime, datetime],
) -> Iterator[str]:
    """List what changed shortly before the trouble or since; that need not be its cause."""
    began, ended = span
    told = {mark.release for mark in marks}
    for mark in marks[-_MOST:]:
        note = f" ({plain_text(mark.note, _NAME_CHARS)})" if mark.note else ""
        yield f"release {plain_text(mark.release, _NAME_CHARS)} at {_clock(mark.at)}{note}"
    if insight is not None:
        for deploy in insight.deploys:
            if deploy.release not in told and began <= deploy.at <= ended:
                yield f"release {plain_text(deploy.release, _NAME_CHARS)} since {_clock(deploy.at)}"
        since = insight.version_since
        if since is not None and began <= since <= ended:
            version = plain_text(insight.evaluator_version, _NAME_CHARS)
            yield f"evaluator {version} since {_clock(since)}"
    for item in of_app.inputs if of_app is not None else ():
        if item.moved:
            yield _moved(item)


def _moved(item: InputDrift) -> str:
    feature = plain_text(item.feature.replace("_", " "), 40)
    return f"{feature} went from {plain_text(item.before, 40)} to {plain_text(item.after, 40)}"


def _segments(found: Attribution) -> str:
    """Name the segments that explain a fall, the one that explains most first."""
    if found.change >= 0:
        return ""
    ranked = sorted(found.named, key=lambda item: -item.explains)[:_MOST]
    return "; ".join(_segment(item) for item in ranked)


def _segment(item: SegmentEffect) -> str:
    rates = [
        "new" if rate is None else percent(rate, 0) for rate in (item.rate_before, item.rate_after)
    ]
    explains = min(1.0, max(0.0, item.explains))
    return (
        f"{plain_text(item.segment, _NAME_CHARS)}: {rates[0]} to {rates[1]}"
        f" (n = {number(item.n_after)}), {percent(explains, 0)} of the fall"
    )


def _clock(moment: datetime) -> str:
    return f"{moment:%m-%d %H:%M} UTC"
