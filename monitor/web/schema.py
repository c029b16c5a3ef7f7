"""What the JSON API says: its shapes, and the OpenAPI document made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from monitor import __version__
from monitor.models import Delivery, Evaluation, Incident, Sample, Status, TimelineEvent
from monitor.models.interaction import AppName, Name
from monitor.models.status import FleetFall
from monitor.store.feedback import MOST_COMMENT_CHARS
from monitor.store.labels import LabelRecord
from monitor.store.search import FoundSample, SampleFilter, Sort


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
    fleet: Sequence[FleetFall] = Field(description="Apps that fell together, and still do.")
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


class SamplesPage(_Answer):
    """A page of samples."""

    items: Sequence[FoundSample]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class SampleAnswer(_Answer):
    """One sample with everything that was said of it."""

    sample: Sample
    received_at: AwareDatetime
    outcome: str
    reason: str
    evaluations: Sequence[Evaluation]


class AgreementItem(_Answer):
    """How one evaluator version and people agree on one metric of an app."""

    app: str
    metric: str
    evaluator_version: str
    n: int = Field(description="Samples whose annotators have a majority.")
    drawn: int = Field(description="How many of these were drawn at random.")
    tied: int = Field(description="Samples whose annotators are split evenly.")
    annotators: int
    between_annotators: float | None = Field(description="Share of pairs of annotators that agree.")
    agreement: float | None
    kappa: float | None = Field(description="Cohen's; null where it is undefined.")
    weighted_agreement: float | None = Field(
        description="Of all answers: the drawn samples, weighted to the evaluator's pass rate."
    )
    weighted_kappa: float | None
    confusion: Mapping[str, int]
    releases: Mapping[str, int] = Field(description="Samples by release of the app.")
    last_at: AwareDatetime


class AgreementsAnswer(_Answer):
    """Evaluators beside people."""

    items: Sequence[AgreementItem]


class RefusedLabel(_Answer):
    """A label that was not stored: its position, and why."""

    index: int
    reason: str
    detail: str


class LabelsTaken(_Answer):
    """What became of labels."""

    stored: int
    changed: int = Field(description="The annotator had said otherwise before.")
    duplicate: int = Field(description="The annotator had said the same before.")
    refused: Sequence[RefusedLabel]


class SentFeedback(BaseModel):
    """What a user said of one answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    app: AppName = Field("default", description="The app whose answer it is.")
    trace_id: Name = Field(description="The one that the interaction has.")
    good: bool
    comment: str = Field("", max_length=MOST_COMMENT_CHARS)


class FeedbackTaken(_Answer):
    """What became of feedback."""

    stored: int
    duplicate: int


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
_METRIC = {"name": "metric", "in": "query", "schema": {"type": "string"}}


def _filters() -> list[dict[str, Any]]:
    """Return the parameters by which samples are found."""
    found = []
    shapes = SampleFilter.model_json_schema()["properties"]
    for name, shape in shapes.items():
        said = shape.pop("description", "")
        wanted = {key: value for key, value in shape.items() if key not in {"title", "default"}}
        if "anyOf" in wanted:
            wanted = next(option for option in wanted["anyOf"] if option.get("type") != "null")
        if name in {"since", "until"}:
            wanted, said = {"type": "string"}, "RFC 3339, or for so long ago: 90s, 15m, 24h, 7d."
        found.append({"name": name, "in": "query", "description": said, "schema": wanted})
    said = "By score to the hundredth, which needs a metric."
    orders = {"type": "string", "enum": [order.value for order in Sort]}
    return [*found, {"name": "sort", "in": "query", "description": said, "schema": orders}]


#: Path to (what it tells, shape of the answer, parameters of the query).
_PATHS: dict[str, tuple[str, type[BaseModel], list[dict[str, Any]]]] = {
    "/api/v1/status": ("Everything at a glance", StatusAnswer, []),
    "/api/v1/metrics": ("All apps and metrics", MetricsPage, [_APP_ONLY, *_CURSOR]),
    "/api/v1/apps/{app}/metrics/{metric}": ("One metric of one app", MetricAnswer, []),
    "/api/v1/apps/{app}/metrics/{metric}/series": ("Its time series", SeriesAnswer, [_SPAN]),
    "/api/v1/incidents": ("Incidents of thirty days", IncidentsPage, [_APP_ONLY, *_CURSOR]),
    "/api/v1/incidents/{incident_id}": ("One incident", IncidentAnswer, []),
    "/api/v1/samples": ("Samples; needs the role reader", SamplesPage, [*_filters(), *_CURSOR]),
    "/api/v1/samples/{sample_id}": ("One sample; needs the role reader", SampleAnswer, []),
    "/api/v1/labels": ("How evaluators and people agree", AgreementsAnswer, [_APP_ONLY, _METRIC]),
}
#: What is sent by POST: path to (what it does, shape of one item of the list, of the answer).
_POSTED: dict[str, tuple[str, type[BaseModel], type[BaseModel]]] = {
    "/api/v1/labels": ("Store labels; needs the role operator", LabelRecord, LabelsTaken),
    "/api/v1/feedback": (
        "Store what a user said; role operator, or a page of GROUNDWATCH_FEEDBACK_ORIGINS",
        SentFeedback, FeedbackTaken,
    ),
}  # fmt: skip
#: Sent as a list.
_LISTS = frozenset({"/api/v1/labels"})
_REFUSALS = {
    "400": "a parameter is wrong", "401": "authentication required", "403": "role not sufficient",
    "404": "not found", "413": "the body is too large", "415": "JSON is expected",
    "429": "too much at once",
    "503": "the store does not answer",
}  # fmt: skip


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API."""
    shapes = [shape for _, shape, _ in _PATHS.values()] + [Problem]
    shapes += [answer for *_, answer in _POSTED.values()]
    unique = [(shape, "serialization") for shape in dict.fromkeys(shapes)]
    unique += [(sent, "validation") for _, sent, _ in _POSTED.values()]
    where = "#/components/schemas/{model}"
    refs, defined = models_json_schema(unique, ref_template=where)  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {
        path: {"get": _operation(path, says, refs[shape, "serialization"], query, refs)}
        for path, (says, shape, query) in _PATHS.items()
    }
    for path, (says, sent, shape) in _POSTED.items():
        operation = _operation(path, says, refs[shape, "serialization"], [], refs)
        operation["operationId"] += "_post"
        shape_sent: dict[str, Any] = refs[sent, "validation"]
        if path in _LISTS:
            shape_sent = {"type": "array", "items": shape_sent, "minItems": 1}
        operation["requestBody"] = {"content": {"application/json": {"schema": shape_sent}}}
        paths.setdefault(path, {})["post"] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groundwatch",
            "version": __version__,
            "description": "Times are RFC 3339 in UTC, rates in [0, 1]. In a path, characters of "
            "a name other than letters, digits, `_`, `.` and `-` are written as `~` and two hex "
            "digits.",
        },
        "paths": paths,
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
