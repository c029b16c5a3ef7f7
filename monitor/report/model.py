"""What a report says, as values; the renderers only choose characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, Protocol, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, computed_field, model_validator

from monitor.models import Status, Verdict
from monitor.models.alerting import Incident
from monitor.models.insight import DetectionProof, InputDrift, Insight, SampleRate
from monitor.models.status import FleetFall
from monitor.stats.agreement import Confusion


class ReportValue(BaseModel):
    """A value of a report or digest; it can be read back from its own JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _compute_again(cls, value: object) -> object:
        """Leave out what is computed."""
        if not isinstance(value, dict) or not cls.model_computed_fields:
            return value
        return {key: value[key] for key in value if key not in cls.model_computed_fields}


class Ledger(ReportValue):
    """
    Where every interaction went; two sums hold, always.

    seen = sampled + not_sampled, and sampled = dropped + queued + scored + failed +
    skipped + expired. ``queued`` is what was sampled and has not ended yet: in the app's memory, in
    Redis or in a worker; or lost with an app that was killed.
    """

    seen: int = 0
    errored: Mapping[str, int] = Field(
        default_factory=dict, description="Requests that failed, by their error."
    )
    sampled: int = 0
    not_sampled: int = 0
    dropped: Mapping[str, int] = Field(default_factory=dict)
    queued: int = 0
    scored: int = 0
    failed: Mapping[str, int] = Field(default_factory=dict)
    skipped: Mapping[str, int] = Field(default_factory=dict)
    expired: Mapping[str, int] = Field(default_factory=dict)


class RatePoint(ReportValue):
    """The pass rate of one step of a chart, with 90 % interval; a step without scores has none."""

    start: AwareDatetime
    n: int
    pass_rate: float | None
    low: float | None = None
    high: float | None = None


class ReportedChange(ReportValue):
    """A status that began."""

    at: AwareDatetime
    metric: str
    before: Status | None
    after: Status
    pass_rate: float | None
    n: int
    reason: str


class Worst(ReportValue):
    """One of the worst samples, with why; ids rather than text."""

    sample_id: str  #: by which pages and commands find it
    interaction_id: str = Field(description="The id that the app gave; else the sample's.")
    at: AwareDatetime
    score: float
    explanation: str


class MetricReport(ReportValue):
    """One metric of one app: its verdict, the other windows, its series, its worst samples."""

    metric: str
    verdict: Verdict
    windows: Sequence[Verdict]
    series: Sequence[RatePoint] = ()
    worst: Sequence[Worst] = ()
    failed: Mapping[str, int] = Field(
        default_factory=dict, description="Evaluations that broke, in the report's window."
    )
    skipped: Mapping[str, int] = Field(
        default_factory=dict, description="Those that had nothing to judge, by reason as well."
    )
    insight: Insight | None = Field(None, description="What explains it, when it is known.")
    proof: DetectionProof | None = Field(None, description="If a detection objective is stated.")
    labels: Confusion | None = Field(None, description="The present evaluator beside people.")


def error_rate(counts: Mapping[str, int]) -> float | None:
    """Return the share of requests that failed, of counts by kind; None where none came."""
    requests = counts.get("seen", 0) + counts.get("unseen", 0)
    return min(1.0, counts.get("errored", 0) / requests) if requests else None


class AppReport(ReportValue):
    """One app: the worst of its metrics first."""

    app: str
    metrics: Sequence[MetricReport]
    ledger: Ledger = Field(description="Counts since the beginning.")
    recent: Mapping[str, int] = Field(
        default_factory=dict, description="Counts by kind within the report's window."
    )
    lost: Mapping[str, Mapping[str, int]] = Field(
        default_factory=dict,
        description="Samples dropped, failed or expired within the window, each by reason.",
    )
    changes: Sequence[ReportedChange] = ()
    incidents: Sequence[Incident] = ()
    inputs: Sequence[InputDrift] = Field((), description="How the questions moved.")
    last_heartbeat: AwareDatetime | None = None
    sample_rate: SampleRate | None = Field(None, description="None: hooks were asked for none.")
    cost_usd: float = Field(0.0, description="Of evaluations in the report's window.")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> Status:
        """The worst status of its metrics."""
        return worst_status([metric.verdict.status for metric in self.metrics])

    @computed_field(  # type: ignore[prop-decorator]
        description="Share of requests that failed within the report's window; none if none came."
    )
    @property
    def error_rate(self) -> float | None:
        """Share of the requests within the report's window that failed, in [0, 1]."""
        return error_rate(self.recent)


class Report(ReportValue):
    """Everything a person wants to know about a time range."""

    schema_version: Literal[1] = 1
    generated_at: AwareDatetime
    window_s: int
    apps: Sequence[AppReport]
    fleet: Sequence[FleetFall] = Field((), description="Apps that fell together, and still do.")
    deliveries: Mapping[str, int] = Field(
        default_factory=dict, description="Alert messages by their state."
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> Status:
        """The worst status of all apps, and of apps that fell together."""
        statuses = [app.status for app in self.apps]
        return worst_status([*statuses, *(fall.status for fall in self.fleet)])


#: Worst first; unknown is worse than healthy and better than known to be bad.
SEVERITY: Sequence[Status] = (
    Status.CRITICAL,
    Status.WARNING,
    Status.BLIND,
    Status.INSUFFICIENT_DATA,
    Status.HEALTHY,
)


class HasRate(Protocol):
    """A step of a chart: its pass rate in [0, 1], None where nothing was scored."""

    @property
    def rate(self) -> float | None:
        """The pass rate."""


P = TypeVar("P", bound=HasRate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartFrame:
    """Where values go on a chart: from *begin* at the left to *end*, from *low* at the bottom."""

    left: float
    right: float
    top: float
    bottom: float
    begin: float
    end: float
    low: float
    high: float = 1.0

    def x(self, at: float) -> float:
        """Return where *at* is from left to right; what is outside, at the edge."""
        share = (at - self.begin) / max(1.0, self.end - self.begin)
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def y(self, rate: float) -> float:
        """Return where a rate is from bottom to top; what is outside, at the edge."""
        share = (rate - self.low) / (self.high - self.low)
        return self.bottom - min(1.0, max(0.0, share)) * (self.bottom - self.top)


def scored_runs(steps: Sequence[P]) -> list[tuple[int, list[P]]]:
    """Return the runs of steps between gaps, each with the position of its first step."""
    runs: list[tuple[int, list[P]]] = []
    for scored, items in groupby(enumerate(steps), key=lambda item: item[1].rate is not None):
        run = list(items)
        if scored:
            runs.append((run[0][0], [step for _, step in run]))
    return runs


def worst_status(statuses: Sequence[Status]) -> Status:
    """Return the worst of some statuses; insufficient data if there are none."""
    return min(statuses, key=SEVERITY.index, default=Status.INSUFFICIENT_DATA)
