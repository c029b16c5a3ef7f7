"""What explains a status: drift, segments, deploys, trend and figures of one app and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from .evaluation import Evaluation
from .interaction import Interaction

TrendDirection = Literal["improving", "declining", "stable", "uncertain"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DriftFinding(_Value):
    """Drift that was found within the budget of false findings."""

    app: str
    metric: str
    segment: str
    test: str
    from_s: int = Field(description="Start of the chunk, or of the detector's run.")
    found_at: AwareDatetime
    mean_before: float
    mean_after: float
    n: int
    p_value: float | None = None
    level: float | None = Field(None, description="Of the sequential detector, when it fired.")
    threshold: float | None = None
    onset: AwareDatetime | None = None
    onset_low: AwareDatetime | None = None
    onset_high: AwareDatetime | None = None


class SegmentEffect(_Value):
    """What one segment adds to a change of the pass rate."""

    segment: str
    n_before: float
    n_after: float
    share_before: float
    share_after: float
    rate_before: float | None
    rate_after: float | None
    rate_effect: float = Field(description="Of its own rate: it got better or worse.")
    mix_effect: float = Field(description="Of its share of the traffic.")
    low: float = Field(description="95 % bound of the rate effect.")
    high: float = Field(description="95 % bound of the rate effect.")
    explains: float = Field(description="Share of the change it explains beyond the others.")
    p_value: float
    named: bool


class Attribution(_Value):
    """Which segments explain a change; ``named`` is empty when none does."""

    since: AwareDatetime
    since_low: AwareDatetime | None = None
    since_high: AwareDatetime | None = None
    reference: str
    rate_before: float
    rate_after: float
    n_before: float
    n_after: float
    change: float
    low: float
    high: float
    mix: Mapping[str, float] = Field(description="By dimension, the part due to other shares.")
    named: Sequence[SegmentEffect]
    considered: int
    mix_shift: Sequence[str] = ()
    simpson: Sequence[str] = ()


class Deploy(_Value):
    """A release: the pass rate before and after it."""

    release: str
    at: AwareDatetime
    source: Literal["mark", "tag"]
    note: str = ""
    rate_before: float | None = None
    rate_after: float | None = None
    n_before: float = 0
    n_after: float = 0
    difference: float | None = None
    low: float | None = Field(None, description="95 % bound of the difference, for one look.")
    high: float | None = Field(None, description="95 % bound of the difference, for one look.")
    verdict: Literal["worse", "better", "not decided", "no data"] = Field(
        description="From bounds that stay valid however often one looks."
    )
    change_at: AwareDatetime | None = None
    change_low: AwareDatetime | None = None
    change_high: AwareDatetime | None = None


class Trend(_Value):
    """Where a pass rate is going, beyond the noise of its samples."""

    direction: TrendDirection
    change_per_day: float
    low: float
    high: float
    stability: float = Field(ge=0, le=1, description="1: only the noise of sampling.")
    points: int
    n: int


class HistogramBin(_Value):
    """A tenth of the score's range and how many fell into it."""

    bin: str
    count: int


class CategoryFigures(_Value):
    """One category: its size, mean score and pass rate."""

    count: int
    mean: float
    pass_rate: float


class Figures(_Value):
    """The aggregate figures of a metric."""

    count: int
    mean: float
    median: float
    std_dev: float
    min: float
    max: float
    percentile_95: float
    histogram: Sequence[HistogramBin]
    pass_rate: float
    wilson: tuple[float, float] = Field(description="95 % interval of the pass rate.")
    normal: tuple[float, float] = Field(description="The plain 95 % interval, p ± 1.96 s.e.")
    per_category: Mapping[str, CategoryFigures] = Field(default_factory=dict)


class InputDrift(_Value):
    """How one feature of the questions or answers moved against the reference."""

    feature: str
    before: str
    after: str
    n_before: int
    n_after: int
    distance: float
    p_value: float
    moved: bool


class Insight(_Value):
    """Everything that explains one app and metric."""

    app: str
    metric: str
    made_at: AwareDatetime
    evaluator_version: str = ""
    version_since: AwareDatetime | None = Field(
        None, description="When this evaluator version began; what was before is another series."
    )
    findings: Sequence[DriftFinding] = ()
    attribution: Attribution | None = None
    trend: Trend | None = None
    figures: Figures | None = None
    deploys: Sequence[Deploy] = ()


class DetectionProof(_Value):
    """
    What became of falls planted in a copy of a stream's last day, beside the objective.

    ``met`` is False where fewer than half are found in time, or the budget allows more false alarms
    than the objective; None where nothing could be planted.
    """

    app: str
    metric: str
    made_at: AwareDatetime
    objective: str = Field(description="As it was stated, such as 15 points in 2h.")
    within_s: int
    met: bool | None
    reason: str = Field("", description="Why it is not met, or could not be tested.")
    planted: int = 0
    found: int = Field(0, description="In time.")
    median_s: float | None = Field(None, description="None: more than half were not found.")
    scores_per_hour: float = 0.0


class AppInsight(_Value):
    """What explains an app as a whole: how its questions moved."""

    app: str
    made_at: AwareDatetime
    inputs: Sequence[InputDrift] = ()


class SampleRate(_Value):
    """The sample rate that the hooks of an app were asked for last."""

    rate: float = Field(ge=0, le=1)
    own: float = Field(ge=0, le=1, description="What they sample when they are asked for nothing.")
    reason: str
    since: AwareDatetime
    until: AwareDatetime = Field(description="They then go back to their own, unless it is asked.")
    set_by: str
    follows_evidence: bool = Field(description="The scheduler tunes it, and asks again and again.")

    def is_in_force(self, now: datetime) -> bool:
        """Return whether hooks that reach Redis sample at this rate."""
        return now < self.until


class ScoredExchange(NamedTuple):
    """A sample whose evaluation counts, with its texts as the app's mask left them."""

    sample_id: str
    at: datetime
    interaction: Interaction
    passed: bool
    evaluation: Evaluation


#: Probability from which a change is named as what a fall came with.
_SURE = 0.9


class ComponentChange(NamedTuple):
    """
    A value of a component that most samples gained.

    ``before`` and ``after`` are its shares of the samples. With it the pass rate moved by
    ``change``, in [-1, 1], with a 90 % interval; ``confidence`` is the probability that the fall
    came with it rather than at another time, or by chance.
    """

    component: str
    value: str
    before: float
    after: float
    change: float
    low: float
    high: float
    confidence: float

    @property
    def is_named(self) -> bool:
        """Whether the fall certainly came with it: 90 % sure or more."""
        return self.confidence >= _SURE
