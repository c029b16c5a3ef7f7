"""What the JSON API says: its shapes, and the OpenAPI document made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from monitor import __version__
from monitor.models import Delivery, Evaluation, Incident, Sample, Status, TimelineEvent


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RateInterval(_Answer):
    """A rate in [0, 1] with its 95 % interval and what it rests on; null where nothing is known."""

    value: float | None
    lo: float | None
    hi: float | None
    n: int


class MetricStatus(_Answer):
    """The status of one app and metric."""

    app: str
    metric: str
    status: Status
    since: AwareDatetime
    evaluated_at: AwareDatetime
    window_s: int
    pass_rate: RateInterval
    mean_score: float | None
    reference_pass_rate: RateInterval = Field(description="Of the reference; without an interval.")
    n_failed: int
    n_skipped: int
    cost_usd: float
    policy: str
    reason: str
    evaluator_version: str


class MetricAnswer(MetricStatus):
    """The status of one app and metric, and why evaluations of its window have no score."""

    failed: Mapping[str, int] = Field(description="Evaluations that broke, by reason.")
    skipped: Mapping[str, int] = Field(description="Those with nothing to judge, by reason.")


class Pipeline(_Answer):
    """How the monitor itself does; counts are of the last hour."""

    counts: dict[str, int]
    waiting: int | None = Field(description="Samples in the queue; null: Redis does not answer.")
    oldest_s: float | None
    cost_today_usd: float
    cost_month_usd: float
    messages: dict[str, int]


class StatusAnswer(_Answer):
    """Everything at a glance."""

    generated_at: AwareDatetime
    status: Status
    counts: dict[Status, int]
    open_incidents: int
    pipeline: Pipeline


class MetricsPage(_Answer):
    """A page of statuses, the worst first."""

    items: Sequence[MetricStatus]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class SeriesStep(_Answer):
    """One step of a time series; one without scores has n 0 and no rate."""

    start: AwareDatetime
    pass_rate: RateInterval


class SeriesAnswer(_Answer):
    """A pass rate over time, without holes."""

    app: str
    metric: str
    step_s: int
    steps: Sequence[SeriesStep]


class IncidentsPage(_Answer):
    """A page of incidents, the newest first."""

    items: Sequence[Incident]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class IncidentAnswer(_Answer):
    """One incident with its timeline and its notifications."""

    incident: Incident
    timeline: Sequence[TimelineEvent]
    deliveries: Sequence[Delivery]


class SampleAnswer(_Answer):
    """One sample with everything that was said of it."""

    sample: Sample
    received_at: AwareDatetime
    outcome: str
    reason: str
    evaluations: Sequence[Evaluation]


class Problem(_Answer):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


_CURSOR = [
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 500}},
    {"name": "cursor", "in": "query", "schema": {"type": "string"}},
]
_SPAN = {
    "name": "span_s",
    "in": "query",
    "description": "How far back, in seconds; 24 windows unless given.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 31_536_000},
}
_APP_ONLY = {"name": "app", "in": "query", "schema": {"type": "string"}}
#: Path to (what it tells, shape of the answer, parameters of the query).
_PATHS: dict[str, tuple[str, type[BaseModel], list[dict[str, Any]]]] = {
    "/api/v1/status": ("Everything at a glance", StatusAnswer, []),
    "/api/v1/metrics": ("All apps and metrics", MetricsPage, [_APP_ONLY, *_CURSOR]),
    "/api/v1/apps/{app}/metrics/{metric}": ("One metric of one app", MetricAnswer, []),
    "/api/v1/apps/{app}/metrics/{metric}/series": ("Its time series", SeriesAnswer, [_SPAN]),
    "/api/v1/incidents": ("Incidents of thirty days", IncidentsPage, [_APP_ONLY, *_CURSOR]),
    "/api/v1/incidents/{incident_id}": ("One incident", IncidentAnswer, []),
    "/api/v1/samples/{sample_id}": ("One sample; needs the role reader", SampleAnswer, []),
}
_REFUSALS = {
    "400": "a parameter is wrong", "401": "authentication required", "403": "role not sufficient",
    "404": "not found", "503": "the store does not answer",
}  # fmt: skip


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API."""
    shapes = [shape for _, shape, _ in _PATHS.values()] + [Problem]
    unique = list(dict.fromkeys(shapes))
    where = "#/components/schemas/{model}"
    refs, defined = models_json_schema([(s, "serialization") for s in unique], ref_template=where)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groundwatch",
            "version": __version__,
            "description": "Times are RFC 3339 in UTC, rates in [0, 1]. In a path, characters of "
            "a name other than letters, digits, `_`, `.` and `-` are written as `~` and two hex "
            "digits.",
        },
        "paths": {
            path: {"get": _operation(path, says, refs[shape, "serialization"], query, refs)}
            for path, (says, shape, query) in _PATHS.items()
        },
        "components": {
            "schemas": defined["$defs"],
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"bearer": []}, {"basic": []}, {}],
    }


def _operation(
    path: str, says: str, answer: dict[str, Any], query: list[dict[str, Any]], refs: Any
) -> dict[str, Any]:
    parts = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    in_path = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
        for part in parts
    ]
    problem = {"application/problem+json": {"schema": refs[Problem, "serialization"]}}
    return {
        "summary": says,
        "operationId": "_".join(p for p in path.split("/")[3:] if not p.startswith("{"))
        + ("_one" if path.endswith("}") else ""),
        "parameters": in_path + query,
        "responses": {
            "200": {"description": says, "content": {"application/json": {"schema": answer}}},
            **{code: {"description": why, "content": problem} for code, why in _REFUSALS.items()},
        },
    }
