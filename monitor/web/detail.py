"""One metric of one app, with everything that explains it: read for its page and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts.ledger import incidents_since
from monitor.models import Drift, Incident, Status, Tally, Verdict
from monitor.models.insight import Insight
from monitor.report.model import Change, MetricReport
from monitor.rolling.reference import Began, well_spans
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.insights import read_marks
from monitor.store.labels import Agreement, agreement
from monitor.store.query import Stream, active_streams, series, window_tallies
from monitor.store.verdicts import read_changes
from monitor.store.worst import WorstSample, worst_samples
from monitor.web.course import Course, Mark, course, steps_of
from workers.facts import read_explained, read_status

_STEPS = 96
_WORST = 8
_BIG_PSI, _SOME_PSI, _BIG_KS, _SOME_KS = 0.25, 0.1, 0.2, 0.1
#: Of the 101 bins of the store: 0.00 to 0.05, 0.06 to 0.10, ... make twenty of a chart.
_CHART_BINS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Everything on the page of one metric."""

    app: str
    metric: str
    report: MetricReport
    course: Course
    span_s: int
    histogram_now: Sequence[float]
    histogram_before: Sequence[float]
    incidents: Sequence[Incident]
    changes: Sequence[Change]
    marks: Sequence[Mark]
    insight: Insight | None
    worst: Sequence[WorstSample]
    labels: Agreement

    @property
    def verdict(self) -> Verdict:
        """The verdict that leads."""
        return self.report.verdict


@dataclass(frozen=True, slots=True)
class Distance:
    """One line of the drift table."""

    test: str
    value: float | None
    some_from: float
    much_from: float

    @property
    def effect(self) -> str:
        """Say how much that is, by the usual limits."""
        if self.value is None:
            return "not known"
        if self.value >= self.much_from:
            return "much"
        return "some" if self.value >= self.some_from else "little"


def distances(drift: Drift | None) -> list[Distance]:
    """List how far the window lies from its reference, by each test."""
    if drift is None:
        return []
    return [
        Distance("population stability index", drift.psi, _SOME_PSI, _BIG_PSI),
        Distance("Kolmogorov-Smirnov distance", drift.ks, _SOME_KS, _BIG_KS),
    ]


def read_detail(
    store: Store,
    settings: Settings,
    *,
    app: str,
    metric: str,
    span_s: int,
    now: datetime,
    with_worst: bool = True,
) -> Detail | None:
    """Read one metric of one app over the last *span_s* seconds; None when there is none."""
    report = read_status(store, settings, now=now, app=app)
    found = next((m for item in report.apps for m in item.metrics if m.metric == metric), None)
    if found is None:
        return None
    since = now - timedelta(seconds=span_s)
    step_s = max(1, span_s // _STEPS // settings.bucket_s) * settings.bucket_s
    with store.read() as connection:
        stream = _stream(connection, app, metric, since.timestamp())
        histograms = _histograms(connection, settings, stream, now)
        changes = _changes(connection, settings, app, metric, since)
        insight = read_explained(connection, app, now=now, since=since).get(metric)
        return Detail(
            app=app,
            metric=metric,
            report=found,
            course=_course(connection, stream, now, span_s, step_s),
            span_s=span_s,
            histogram_now=histograms[0],
            histogram_before=histograms[1],
            incidents=[
                i for i in incidents_since(connection, since, app=app) if i.metric == metric
            ],
            changes=changes,
            marks=_releases(connection, app, insight, since),
            insight=insight,
            worst=worst_samples(connection, app=app, metric=metric, since=since, limit=_WORST)
            if with_worst
            else (),
            labels=agreement(connection, app=app, metric=metric),
        )


def _stream(connection: Connection, app: str, metric: str, since_s: float) -> Stream | None:
    return next(
        (
            stream
            for stream in active_streams(connection, since_s=since_s)
            if stream.key[:3] == (app, metric, "*")
        ),
        None,
    )


def _course(
    connection: Connection, stream: Stream | None, now: datetime, span_s: int, step_s: int
) -> Course:
    tallies: dict[int, Tally] = {}
    if stream is not None:
        from_s = int(now.timestamp() - span_s) // step_s * step_s
        found = series(connection, [stream.stream_id], from_s=from_s, step_s=step_s)
        tallies = found.get(stream.stream_id, {})
    return course(steps_of(tallies), now_s=now.timestamp(), span_s=span_s, step_s=step_s)


def _histograms(
    connection: Connection, settings: Settings, stream: Stream | None, now: datetime
) -> tuple[list[float], list[float]]:
    """Count the scores of the window, and of the reference without its incidents."""
    if stream is None:
        return _in_bins(Tally()), _in_bins(Tally())
    app, width = stream.key.app, settings.bucket_s
    start_s = int(now.timestamp()) // width * width - settings.status_window_s + width
    current = window_tallies(connection, from_s=start_s, app=app).get(stream.stream_id, Tally())
    before, from_s = Tally(), start_s - settings.reference_s
    began = [
        Began(change.at.timestamp(), change.after)
        for change in _key_changes(
            connection, settings, stream, datetime.fromtimestamp(from_s, now.tzinfo)
        )
    ]
    for span in well_spans(began, from_s=from_s, to_s=start_s):
        sums = window_tallies(connection, from_s=span.from_s, to_s=span.to_s, app=app)
        before += sums.get(stream.stream_id, Tally())
    return _in_bins(current), _in_bins(before)


def _key_changes(
    connection: Connection, settings: Settings, stream: Stream, since: datetime
) -> list[Change]:
    return _changes(connection, settings, stream.key.app, stream.key.metric, since)


def _in_bins(tally: Tally) -> list[float]:
    counts = [0.0] * _CHART_BINS
    for position, count in tally.histogram.items():
        counts[min(_CHART_BINS - 1, position * _CHART_BINS // 100)] += count
    return counts


def _changes(
    connection: Connection, settings: Settings, app: str, metric: str, since: datetime
) -> list[Change]:
    return [
        Change(
            at=change.at,
            metric=change.metric,
            before=change.before,
            after=change.after,
            pass_rate=change.verdict.pass_rate,
            n=change.verdict.n,
            reason=change.verdict.reason,
        )
        for change in read_changes(connection, since=since, app=app)
        if change.metric == metric
        and change.segment == "*"
        and change.window_s == settings.status_window_s
    ]


def _releases(
    connection: Connection, app: str, insight: Insight | None, since: datetime
) -> list[Mark]:
    """Give the deploys that were told, and those that only the samples' tag shows."""
    marks = [
        Mark(told.at.timestamp(), told.release)
        for told in read_marks(connection, app=app, since=since)
    ]
    if insight is not None:
        marks += [
            Mark(deploy.at.timestamp(), deploy.release)
            for deploy in insight.deploys
            if deploy.source == "tag"
        ]
    return sorted(marks, key=lambda mark: mark.at_s)


def known_status(detail: Detail | None) -> Status:
    """Give the status that title and icon carry."""
    return Status.INSUFFICIENT_DATA if detail is None else detail.verdict.status
