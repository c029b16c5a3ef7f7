"""What a page says of one metric, with everything that explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from alerts.model import AlertKey, AlertState
from alerts.queries import alerts_since
from alerts.store import read_state
from monitor.models import ROOT, Alert, Tally, Verdict
from monitor.models.evaluation import PassRule
from monitor.models.insight import Deploy, InputDrift, Insight
from monitor.report.model import MetricReport, ReportedChange
from monitor.rolling.attribution import segment_changes
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.tallies import DOUBT
from monitor.settings import Settings
from monitor.stats.intervals import wilson_interval
from monitor.store.agreement import Agreement, agreements
from monitor.store.engine import Store
from monitor.store.query import (
    BUCKETS,
    HOURS,
    LEVELS,
    Stream,
    active_streams,
    read_marks,
    read_pass_lines,
    series,
    window_tallies,
)
from monitor.store.samples import Unscored, WorstSample, unscored, worst_samples
from monitor.store.tables import streams
from monitor.store.verdicts import read_changes, read_release_marks
from monitor.web.time_range import (
    ChartMark,
    Kept,
    TimeRange,
    TimeSeries,
    read_time_range,
    steps_of,
    time_series,
)  # fmt: skip
from workers.drift import Reference, References
from workers.reports import read_explained, read_status, report_change

_WORST, _MOST_SEGMENTS = 6, 40
#: Of the 101 bins of the store: 0.00 to 0.05, 0.06 to 0.10, ... make twenty of a chart.
_CHART_BINS = 20
#: Of a chart whose steps are joined, because each has few scores.
_FEWEST_STEPS, _LEAST_A_STEP = 24, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One segment now and in the reference; rates in [0, 1], None where nothing was scored."""

    dimension: str
    value: str
    n: float
    share: float
    share_before: float
    rate: float | None
    low: float | None
    high: float | None
    rate_before: float | None
    adds: float | None  #: to the change of the whole, by its rate and its share

    @property
    def change(self) -> float | None:
        """How far its rate lies above that of the reference."""
        if self.rate is None or self.rate_before is None:
            return None
        return self.rate - self.rate_before


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """The segments that are worth a line, and how many are not."""

    rows: Sequence[SegmentRow] = ()
    left_out: int = 0
    reference: str = ""  #: what they are compared with, in words
    span: ReferenceSpan = field(default_factory=lambda: ReferenceSpan(0, 0))  #: of the rows

    @property
    def is_compared(self) -> bool:
        """Whether there are earlier scores to compare with."""
        return any(row.share_before for row in self.rows)

    @property
    def since(self) -> datetime:
        """When the span of the rows begins."""
        return datetime.fromtimestamp(self.span.from_s, UTC)

    @property
    def until(self) -> datetime:
        """When the span of the rows ends, exclusive."""
        return datetime.fromtimestamp(self.span.to_s, UTC)


def read_segments(
    connection: Connection, references: References, stream: Stream, window: ReferenceSpan
) -> SegmentTable:
    """Return the segments of a stream over *window* and over its reference."""
    described, before = references.segments(stream, window)
    now = window_tallies(
        connection, from_s=window.from_s, to_s=window.to_s, app=stream.key.app, segment=None,
        histograms=False,
    )  # fmt: skip
    mine = stream.key._replace(segment=ROOT)
    since_s = window.from_s - references.settings.windows.reference_s
    names = {
        found.stream_id: found.key.segment
        for found in active_streams(connection, since_s=since_s, segment=None, app=stream.key.app)
        if found.key._replace(segment=ROOT) == mine and found.key.segment != ROOT
    }
    of_segments = (
        {names[key]: tally for key, tally in tallies.items() if key in names}
        for tallies in (before, now)
    )
    root_before, root_now = (of.get(stream.stream_id, Tally()) for of in (before, now))
    changes = segment_changes(*of_segments, root_before=root_before, root_now=root_now)
    rows = []
    for found in changes:
        if not (found.now.n or found.before.n):
            continue
        dimension, _, value = found.segment.partition("=")
        now_n, rate = found.now.n, found.now.rate
        low, high = wilson_interval(rate * now_n, now_n, alpha=DOUBT) if now_n else (None, None)
        rows.append(
            SegmentRow(
                dimension=dimension, value=value, n=now_n, share=found.share_now,
                share_before=found.share_before, rate=rate if now_n else None, low=low, high=high,
                rate_before=found.before.rate if found.before.n else None,
                adds=found.part.rate + found.part.mix if root_before.n else None,
            )
        )  # fmt: skip
    shown, rest = rows[:_MOST_SEGMENTS], rows[_MOST_SEGMENTS:]
    return SegmentTable(shown, len(rest), described, window)


def read_app_segments(
    connection: Connection,
    settings: Settings,
    app: str,
    metric: str,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> SegmentTable:
    """Return the segments of a metric with scores since *since*, or else in the status window."""
    stream = _streams(connection, app, settings, now).get(metric)
    if stream is None:
        return SegmentTable()
    window = _window(settings, now)
    if since is not None:
        width_s = settings.windows.bucket_s
        first, last = (int(at.timestamp()) // width_s for at in (since, until or now))
        window = ReferenceSpan(first * width_s, (last + 1) * width_s)
    found = read_segments(connection, References(connection, settings), stream, window)
    return replace(found, rows=[row for row in found.rows if row.n])


def _window(settings: Settings, now: datetime) -> ReferenceSpan:
    """Return the status window, in whole buckets up to now."""
    now_s, width_s = int(now.timestamp()), settings.windows.bucket_s
    first_s = now_s // width_s * width_s - settings.windows.status_window_s + width_s
    return ReferenceSpan(first_s, now_s + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Everything on the page of one metric."""

    app: str
    metric: str
    report: MetricReport
    series: TimeSeries
    time_range: TimeRange
    window_from_s: int  #: where the window begins of which segments and histogram speak
    histogram_now: Sequence[float]
    histogram_before: Sequence[float]
    pass_score: float  #: from which a score passes
    reference: str  #: what the window is compared with, in words
    segments: SegmentTable
    alert: AlertState | None
    incidents: Sequence[Alert]
    changes: Sequence[ReportedChange]
    deploys: Sequence[Deploy]  #: that were recorded, not compared yet
    marks: Sequence[ChartMark]
    insight: Insight | None
    inputs: Sequence[InputDrift]  #: how the app's questions, answers and contexts moved
    worst: Sequence[WorstSample]
    unscored: Unscored
    labels: Agreement | None  #: of people with the present evaluator; None without labels

    @property
    def verdict(self) -> Verdict:
        """The verdict that leads."""
        return self.report.verdict


class Recent(NamedTuple):
    """One metric of one app over a time range: its newest report, and its pass rate."""

    report: MetricReport
    series: TimeSeries


def read_recent(
    store: Store,
    settings: Settings,
    *,
    app: str,
    metric: str,
    time_range: TimeRange,
    now: datetime,
    least_n: int = 0,
) -> Recent | None:
    """Return the time series of a metric, of steps with *least_n* scores; None without one."""
    report = _report(store, settings, app, metric, now)
    if report is None:
        return None
    with store.read() as connection:
        stream = _streams(connection, app, settings, now).get(metric)
        return Recent(report, _series(connection, settings, stream, time_range, least_n=least_n))


def read_detail(
    store: Store,
    settings: Settings,
    *,
    app: str,
    metric: str,
    time_range: TimeRange,
    now: datetime,
    with_worst: bool = True,
) -> Detail | None:
    """Return one metric of one app over a time range; None if there is no such metric."""
    report = _report(store, settings, app, metric, now)
    if report is None:
        return None
    since = datetime.fromtimestamp(time_range.from_s, UTC)
    until = datetime.fromtimestamp(time_range.to_s + 1, UTC)
    with store.read() as connection:
        stream = _streams(connection, app, settings, now).get(metric)
        current, reference, segments = Tally(), Reference("", Tally()), SegmentTable()
        window = _window(settings, now)
        if stream is not None:
            references = References(connection, settings)
            tallies = window_tallies(connection, from_s=window.from_s, app=app)
            current = tallies.get(stream.stream_id, current)
            reference = references.of(stream, window)
            segments = read_segments(connection, references, stream, window)
        insights, inputs = read_explained(connection, app, now=now, since=since)
        insight = insights.get(metric)
        deploys = read_deploys(connection, app, since)
        # Those that only a tag of the samples shows are compared, but not recorded.
        compared = insight.deploys if insight is not None else ()
        tagged = [deploy for deploy in compared if deploy.source == "tag"]
        marks = [ChartMark(d.at.timestamp(), d.release) for d in (*deploys, *tagged)]
        key = AlertKey(app, metric, ROOT, settings.windows.status_window_s)
        # Where its scores pass: by its version, or the app's own line.
        version, pass_score = report.verdict.evaluator_version, settings.pass_score
        if (rule := PassRule.read(version)) is not None:
            own = read_pass_lines(connection).get((app, metric, version)) if rule.own else None
            pass_score = rule.line if own is None else own.line
        return Detail(
            app=app,
            metric=metric,
            report=report,
            series=_series(connection, settings, stream, time_range, least_n=_LEAST_A_STEP),
            time_range=time_range,
            window_from_s=window.from_s,
            histogram_now=_in_bins(current),
            histogram_before=_in_bins(reference.tally),
            pass_score=pass_score,
            reference=reference.described,
            segments=segments,
            alert=read_state(connection, key),
            incidents=[
                alert for alert in alerts_since(connection, since, app=app)
                if alert.metric == metric and alert.opened_at < until
            ],
            changes=[
                report_change(change)
                for change in read_changes(connection, since=since, app=app)
                if (change.metric, change.segment) == (metric, ROOT)
                and change.window_s == settings.windows.status_window_s
                and change.at < until
            ],
            deploys=deploys,
            marks=sorted(marks, key=lambda mark: mark.at_s),
            insight=insight,
            inputs=inputs,
            worst=() if not with_worst else worst_samples(
                connection, app=app, metric=metric, since=since, until=until, limit=_WORST
            ),
            unscored=unscored(connection, app=app, metric=metric, since=since, until=until),
            labels=next((
                found for found in agreements(connection, app=app, metric=metric)
                if found.evaluator_version == version
            ), None),
        )  # fmt: skip


def read_day(
    connection: Connection,
    settings: Settings,
    app: str,
    metrics: Sequence[str],
    *,
    now: datetime,
    first_s: int | None,
) -> list[TimeSeries]:
    """Return the pass rate of each metric over the last day, or since *first_s* if it is later."""
    shown = read_time_range(
        {}, now=now, usual_s=86_400, bucket_s=settings.windows.bucket_s, first_s=first_s
    )
    of = _streams(connection, app, settings, now)
    return [
        _series(connection, settings, of.get(metric), shown, least_n=_LEAST_A_STEP)
        for metric in metrics
    ]


def read_first_score_s(store: Store, app: str, metric: str) -> int | None:
    """Return when the first score of a metric came that is still kept, in epoch seconds."""
    mine = (streams.c.app == app) & (streams.c.metric == metric) & (streams.c.segment == ROOT)
    found = []
    with store.read() as connection:
        for stream_id in connection.scalars(select(streams.c.stream_id).where(mine)).all():
            for level in LEVELS:
                start_s = level.sums.c.start_s
                first = select(func.min(start_s)).where(level.sums.c.stream_id == stream_id)
                begun_s = connection.execute(first).scalar()
                # The start of an hour or a day gives way to that of a bucket within it.
                slack_s = 0 if level is BUCKETS else level.width_s - 1
                found += [] if begun_s is None else [int(begun_s) + slack_s]
    return min(found, default=None)


def read_deploys(connection: Connection, app: str, since: datetime) -> list[Deploy]:
    """Return the releases of an app that were recorded since then, not compared yet."""
    return [
        Deploy(release=m.release, at=m.at, source="mark", note=m.note, verdict="no data")
        for m in read_release_marks(connection, app=app, since=since)
    ]


def _report(
    store: Store, settings: Settings, app: str, metric: str, now: datetime
) -> MetricReport | None:
    report = read_status(store, settings, now=now, app=app)
    return next((m for item in report.apps for m in item.metrics if m.metric == metric), None)


def _streams(
    connection: Connection, app: str, settings: Settings, now: datetime
) -> dict[str, Stream]:
    """Return each metric's current stream, or its latest one."""
    window_s = max(settings.windows.status_window_s, *settings.windows.windows_s)
    streams = active_streams(
        connection, since_s=0, current_since_s=now.timestamp() - window_s, app=app
    )
    return {stream.key.metric: stream for stream in streams}


def _series(
    connection: Connection,
    settings: Settings,
    stream: Stream | None,
    time_range: TimeRange,
    *,
    least_n: int = 0,
) -> TimeSeries:
    """Sum a stream to steps; wider ones where a step has fewer than *least_n* scores on average."""
    marks = read_marks(connection)
    kept = Kept(marks[BUCKETS.name].kept_from_s, marks[HOURS.name].kept_from_s)
    step_s = time_range.step_s(settings.windows.bucket_s, kept)
    tallies: dict[int, Tally] = {}
    if stream is not None:
        from_s = time_range.from_s // step_s * step_s
        found = series(
            connection, [stream.stream_id], from_s=from_s, to_s=time_range.to_s + 1, step_s=step_s
        )
        tallies = found.get(stream.stream_id, {})
    each_n = sum(tally.n for tally in tallies.values()) / max(1, len(tallies))
    while tallies and each_n < least_n and time_range.length_s >= 2 * _FEWEST_STEPS * step_s:
        step_s, each_n, finer, tallies = 2 * step_s, 2 * each_n, tallies, {}
        for start_s, tally in finer.items():
            at_s = start_s // step_s * step_s
            tallies[at_s] = tallies.get(at_s, Tally()) + tally
    return time_series(
        steps_of(tallies), now_s=time_range.to_s, span_s=time_range.length_s, step_s=step_s
    )


def _in_bins(tally: Tally) -> list[float]:
    counts = [0.0] * _CHART_BINS
    for position, count in tally.histogram.items():
        counts[min(_CHART_BINS - 1, position * _CHART_BINS // 100)] += count
    return counts
