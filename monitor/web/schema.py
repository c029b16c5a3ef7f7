"""What the JSON API says: its shapes, and the OpenAPI document made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from monitor import __version__
from monitor.models import Delivery, Evaluation, Incident, Sample, Status, TimelineEvent
from monitor.models.insight import DetectionProof, SampleRate
from monitor.models.interaction import AppName, Name
from monitor.models.status import FleetFall
from monitor.store import Sort
from monitor.store.agreement import Agreement
from monitor.store.feedback import MOST_COMMENT_CHARS
from monitor.store.labels import LabelRecord
from monitor.store.sample_filter import SampleFilter
from monitor.store.samples import SessionScore
from monitor.store.search import FoundSample
from monitor.testsets.cases import TestCase


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, found: object) -> Self:
        """Return what programs read of a value with attributes of these names."""
        return cls.model_validate(found, from_attributes=True)


class RateInterval(_Shape):
    """A rate in [0, 1] with its 90 % interval and what it is based on; null if unknown."""

    value: float | None
    lo: float | None
    hi: float | None
    n: int


class MetricStatus(_Shape):
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
    proof: DetectionProof | None = Field(description="If a detection objective is stated.")


class Pipeline(_Shape):
    """How the monitor itself does; counts are of the last hour."""

    counts: dict[str, int]
    waiting: int | None = Field(description="Samples in the queue; null: Redis does not answer.")
    oldest_s: float | None
    cost_today_usd: float | None = Field(description="null: to who may see some apps only.")
    cost_month_usd: float | None
    messages: dict[str, int]


class StatusAnswer(_Shape):
    """Everything at a glance."""

    generated_at: AwareDatetime
    status: Status
    counts: dict[Status, int]
    open_incidents: int
    fleet: Sequence[FleetFall] = Field(description="Apps that fell together, and still do.")
    sample_rates: dict[str, SampleRate] = Field(
        description="By app, which sample rate its hooks were asked for, why and by whom."
    )
    pipeline: Pipeline


class MetricsPage(_Shape):
    """A page of statuses, the worst first."""

    items: Sequence[MetricStatus]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class SeriesStep(_Shape):
    """One step of a time series; one without scores has n 0 and no rate."""

    start: AwareDatetime
    pass_rate: RateInterval


class SeriesAnswer(_Shape):
    """A pass rate over time, without holes."""

    app: str
    metric: str
    step_s: int
    steps: Sequence[SeriesStep]


class IncidentsPage(_Shape):
    """A page of incidents, the newest first."""

    items: Sequence[Incident]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class IncidentAnswer(_Shape):
    """One incident with its timeline and its notifications."""

    incident: Incident
    timeline: Sequence[TimelineEvent]
    deliveries: Sequence[Delivery]


class SamplesPage(_Shape):
    """A page of samples."""

    items: Sequence[FoundSample]
    next: str | None = Field(description="Give it back as `cursor` for the next page.")


class SampleAnswer(_Shape):
    """One sample with its scores, claims and labels."""

    sample: Sample
    received_at: AwareDatetime
    outcome: str
    reason: str
    evaluations: Sequence[Evaluation]
    session: Sequence[SessionScore] = Field(
        (), description="Scores of its session by metric; `resolved`: whether the last turn passes."
    )


class AgreementItem(_Shape):
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
        description="Of all answers: drawn samples, weighted by how many answers each stands for."
    )
    weighted_kappa: float | None
    weighted_true_pass_rate: float | None = Field(
        description="Share of all good answers that pass."
    )
    weighted_false_pass_rate: float | None = Field(
        description="Share of all bad answers that pass."
    )
    confusion: Mapping[str, int]
    releases: Mapping[str, int] = Field(description="Samples by release of the app.")
    last_at: AwareDatetime

    @classmethod
    def of(cls, found: Agreement) -> AgreementItem:
        """Return what programs read of an agreement."""
        same = ("app", "metric", "evaluator_version", "n", "drawn", "tied", "annotators",
                "between_annotators", "releases", "last_at")  # fmt: skip
        counts, weighted = found.confusion, found.weighted
        return cls(
            **{name: getattr(found, name) for name in same},
            agreement=counts.agreement,
            kappa=counts.kappa,
            **{
                f"weighted_{name}": getattr(weighted, name) if weighted else None
                for name in ("agreement", "kappa", "true_pass_rate", "false_pass_rate")
            },
            confusion={name: int(count) for name, count in counts._asdict().items()},
        )


class AgreementsAnswer(_Shape):
    """Evaluators beside people."""

    items: Sequence[AgreementItem]


class RefusedLabel(_Shape):
    """A label that was not stored: its position, and why."""

    index: int
    reason: str
    detail: str


class LabelsTaken(_Shape):
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


class FeedbackTaken(_Shape):
    """What became of feedback."""

    stored: int
    duplicate: int


class SentDeploy(_Shape):
    """A release that went out."""

    app: AppName
    release: Name = Field(description="Its name, such as v12.")
    at: AwareDatetime | None = Field(None, description="When it went out; now unless given.")
    note: str = Field("", max_length=2000)


class DeployAnswer(_Shape):
    """A recorded deploy."""

    app: str
    release: str
    at: AwareDatetime
    note: str


class DeploysAnswer(_Shape):
    """The deploys of ninety days, the newest first."""

    items: Sequence[DeployAnswer]


class SentAcknowledgement(_Shape):
    """Somebody takes care of an incident."""

    note: str = Field("", max_length=500)
    hours: float = Field(8.0, gt=0, le=720, description="For so long no reminders are sent.")


class AcknowledgementAnswer(_Shape):
    """Who acknowledged an incident, and until when no reminders are sent."""

    by: str
    note: str
    until: AwareDatetime


class SentSilence(_Shape):
    """Alerts that match all matchers are not sent for a while."""

    matchers: Sequence[str] = Field(
        min_length=1, max_length=20, description="Such as app=shop, severity=warning."
    )
    comment: str = Field(min_length=1, max_length=1000, description="Why, for the others.")
    hours: float = Field(gt=0, le=720)
    starts_at: AwareDatetime | None = Field(None, description="Now unless given.")


class SilenceAnswer(_Shape):
    """A silence."""

    silence_id: str
    matchers: Sequence[Annotated[str, BeforeValidator(str)]]
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    author: str
    comment: str


class SilencesAnswer(_Shape):
    """The silences that are not over, the first to end first."""

    items: Sequence[SilenceAnswer]


class SentCases(_Shape):
    """Samples that become test cases."""

    sample_ids: Sequence[str] = Field(min_length=1, max_length=500)
    answer: str | None = Field(None, description="What should have been answered.")
    tags: Sequence[str] = ()
    critical: bool = Field(False, description="A gate tolerates no failure of these.")


class LeftOut(_Shape):
    """A sample that became no test case: unknown_sample, no_question or disputed."""

    sample_id: str
    reason: str


class CasesAnswer(_Shape):
    """Test cases, each as a line of a test set holds it."""

    items: Sequence[TestCase]
    left_out: Sequence[LeftOut]


class Problem(_Shape):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


def _parameter(name: str, says: str = "", most: int | None = None) -> dict[str, Any]:
    """Return a text in the query of an address, or a number from 1 to *most*."""
    shape = {"type": "integer", "minimum": 1, "maximum": most} if most else {"type": "string"}
    about = {"description": says} if says else {}
    return {"name": name, "in": "query", **about, "schema": shape}


_CURSOR = [_parameter("limit", most=500), _parameter("cursor")]
_SPAN = _parameter("span_s", "How far back, in seconds; 24 windows unless given.", 31_536_000)
_APP_ONLY, _METRIC = _parameter("app"), _parameter("metric")
_ANNOTATORS = _parameter("annotators", "Least people who labelled a sample.", 100)


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
    mode = _parameter("mode", "Name of a failure mode; needs an app and a metric.")
    return [*found, mode, {"name": "sort", "in": "query", "description": said, "schema": orders}]


#: Parameters of lists of samples.
SAMPLE_QUERY = [*_filters(), *_CURSOR]


class Operation(NamedTuple):
    """What a method of a path does, the shapes of its body and its answer, and its parameters."""

    method: str
    path: str
    says: str
    answer: type[BaseModel]
    sent: type[BaseModel] | None = None
    query: Sequence[dict[str, Any]] = ()

    @property
    def name(self) -> str:
        """Its id in the document, such as incidents_one or labels_post."""
        parts = self.path.split("/")[3:]
        name = "_".join(part for part in parts if not part.startswith("{"))
        name += "_one" if parts[-1].endswith("}") else ""
        return name if self.method == "get" else f"{name}_{self.method}"


_METRIC_PATH = "/api/v1/apps/{app}/metrics/{metric}"
_INCIDENT_PATH = "/api/v1/incidents/{incident_id}"
#: All of the API; `make_app` has the endpoint of each by its name.
OPERATIONS = [
    Operation(*each) for each in (
        ("get", "/api/v1/status", "Everything at a glance", StatusAnswer),
        ("get", "/api/v1/metrics", "All apps and metrics", MetricsPage, None,
         [_APP_ONLY, *_CURSOR]),
        ("get", _METRIC_PATH, "One metric of one app", MetricAnswer),
        ("get", f"{_METRIC_PATH}/series", "Its time series", SeriesAnswer, None, [_SPAN]),
        ("get", "/api/v1/incidents", "Incidents of thirty days", IncidentsPage, None,
         [_APP_ONLY, *_CURSOR]),
        ("get", _INCIDENT_PATH, "One incident", IncidentAnswer),
        ("get", "/api/v1/samples", "Samples; needs the role reader", SamplesPage, None,
         SAMPLE_QUERY),
        ("get", "/api/v1/samples/{sample_id}", "One sample; needs the role reader", SampleAnswer),
        ("get", "/api/v1/deploys", "Deploys of ninety days", DeploysAnswer, None, [_APP_ONLY]),
        ("get", "/api/v1/silences", "Silences that are not over", SilencesAnswer),
        ("get", "/api/v1/test-cases", "Test cases by what people labelled; needs the role reader",
         CasesAnswer, None, [_APP_ONLY | {"required": True}, _METRIC, _ANNOTATORS]),
        ("get", "/api/v1/labels", "How evaluators and people agree", AgreementsAnswer, None,
         [_APP_ONLY, _METRIC]),
        ("post", "/api/v1/deploys", "Record a deploy; scope deploys", DeployAnswer, SentDeploy),
        ("post", f"{_INCIDENT_PATH}/acknowledgements",
         "Acknowledge an incident; scope acknowledgements",
         AcknowledgementAnswer, SentAcknowledgement),
        ("post", "/api/v1/silences", "Add a silence; scope silences", SilenceAnswer, SentSilence),
        ("delete", "/api/v1/silences/{silence_id}", "End a silence; scope silences",
         SilenceAnswer),
        ("post", "/api/v1/labels", "Store labels; scope labels", LabelsTaken, LabelRecord),
        ("post", "/api/v1/feedback",
         "Store what a user said; scope feedback, or a page of GROUNDWATCH_FEEDBACK_ORIGINS",
         FeedbackTaken, SentFeedback),
        ("post", "/api/v1/test-cases", "Make test cases of samples; needs the role reader",
         CasesAnswer, SentCases),
    )
]  # fmt: skip
#: Sent as a list.
_LISTS = frozenset({"/api/v1/labels"})
_REFUSALS = {
    "400": "a parameter is wrong", "401": "authentication required", "403": "role not sufficient",
    "404": "not found", "409": "it is over already", "413": "the body is too large",
    "415": "JSON is expected",
    "429": "too much at once",
    "503": "the store does not answer",
}  # fmt: skip


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API."""
    shapes = dict.fromkeys((*(each.answer for each in OPERATIONS), Problem))
    unique = [(shape, "serialization") for shape in shapes]
    unique += [(each.sent, "validation") for each in OPERATIONS if each.sent is not None]
    where = "#/components/schemas/{model}"
    refs, defined = models_json_schema(unique, ref_template=where)  # type: ignore[arg-type]
    problem = {"application/problem+json": {"schema": refs[Problem, "serialization"]}}
    refusals = {code: {"description": why, "content": problem} for code, why in _REFUSALS.items()}
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        answer = {"application/json": {"schema": refs[each.answer, "serialization"]}}
        in_path = {"in": "path", "required": True, "schema": {"type": "string"}}
        operation = paths.setdefault(each.path, {})[each.method] = {
            "summary": each.says,
            "operationId": each.name,
            "parameters": [
                *({"name": name, **in_path} for name in re.findall(r"{(\w+)}", each.path)),
                *each.query,
            ],
            "responses": {"200": {"description": each.says, "content": answer}, **refusals},
        }
        if each.sent is not None:
            shape = refs[each.sent, "validation"]
            if each.path in _LISTS:
                shape = {"type": "array", "items": shape, "minItems": 1}
            body = {"content": {"application/json": {"schema": shape}}, "required": True}
            operation["requestBody"] = body
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
