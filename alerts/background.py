"""The background of an alert: likely causes, affected segments, trend, an example, the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select

from alerts.conditions import MONITOR_PREFIX, SELF
from alerts.model import Background, Snapshot
from monitor.models.insight import AppInsight, Attribution, Insight
from monitor.models.status import Verdict
from monitor.report.format import duration, number, percent, plain_text
from monitor.store.insights import read_insights, read_marks
from monitor.store.ledger import Booking, Kind, read_between
from monitor.store.query import series
from monitor.store.samples import worst_sample_id
from monitor.store.tables import counts, streams

#: A deploy this long before the trouble may have caused it.
_BEFORE = timedelta(hours=1)
#: An explanation that was made longer ago explains something else.
_EXPLAINED_FOR = timedelta(minutes=15)
_PIPELINE_S = 900
_MOST = 3
_NAME_CHARS = 60
_ENOUGH_LATE_S = 120.0
_TREND_STEPS = 24
_TREND_WINDOWS = 2


@dataclass(slots=True)
class Backgrounds:
    """Reads the background of alerts within one transaction, each app's facts once."""

    connection: Connection
    now: datetime
    _insights: dict[str, tuple[dict[tuple[str, str], Insight], dict[str, AppInsight]]] = field(
        default_factory=dict
    )
    _pipelines: dict[str, str] = field(default_factory=dict)

    def added_to(self, snapshot: Snapshot, *, over: bool) -> Snapshot:
        """Return *snapshot* with its trend and, unless it is *over*, its background and example."""
        found: dict[str, Any] = {"trend": read_trend(self.connection, snapshot.verdict)}
        if not over:
            found["background"] = self.of(snapshot)
            verdict = snapshot.verdict
            found["example_id"] = worst_sample_id(
                self.connection,
                app=verdict.app,
                metric=verdict.metric,
                evaluator_version=verdict.evaluator_version,
                since=verdict.onset or min(verdict.since, snapshot.since),
            )
        return snapshot.model_copy(update=found)

    def of(self, snapshot: Snapshot) -> Background:
        """Return what is known of the background of an alert; empty where nothing is."""
        app, metric = snapshot.key.app, snapshot.key.metric
        if app == SELF:
            return Background()
        if app not in self._pipelines:
            now_s = self.now.timestamp()
            found = read_between(self.connection, now_s - _PIPELINE_S, app=app)
            bookings = found.get(app, Counter())
            newest_s = self.connection.execute(
                select(func.max(counts.c.start_s)).where(
                    counts.c.app == app,
                    counts.c.kind == Kind.SCORED.value,
                    counts.c.start_s >= now_s - 86_400,
                )
            ).scalar()
            age_s = None if newest_s is None else now_s - newest_s
            self._pipelines[app] = _pipeline_words(bookings, age_s)
        pipeline = self._pipelines[app]
        if metric.startswith(MONITOR_PREFIX):
            return Background(pipeline=pipeline)
        if app not in self._insights:
            since = self.now - _EXPLAINED_FOR
            self._insights[app] = read_insights(self.connection, since=since, app=app)
        of_metrics, of_apps = self._insights[app]
        insight = of_metrics.get((app, metric))
        attribution = insight.attribution if insight else None
        return Background(
            changed="; ".join(self._changes(snapshot, insight, of_apps.get(app))),
            segments=_segments(attribution) if attribution else "",
            pipeline=pipeline,
        )

    def _changes(
        self, snapshot: Snapshot, insight: Insight | None, of_app: AppInsight | None
    ) -> Iterator[str]:
        """Yield what changed shortly before the trouble or since; that need not be its cause."""
        verdict = snapshot.verdict
        began = (verdict.onset_earliest or verdict.onset or snapshot.since) - _BEFORE
        ended = max(snapshot.at, snapshot.since)
        marks = read_marks(self.connection, app=snapshot.key.app, since=began)
        newest = {mark.release: mark for mark in marks if mark.at <= ended}
        for mark in list(newest.values())[-_MOST:]:
            note = f" ({plain_text(mark.note, _NAME_CHARS)})" if mark.note else ""
            yield f"release {plain_text(mark.release, _NAME_CHARS)} at {_clock(mark.at)}{note}"
        if insight is not None:
            for deploy in insight.deploys:
                if deploy.release not in newest and began <= deploy.at <= ended:
                    release = plain_text(deploy.release, _NAME_CHARS)
                    yield f"release {release} since {_clock(deploy.at)}"
            since = insight.version_since
            if since is not None and began <= since <= ended:
                version = plain_text(insight.evaluator_version, _NAME_CHARS)
                yield f"evaluator {version} since {_clock(since)}"
        for item in of_app.inputs if of_app is not None else ():
            if item.moved:
                feature = plain_text(item.feature.replace("_", " "), 40)
                before, after = plain_text(item.before, 40), plain_text(item.after, 40)
                yield f"{feature} went from {before} to {after}"


def read_trend(connection: Connection, verdict: Verdict) -> tuple[float | None, ...]:
    """
    Return the pass rates of the last two windows in 24 steps, the oldest first.

    A step without scores is None; without any the answer is empty.
    """
    step_s = max(1, _TREND_WINDOWS * verdict.window_s // _TREND_STEPS)
    last_s = int(verdict.evaluated_at.timestamp()) // step_s * step_s
    first_s = last_s - (_TREND_STEPS - 1) * step_s
    stream_id = connection.execute(
        select(streams.c.stream_id).where(
            streams.c.app == verdict.app,
            streams.c.metric == verdict.metric,
            streams.c.segment == verdict.segment,
            streams.c.evaluator_version == verdict.evaluator_version,
        )
    ).scalar()
    if stream_id is None:
        return ()
    found = series(connection, [stream_id], from_s=first_s, step_s=step_s).get(stream_id, {})
    rates = []
    for at_s in range(first_s, last_s + 1, step_s):
        tally = found.get(at_s)
        weighed = tally is not None and tally.sum_w > 0
        # Estimates of passes may lie a little outside of what a rate can be.
        rates.append(min(1.0, max(0.0, tally.sum_wy / tally.sum_w)) if tally and weighed else None)
    return tuple(rates) if any(rate is not None for rate in rates) else ()


def _pipeline_words(bookings: Counter[Booking], newest_age_s: float | None) -> str:
    """Write how samples went through the monitor lately; nothing where none did."""
    totals: Counter[Kind] = Counter()
    reasons: Counter[str] = Counter()
    for (kind, reason), n in bookings.items():
        totals[kind] += n
        if kind is Kind.FAILED:
            reasons[reason] += n
    if not totals:
        return ""
    shown = [Kind.SEEN, Kind.SAMPLED, Kind.SCORED]
    # Counters of hooks arrive late, and a backlog is scored late: neither is worth a riddle.
    if totals[Kind.SCORED] > min(totals[Kind.SEEN], totals[Kind.SAMPLED]):
        shown = [Kind.SCORED]
    shown += [kind for kind in (Kind.FAILED, Kind.SKIPPED, Kind.DROPPED) if totals[kind]]
    worst = reasons.most_common(1)
    why = f" (most of all {plain_text(worst[0][0], 40)})" if worst and worst[0][0] else ""
    text = ", ".join(f"{totals[kind]:,} {kind.value}" for kind in shown) + f" in 15 min{why}"
    if newest_age_s is None:
        return f"{text}; no score within a day"
    late = newest_age_s >= _ENOUGH_LATE_S
    return f"{text}; the newest score is {duration(newest_age_s)} old" if late else text


def _segments(found: Attribution) -> str:
    """Name the segments that explain a fall, the one that explains most first."""
    if found.change >= 0:
        return ""
    named = []
    for item in sorted(found.named, key=lambda item: -item.explains)[:_MOST]:
        before = "new" if item.rate_before is None else percent(item.rate_before, 0)
        after = "new" if item.rate_after is None else percent(item.rate_after, 0)
        explains = percent(min(1.0, max(0.0, item.explains)), 0)
        segment, size = plain_text(item.segment, _NAME_CHARS), number(item.n_after)
        named.append(f"{segment}: {before} to {after} (n = {size}), {explains} of the fall")
    return "; ".join(named)


def _clock(moment: datetime) -> str:
    return f"{moment:%m-%d %H:%M} UTC"
