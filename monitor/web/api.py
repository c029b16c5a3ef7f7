"""What programs read: the values of the pages as JSON (version 1), as figures for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from monitor.format import percent
from monitor.models import Status, Verdict
from monitor.report.model import worst_status
from monitor.store.samples import unscored
from monitor.store.verdicts import read_proofs
from monitor.web import charts, schema, time_range
from monitor.web.auth import RefusedError, read_number, wrong_parameter
from monitor.web.detail import read_recent
from monitor.web.overview import Overview
from monitor.web.site import Endpoints, answer_json, incident_for, incidents_for
from monitor.web.time_range import TimeRange

_MOST_ITEMS = 500
_USUAL_ITEMS = 100
_BACK = timedelta(days=30)
_LONGEST_S = 31_536_000
T = TypeVar("T")


class Api(Endpoints):
    """The endpoints that answer with JSON; and those for Prometheus and READMEs."""

    def status(self, request: Request) -> Response:
        """Return everything at a glance."""
        found = self.site.overview_for(request)
        p = found.pipeline
        return answer_json(
            schema.StatusAnswer(
                generated_at=found.report.generated_at,
                status=found.report.status,
                counts=dict(found.counts), open_incidents=len(found.incidents),
                fleet=found.report.fleet,
                sample_rates={
                    each.app: each.sample_rate for each in found.report.apps if each.sample_rate
                },
                pipeline=schema.Pipeline(
                    counts=dict(p.counts), waiting=p.waiting, oldest_s=p.oldest_s,
                    cost_today_usd=p.cost_today_usd, cost_month_usd=p.cost_month_usd,
                    messages=dict(p.outbox),
                ),
            ),
        )  # fmt: skip

    def metrics(self, request: Request) -> Response:
        """Return all apps and metrics."""
        app = request.query_params.get("app")
        rows = self.site.overview_for(request).rows
        verdicts = [row.verdict for row in rows if app in (None, row.verdict.app)]
        items, after = _paged(request, verdicts, lambda v: time_range.metric_path(v.app, v.metric))
        return answer_json(schema.MetricsPage(items=[_status_of(v) for v in items], next=after))

    def metric(self, request: Request) -> Response:
        """Return one metric of one app."""
        app, metric = request.path_params["app"], request.path_params["metric"]
        for row in self.site.overview_for(request).rows:
            if (row.verdict.app, row.verdict.metric) == (app, metric):
                verdict = row.verdict
                since = verdict.evaluated_at - timedelta(seconds=verdict.window_s)
                with self.site.store.read() as connection:
                    without = unscored(connection, app=app, metric=metric, since=since)
                    proof = read_proofs(connection, app=app).get((app, metric))
                return answer_json(schema.MetricAnswer(
                    **dict(_status_of(verdict)), failed=without.failed, skipped=without.skipped,
                    proof=proof,
                ))  # fmt: skip
        raise _none()

    def series(self, request: Request) -> Response:
        """Return the time series of one metric."""
        app, metric = request.path_params["app"], request.path_params["metric"]
        span_s = read_number(request, "span_s", self.site.overview.span_s, _LONGEST_S)
        now = self.site.clock()
        found = read_recent(
            self.site.store, self.site.settings, app=app, metric=metric,
            time_range=TimeRange.last(span_s, now), now=now,
        )  # fmt: skip
        if found is None:
            raise _none()
        steps = [
            schema.SeriesStep(
                start=datetime.fromtimestamp(step.start_s, UTC),
                pass_rate=schema.RateInterval(value=step.rate, lo=step.low, hi=step.high, n=step.n),
            )
            for step in found.series.steps
        ]
        step_s = found.series.step_s
        return answer_json(schema.SeriesAnswer(app=app, metric=metric, step_s=step_s, steps=steps))

    def incidents(self, request: Request) -> Response:
        """Return the incidents of thirty days."""
        with self.site.store.read() as connection:
            found = incidents_for(
                request, connection, self.site.clock() - _BACK, request.query_params.get("app")
            )
        items, after = _paged(request, found, lambda item: item.incident_id)
        return answer_json(schema.IncidentsPage(items=items, next=after))

    def incident(self, request: Request) -> Response:
        """Return one incident."""
        with self.site.store.read() as connection:
            found = incident_for(request, connection)
            if found is None:
                raise _none()
            timeline = [event.timeline_event() for event in found.events]
            return answer_json(schema.IncidentAnswer(
                incident=found.incident, timeline=timeline, deliveries=found.deliveries
            ))  # fmt: skip

    def openapi(self, request: Request) -> Response:  # noqa: ARG002  # as routes are called
        """Return the OpenAPI document."""
        return JSONResponse(schema.openapi())

    def prometheus(self, request: Request) -> Response:
        """Return the figures in Prometheus' text format."""
        body, media_type = exposition(self.site.overview_for(request), self.site.clock())
        return Response(body, headers={"Content-Type": media_type})

    def badge(self, request: Request) -> Response:
        """Return the badge of an app."""
        app = request.path_params["app"]
        verdicts = [r.verdict for r in self.site.overview_for(request).rows if r.verdict.app == app]
        status = worst_status([v.status for v in verdicts])
        worst = next((v for v in verdicts if v.status is status), None)
        value = percent(worst.pass_rate) if worst and worst.pass_rate is not None else ""
        headers = {"Cache-Control": "no-cache"}
        return Response(
            charts.badge(app, status, value), media_type="image/svg+xml", headers=headers
        )


def _status_of(verdict: Verdict) -> schema.MetricStatus:
    drift = verdict.drift
    before = (drift.reference_pass_rate, drift.reference_n) if drift else (None, 0)
    same = ("app", "metric", "status", "since", "evaluated_at", "window_s", "n_failed", "n_skipped",
            "cost_usd", "policy", "reason", "evaluator_version")  # fmt: skip
    return schema.MetricStatus(
        **{name: getattr(verdict, name) for name in same},
        pass_rate=schema.RateInterval(
            value=verdict.pass_rate, lo=verdict.low, hi=verdict.high, n=verdict.n
        ),
        mean_score=verdict.average_score,
        reference_pass_rate=schema.RateInterval(value=before[0], lo=None, hi=None, n=before[1]),
    )


def _paged(
    request: Request, items: Sequence[T], name_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """Return one page, the items behind the one that the cursor names, and the next cursor."""
    limit = read_number(request, "limit", _USUAL_ITEMS, _MOST_ITEMS)
    cursor, start = request.query_params.get("cursor"), 0
    if cursor is not None:
        found = [i for i, item in enumerate(items) if name_of(item) == cursor]
        if not found:
            raise wrong_parameter("cursor: what it stood for is gone; begin again without one")
        start = found[0] + 1
    page = items[start : start + limit]
    more = start + limit < len(items)
    return page, name_of(page[-1]) if page and more else None


def _none() -> RefusedError:
    detail = "there is no such thing; names in a path are written with ~"
    return RefusedError(404, "not found", detail)


# Figures for Prometheus.

#: More apps and metrics than this are left out, the healthiest first, and counted.
_MOST_ROWS = 500
_MOST_LABEL_CHARS = 100
_KEY = ("app", "metric")
_NUMBERS = {
    Status.HEALTHY: 0, Status.WARNING: 1, Status.CRITICAL: 2,
    Status.INSUFFICIENT_DATA: -1, Status.BLIND: -2,
}  # fmt: skip
#: Of an app and metric: name, what it is, value.
_OF_ROWS: Sequence[tuple[str, str, Callable[[Verdict], float | None]]] = (
    ("status", "0 healthy, 1 warning, 2 critical, -1 not enough data, -2 blind.",
     lambda verdict: _NUMBERS[verdict.status]),
    ("pass_rate", "Pass rate on which the status rests.", lambda verdict: verdict.pass_rate),
    ("pass_rate_low", "Its lower bound.", lambda verdict: verdict.low),
    ("pass_rate_high", "Its upper bound, which decides.", lambda verdict: verdict.high),
    ("samples", "Scores that the pass rate is based on.", lambda verdict: verdict.n),
    ("failed", "Failed evaluations in the status window.", lambda verdict: verdict.n_failed),
)  # fmt: skip
#: Of an app's ledger: name, field, what it is.
_OF_LEDGER = (
    ("seen", "seen", "Interactions that hooks saw."),
    ("sampled", "sampled", "Interactions that were sampled."),
    ("scored", "scored", "Samples that have a score."),
    ("errored", "errored", "Requests of the app that failed."),
    ("dropped", "dropped", "Samples that hooks dropped."),
    ("failed_samples", "failed", "Samples that could not be scored."),
    ("skipped", "skipped", "Samples with nothing to judge."),
    ("expired", "expired", "Samples that waited too long to be of use."),
)


def exposition(overview: Overview, now: datetime) -> tuple[bytes, str]:
    """Return the newest snapshot for Prometheus: the body and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(overview, now))
    return generate_latest(registry), CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True, eq=False)
class _Snapshot:
    """Collects the metric families of one snapshot."""

    overview: Overview
    now: datetime

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family after the other."""
        overview, now = self.overview, self.now
        rows = [row.verdict for row in overview.rows[:_MOST_ROWS]]
        for name, says, value_of in _OF_ROWS:
            yield _gauge(name, says, {(v.app, v.metric): value_of(v) for v in rows}, _KEY)
        ages = {(v.app, v.metric): (now - v.evaluated_at).total_seconds() for v in rows}
        yield _gauge("evaluation_age_seconds", "Since the status was computed.", ages, _KEY)
        left_out = len(overview.rows) - len(rows)
        yield _gauge("rows_left_out", "Apps and metrics left out, beyond the limit.", left_out)
        for name, field, says in _OF_LEDGER:
            family = CounterMetricFamily(f"groundwatch_{name}", says, labels=("app",))
            for app in overview.report.apps[:_MOST_ROWS]:
                found = getattr(app.ledger, field)
                n = found if isinstance(found, int) else sum(found.values())
                family.add_metric([app.app[:_MOST_LABEL_CHARS]], n)
            yield family
        found = overview.pipeline
        if not found.is_whole:
            return
        if found.waiting is not None:
            yield _gauge("queue_samples", "Samples that wait.", found.waiting)
            oldest_s = found.oldest_s or 0.0
            yield _gauge("queue_oldest_seconds", "How long the oldest has waited.", oldest_s)
        if found.stalls is not None:
            says = "Workers that ended themselves for want of progress."
            yield CounterMetricFamily("groundwatch_worker_stalls", says, value=found.stalls)
        says = "OpenTelemetry events about evaluations."
        events = CounterMetricFamily("groundwatch_evaluation_events", says, labels=("outcome",))
        for outcome in ("sent", "failed", "dropped"):
            events.add_metric([outcome], found.events.get(outcome, 0))
        yield events
        yield _gauge("redis_up", "Whether Redis answers.", int(found.waiting is not None))
        today, month = found.cost_today_usd or 0.0, found.cost_month_usd or 0.0
        yield _gauge("judge_cost_today_usd", "What the judge cost since midnight UTC.", today)
        yield _gauge("judge_cost_month_usd", "The same this month.", month)
        yield _gauge("open_incidents", "Open incidents.", len(overview.incidents))
        states = {(state,): n for state, n in found.outbox.items()}
        yield _gauge("alert_messages", "Alert messages by their state.", states, ("state",))


def _gauge(
    name: str, says: str, values: float | Mapping[Any, float | None], labels: Sequence[str] = ()
) -> Metric:
    """Return a gauge, or one a label; what has no value is left out."""
    family = GaugeMetricFamily(f"groundwatch_{name}", says, labels=labels)
    for key, value in (values if isinstance(values, Mapping) else {(): values}).items():
        if value is not None:
            family.add_metric([text[:_MOST_LABEL_CHARS] for text in key], value)
    return family
