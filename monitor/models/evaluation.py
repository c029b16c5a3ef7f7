"""
The record of one judgement on one interaction, the records with fields of their own, and
several of them together: a target, a batch, a configuration, two summaries.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator


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

    evaluation_id: str = Field(default_factory=lambda: f"eval_{uuid.uuid4()}", min_length=1)
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
