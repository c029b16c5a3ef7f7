"""What leaves the page: figures for Prometheus, and a report as one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from monitor.models import Status
from monitor.report.model import AppReport, MetricReport, RatePoint, Report
from monitor.stats.intervals import wilson_interval
from monitor.web.charts import ChartThresholds
from monitor.web.overview import Glance, Row
from monitor.web.time_series import SeriesPoint, ShadedSpan, TimeSeries, spans_of
from monitor.web.words import environment

#: More apps and metrics than this are left out, the healthiest first, and counted.
_MOST_ROWS = 500
_MOST_LABEL_CHARS = 100
_KEY = ("app", "metric")
_NUMBERS = {
    Status.HEALTHY: 0, Status.WARNING: 1, Status.CRITICAL: 2,
    Status.INSUFFICIENT_DATA: -1, Status.BLIND: -2,
}  # fmt: skip


def exposition(glance: Glance, now: datetime) -> tuple[bytes, str]:
    """Return the newest snapshot for Prometheus: the body and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(glance, now))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Snapshot:
    """Collects the metric families of one snapshot."""

    def __init__(self, glance: Glance, now: datetime) -> None:
        self._glance = glance
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family after the other."""
        rows = self._glance.rows[:_MOST_ROWS]
        yield from _of_rows(rows, self._now)
        yield _gauge(
            "groundwatch_rows_left_out", "Apps and metrics left out, beyond the limit.",
            len(self._glance.rows) - len(rows),
        )  # fmt: skip
        apps = self._glance.report.apps[:_MOST_ROWS]
        for name, says in (
            ("seen", "Interactions that hooks saw."),
            ("sampled", "Interactions that were sampled."),
            ("scored", "Samples that have a score."),
        ):
            family = CounterMetricFamily(f"groundwatch_{name}", says, labels=("app",))
            for app in apps:
                family.add_metric([app.app[:_MOST_LABEL_CHARS]], getattr(app.ledger, name))
            yield family
        for name, says in (
            ("dropped", "Samples that hooks dropped."),
            ("failed_samples", "Samples that could not be scored."),
            ("skipped", "Samples with nothing to judge."),
            ("expired", "Samples that waited too long to be of use."),
        ):
            family = CounterMetricFamily(f"groundwatch_{name}", says, labels=("app",))
            for app in apps:
                counts = getattr(app.ledger, name.removesuffix("_samples"))
                family.add_metric([app.app[:_MOST_LABEL_CHARS]], sum(counts.values()))
            yield family
        yield from _of_pipeline(self._glance)


def _of_rows(rows: Sequence[Row], now: datetime) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
        ("status", "0 healthy, 1 warning, 2 critical, -1 not enough data, -2 blind.",
         lambda row: _NUMBERS[row.verdict.status]),
        ("pass_rate", "Pass rate on which the status rests.", lambda row: row.verdict.pass_rate),
        ("pass_rate_low", "Its lower bound.", lambda row: row.verdict.low),
        ("pass_rate_high", "Its upper bound, which decides.", lambda row: row.verdict.high),
        ("samples", "Scores that the pass rate rests on.", lambda row: row.verdict.n),
        ("failed", "Failed evaluations in the status window.", lambda row: row.verdict.n_failed),
        ("evaluation_age_seconds", "Since the status was computed.",
         lambda row: (now - row.verdict.evaluated_at).total_seconds()),
    )  # fmt: skip
    for name, says, value_of in figures:
        family = GaugeMetricFamily(f"groundwatch_{name}", says, labels=_KEY)
        for row in rows:
            value = value_of(row)
            if value is not None:
                key = [text[:_MOST_LABEL_CHARS] for text in (row.verdict.app, row.verdict.metric)]
                family.add_metric(key, value)
        yield family


def _of_pipeline(glance: Glance) -> Iterator[Metric]:
    found = glance.pipeline
    if found.waiting is not None:
        yield _gauge("groundwatch_queue_samples", "Samples that wait.", found.waiting)
        yield _gauge(
            "groundwatch_queue_oldest_seconds", "How long the oldest has waited.",
            found.oldest_s or 0.0,
        )  # fmt: skip
    if found.stalls is not None:
        yield CounterMetricFamily(
            "groundwatch_worker_stalls", "Workers that ended themselves for want of progress.",
            value=found.stalls,
        )  # fmt: skip
    events = CounterMetricFamily(
        "groundwatch_evaluation_events", "OpenTelemetry events about evaluations.",
        labels=("outcome",),
    )  # fmt: skip
    for outcome in ("sent", "failed", "dropped"):
        events.add_metric([outcome], found.events.get(outcome, 0))
    yield events
    yield _gauge("groundwatch_redis_up", "Whether Redis answers.", int(found.waiting is not None))
    yield _gauge(
        "groundwatch_judge_cost_today_usd", "What the judge cost since midnight UTC.",
        found.cost_today_usd,
    )  # fmt: skip
    yield _gauge("groundwatch_judge_cost_month_usd", "The same this month.", found.cost_month_usd)
    yield _gauge("groundwatch_open_incidents", "Open incidents.", len(glance.incidents))
    family = GaugeMetricFamily(
        "groundwatch_alert_messages", "Alert messages by their state.", labels=("state",)
    )
    for state, n in found.outbox.items():
        family.add_metric([state], n)
    yield family


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)


#: Largest size of a report in bytes: it goes by email.
MOST_BYTES = 480_000
_MOST_IN_FULL, _MOST_LINES, _MOST_EVENTS = 100, 300, 40


class _Short(NamedTuple):
    """A metric for which there is one line only."""

    app: str
    item: MetricReport


def render_html(report: Report, lines: ChartThresholds) -> str:
    """
    Return the report as a page that reads from ``file://``; all that it needs is in it.

    The worst apps are shown in full. The more there are, the more of the others have one line
    each, so that the page stays below :data:`MOST_BYTES`.
    """
    style = (files("monitor.web") / "static" / "style.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html")

    def shaded(app: AppReport, item: MetricReport) -> list[ShadedSpan]:
        found = [incident for incident in app.incidents if incident.metric == item.metric]
        return spans_of(found[:_MOST_EVENTS], report.generated_at)

    count = min(_MOST_IN_FULL, sum(max(1, len(app.metrics)) for app in report.apps))
    while True:
        shown, short = _cut(report.apps, count)
        text = template.render(
            report=report, lines=lines, style=style, series_of=series_of, shown=shown,
            short=short[:_MOST_LINES], left_out=len(short[_MOST_LINES:]), most=_MOST_EVENTS,
            shaded=shaded,
        )  # fmt: skip
        size = len(text.encode())
        if size <= MOST_BYTES or count == 0:
            return text
        count = min(count - 1, int(0.95 * count * MOST_BYTES / size))


def _cut(
    apps: Sequence[AppReport], count: int
) -> tuple[list[tuple[AppReport, Sequence[MetricReport]]], list[_Short]]:
    """Return the apps with the first *count* metrics, and the metrics behind those."""
    shown: list[tuple[AppReport, Sequence[MetricReport]]] = []
    short: list[_Short] = []
    for app in apps:
        if count > 0:
            shown.append((app, app.metrics[:count]))
        short += [_Short(app.app, item) for item in app.metrics[max(0, count) :]]
        count -= max(1, len(app.metrics))
    return shown, short


def series_of(points: Sequence[RatePoint]) -> TimeSeries:
    """
    Turn the points of a report into a course with bounds.

    Wilson's at 95 %, as if the samples of a step had one weight; the points hold no more.
    """
    steps = []
    for point in points:
        start_s = int(point.start.timestamp())
        if point.pass_rate is None or point.n == 0:
            steps.append(SeriesPoint(start_s))
        else:
            low, high = wilson_interval(point.pass_rate * point.n, point.n)
            steps.append(SeriesPoint(start_s, point.n, point.pass_rate, low, high))
    step_s = steps[1].start_s - steps[0].start_s if len(steps) > 1 else 1
    return TimeSeries(step_s, tuple(steps)).fitted()
