"""
The record of one judgement on one interaction, and from which score it passes (`PassRule`).

With it the records with fields of their own, and several of them together: a target, a batch, a
configuration, two summaries.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

#: Not the system's: that is a system call for each number, at which threads change places.
_random = Random()  # noqa: S311  # names, guards nothing
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


class EvaluationStatus(StrEnum):
    """How an evaluation ended."""

    COMPLETED = "completed"  #: there is a result
    FAILED = "failed"  #: something broke; there is an error and no score
    SKIPPED = "skipped"  #: nothing to judge, for the reason in ``metadata["reason"]``
    PENDING = "pending"  #: not finished yet


class ErrorInfo(BaseModel):
    """Why an evaluation failed."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    message: str
    code: str
    context: dict[str, Any] = Field(default_factory=dict)


class Evaluation(BaseModel):
    """
    One evaluator's verdict on one interaction.

    A failure has ``status="failed"``, an ``error`` and no score; a thing that
    cannot be judged is ``skipped``. Neither counts in a pass rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluation_id: str = Field(
        default_factory=lambda: f"eval_{uuid.UUID(int=_random.getrandbits(128), version=4)}",
        min_length=1,
    )
    target_event_id: str = Field(min_length=1)
    evaluator_name: str = Field(min_length=1)
    evaluator_version: str | None = None
    # The order of the union matters: with smart mode True stays a bool and 4 an int.
    score: float | int | bool | str | None = None
    explanation: str | None = None
    confidence: float | None = Field(None, ge=0.0, le=1.0)
    criteria: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    timestamp: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    duration_ms: float | None = Field(None, ge=0.0)
    cost_usd: float | None = Field(None, ge=0.0)
    status: EvaluationStatus = EvaluationStatus.COMPLETED
    error: ErrorInfo | None = None

    @model_validator(mode="before")
    @classmethod
    def _status_from_error(cls, value: object) -> object:
        """An error without a status means that the evaluation failed."""
        if isinstance(value, dict) and value.get("error") and "status" not in value:
            return {**value, "status": EvaluationStatus.FAILED}
        return value

    @model_validator(mode="after")
    def _only_completed_has_score(self) -> Self:
        if self.status is not EvaluationStatus.COMPLETED and self.score is not None:
            raise ValueError(f"an evaluation that is {self.status} has no score")
        if (self.status is EvaluationStatus.FAILED) != (self.error is not None):
            raise ValueError("an evaluation has an error exactly when its status is failed")
        return self

    @classmethod
    def skipped(cls, *, reason: str, **fields: Any) -> Self:
        """Make the record of something that could not be judged, and why."""
        metadata = {**(fields.pop("metadata", None) or {}), "reason": reason}
        return cls(status=EvaluationStatus.SKIPPED, metadata=metadata, **fields)

    @classmethod
    def failed(cls, *, error: ErrorInfo, **fields: Any) -> Self:
        """Make the record of an evaluation that broke."""
        return cls(status=EvaluationStatus.FAILED, error=error, **fields)

    @property
    def reason(self) -> str:
        """Why there is no score: the skip's reason, the error's code, or ''."""
        if self.error is not None:
            return self.error.code
        return str((self.metadata or {}).get("reason", ""))


class QualityEvaluation(Evaluation):
    """Overall quality of a response, by dimension; each in [0, 1]."""

    dimensions: dict[str, float] = Field(default_factory=dict)


class FactualAccuracyEvaluation(Evaluation):
    """Factual correctness, claim by claim."""

    factual_claims: list[dict[str, Any]] = Field(default_factory=list)
    citation_accuracy: float | None = Field(None, ge=0.0, le=1.0)
    hallucination_detected: bool = False


class ToxicityEvaluation(Evaluation):
    """Toxicity by category; lower is better."""

    toxicity_categories: dict[str, float] = Field(default_factory=dict)
    overall_toxicity: float = Field(0.0, ge=0.0, le=1.0)
    content_warnings: list[str] = Field(default_factory=list)


class RelevanceEvaluation(Evaluation):
    """How well a response addresses its query; the parts are absent when not judged."""

    query_intent_match: float | None = Field(None, ge=0.0, le=1.0)
    topic_alignment: float | None = Field(None, ge=0.0, le=1.0)
    information_completeness: float | None = Field(None, ge=0.0, le=1.0)


class LengthAppropriateness(StrEnum):
    """Whether a response has the length that was asked for."""

    TOO_SHORT = "too_short"
    APPROPRIATE = "appropriate"
    TOO_LONG = "too_long"


class LengthEvaluation(Evaluation):
    """Length of a response against the expected range."""

    character_count: int = Field(0, ge=0)
    word_count: int = Field(0, ge=0)
    sentence_count: int = Field(0, ge=0)
    expected_length_range: dict[str, int] = Field(default_factory=dict)
    length_appropriateness: LengthAppropriateness = LengthAppropriateness.APPROPRIATE


class CustomEvaluation(Evaluation):
    """An evaluation with further fields that its evaluator defines."""

    model_config = ConfigDict(frozen=True, extra="allow")


class ABComparison(BaseModel, frozen=True, extra="forbid"):
    """How often variant A was preferred to variant B, with its 95 % interval; in [0, 1]."""

    variant_a_event_id: str
    variant_b_event_id: str
    preference_score: float = Field(ge=0.0, le=1.0)
    confidence_interval: tuple[float, float]
    sample_size: int = Field(ge=0)
    statistical_significance: bool


class ABTestEvaluation(Evaluation):
    """A comparison of two variants; it has no single target."""

    target_event_id: str = ""
    comparison_data: ABComparison


class RaterEvaluation(BaseModel, frozen=True, extra="forbid"):
    """What one rater said: a person by ``annotator_id``, or an AI by ``model``."""

    annotator_id: str | None = None
    model: str | None = None
    score: float
    explanation: str = ""


class HumanAIEvaluation(Evaluation):
    """A person's evaluation beside an AI's of the same answer."""

    target_event_id: str = ""
    human_evaluation: RaterEvaluation
    ai_evaluation: RaterEvaluation
    agreement_score: float | None = Field(None, ge=0.0, le=1.0)
    discrepancy_analysis: str = ""


class TemporalEvaluation(Evaluation):
    """A score over time: ``historical_scores`` are the oldest first, the current one last."""

    target_event_id: str = ""
    current_score: float
    historical_scores: list[float]
    trend: Literal["improving", "stable", "declining"]
    change_rate: float = Field(description="Change a step.")
    stability_score: float = Field(ge=0.0, le=1.0)


#: Reads each record as the first kind that knows all its fields, and writes all of them.
AnyEvaluation = Annotated[
    Evaluation
    | QualityEvaluation
    | FactualAccuracyEvaluation
    | ToxicityEvaluation
    | RelevanceEvaluation
    | LengthEvaluation
    | ABTestEvaluation
    | HumanAIEvaluation
    | TemporalEvaluation
    | CustomEvaluation,
    Field(union_mode="left_to_right"),
]


class MultiEvaluationResult(BaseModel, frozen=True, extra="forbid"):
    """What several evaluators said of the same target; their records may leave it out."""

    target_event_id: str
    evaluations: list[AnyEvaluation]
    summary_score: float | None = None
    summary_method: Literal["weighted_average", "simple_average", "minimum", "custom"] | None = None
    weights: dict[str, float] | None = None

    @model_validator(mode="before")
    @classmethod
    def _hand_target_down(cls, value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get("evaluations"), list):
            return value
        target = {"target_event_id": value.get("target_event_id")}
        evaluations = [target | e if isinstance(e, dict) else e for e in value["evaluations"]]
        return value | {"evaluations": evaluations}


class EvaluationBatch(BaseModel, frozen=True, extra="forbid"):
    """Evaluations that were processed together."""

    batch_id: str
    evaluations: list[AnyEvaluation]
    batch_metadata: dict[str, Any] = Field(default_factory=dict)
    status: Literal["pending", "processing", "completed", "failed"] = "completed"


class RetryConfig(BaseModel, frozen=True, extra="forbid"):
    """How often, and how patiently, a failed evaluation is tried again."""

    max_retries: int = Field(3, ge=0)
    backoff_multiplier: float = Field(2.0, ge=1.0)
    initial_delay_ms: float = Field(1000, ge=0)


class EvaluationConfig(BaseModel, frozen=True, extra="forbid"):
    """Which evaluators run, and how."""

    evaluators: list[str]
    evaluator_configs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    parallel_execution: bool = True
    timeout_ms: int | None = Field(None, gt=0)
    retry_config: RetryConfig | None = None


class PerformanceSummary(BaseModel, frozen=True, extra="forbid"):
    """How a set of evaluations ran ("evaluation_performance")."""

    total_evaluations: int = Field(ge=0)
    successful_evaluations: int = Field(ge=0)
    failed_evaluations: int = Field(ge=0)
    success_rate: float | None = Field(None, ge=0.0, le=1.0)
    average_duration_ms: float | None = Field(None, ge=0.0)
    p95_duration_ms: float | None = Field(None, ge=0.0)
    total_cost_usd: float = Field(0.0, ge=0.0)


class QualitySummary(BaseModel, frozen=True, extra="forbid"):
    """How far a set of evaluators agrees ("evaluation_quality")."""

    evaluator_agreement: float | None = Field(None, ge=0.0, le=1.0)
    inter_evaluator_correlation: dict[str, float] = Field(default_factory=dict)
    confidence_distribution: dict[str, float] = Field(default_factory=dict)


#: The end of a stream's version whose line is the app's own.
OWN = " pass own"
_VERSION = re.compile(r" pass (<= )?(\d+(?:\.\d+)?(?:e-?\d+)?)$")
#: An app's own line lies within these; before it is learnt it is the lower one.
OWN_LEAST, OWN_MOST = 0.2, 0.5
#: An app's own line is learnt from so many of its first scores, and again from so many.
OWN_LEARNT_AT = (100, 500)
_OWN_SHARE = 0.03


class Direction(StrEnum):
    """Which end of its range a metric wants."""

    HIGHER = "higher"
    LOWER = "lower"


class PassRule(NamedTuple):
    """
    A pass score in [0, 1] and the side that passes; the pass score itself always does.

    ``own`` says that the line is learnt from an app's own first scores (`own_line`).
    """

    line: float
    direction: Direction = Direction.HIGHER
    own: bool = False

    @classmethod
    def mirrored(cls, pass_score: float, direction: Direction) -> Self:
        """Return the rule for *direction*: where lower is better the line is 1 minus the score."""
        lower = direction is Direction.LOWER
        return cls(round(1 - pass_score, 6) if lower else pass_score, direction)

    @classmethod
    def of(cls, evaluation: Evaluation, pass_score: float) -> Self:
        """Read the rule that an evaluation names in its criteria, else take *pass_score*."""
        criteria = evaluation.criteria or {}
        own = criteria.get("pass_line") == "own"
        if "direction" not in criteria:
            return cls(pass_score, own=own)
        line = criteria.get("pass_score")
        direction = Direction(criteria["direction"])
        return cls(pass_score if line is None else float(line), direction, own)

    @classmethod
    def read(cls, version: str) -> Self | None:
        """
        Read the rule back from the version of a stream; None where there is none.

        A version does not say where an app's own line lies: then it is the lowest.
        """
        if version.endswith(OWN):
            return cls(OWN_LEAST, own=True)
        found = _VERSION.search(version)
        if found is None:
            return None
        return cls(float(found[2]), Direction.LOWER if found[1] else Direction.HIGHER)

    def passes(self, score: float) -> bool:
        """Return whether *score* passes."""
        if self.direction is Direction.LOWER:
            return score <= self.line
        return score >= self.line

    def criteria(self) -> dict[str, str | float]:
        """Write the rule as an evaluation's criteria."""
        found: dict[str, str | float] = {
            "pass_score": self.line,
            "direction": self.direction.value,
        }
        return found | {"pass_line": "own"} if self.own else found

    def __str__(self) -> str:
        if self.own:
            return OWN.strip()
        sign = "<= " if self.direction is Direction.LOWER else ""
        return f"pass {sign}{self.line:g}"


def own_line(bins: Mapping[int, int]) -> float:
    """
    Return the pass line of an app for an evaluator whose scores have no level of their own.

    Good answers of every kind score above 0.2, so that is the line of an app of which little
    is known. An app whose good answers all score higher gets a higher line, at the 3 % quantile
    of its own first scores, so that answers to other contexts fall below it there too; never
    above 0.5, so that an app that is sick from birth does not make sickness its measure.

    Parameters
    ----------
    bins
        How many of the app's first 100, or 500, scores round to each hundredth. Fewer than 100
        give the lowest line.

    Examples
    --------
    >>> own_line({3: 2, 41: 3, 90: 95})
    0.41
    """
    if sum(bins.values()) < OWN_LEARNT_AT[0]:
        return OWN_LEAST
    below, most = 0, _OWN_SHARE * sum(bins.values())
    for position in sorted(bins):
        below += bins[position]
        if below > most:
            return min(max(position / 100, OWN_LEAST), OWN_MOST)
    raise AssertionError("the highest bin holds the quantile")


class Band(NamedTuple):
    """A range of scores, from ``least`` up to where the band before begins."""

    least: float
    quality: str
    action: str


BANDS = (
    Band(0.9, "excellent", "No action needed"),
    Band(0.7, "good", "Minor improvements possible"),
    Band(0.5, "fair", "Review and improve"),
    Band(0.3, "poor", "Significant issues"),
    Band(0.0, "critical", "Requires immediate attention"),
)


class Advice(NamedTuple):
    """Why a metric is usually bad, and what usually helps."""

    cause: str
    fix: str


#: Only for metrics that count what the cause names, so that advice never contradicts the reason.
ADVICE: dict[str, Advice] = {
    "faithfulness": Advice("the answer contains unsupported claims", "improve context retrieval"),
    "hallucination": Advice(
        "the model generates facts that are not in the context", "add stricter grounding"
    ),
    "tool_completeness": Advice(
        "required data sources are missing", "update the tool selection logic"
    ),
    "trajectory_match": Advice(
        "steps are missing, not expected or out of order", "review the workflow graph"
    ),
    "final_answer_quality": Advice(
        "required output fields are missing", "update the synthesis prompt"
    ),
}


def band_of(score: float, direction: Direction = Direction.HIGHER) -> Band:
    """Return the band of a score in [0, 1]; where lower is better it is mirrored first."""
    good = 1 - score if direction is Direction.LOWER else score
    # Without rounding 1 - 0.3 would fall just below the line that 0.7 stands on.
    good = round(good, 9)
    return next((band for band in BANDS if good >= band.least), BANDS[-1])


def advice_for(metric: str, score: float, direction: Direction = Direction.HIGHER) -> Advice | None:
    """Return what usually helps when *metric* is below good; None when it is not, or unknown."""
    advice = ADVICE.get(metric)
    is_low = advice is not None and band_of(score, direction).least < BANDS[1].least
    return advice if is_low else None
