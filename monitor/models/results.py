"""Several evaluations together: a target, a batch, a configuration, two summaries (seed 004)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from monitor.models.evaluators import AnyEvaluation


class MultiEvaluationResult(BaseModel):
    """What several evaluators said of the same target."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target_event_id: str
    evaluations: list[AnyEvaluation]
    summary_score: float | None = None
    summary_method: Literal["weighted_average", "simple_average", "minimum", "custom"] | None = None
    weights: dict[str, float] | None = None


class EvaluationBatch(BaseModel):
    """Evaluations that were processed together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_id: str
    evaluations: list[AnyEvaluation]
    batch_metadata: dict[str, Any] = Field(default_factory=dict)
    status: Literal["pending", "processing", "completed", "failed"] = "completed"


class RetryConfig(BaseModel):
    """How often, and how patiently, a failed evaluation is tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(3, ge=0)
    backoff_multiplier: float = Field(2.0, ge=1.0)
    initial_delay_ms: float = Field(1000, ge=0)


class EvaluationConfig(BaseModel):
    """Which evaluators run, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluators: list[str]
    evaluator_configs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    parallel_execution: bool = True
    timeout_ms: int | None = Field(None, gt=0)
    retry_config: RetryConfig | None = None


class PerformanceSummary(BaseModel):
    """How a set of evaluations ran ("evaluation_performance")."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    total_evaluations: int = Field(ge=0)
    successful_evaluations: int = Field(ge=0)
    failed_evaluations: int = Field(ge=0)
    success_rate: float | None = Field(None, ge=0.0, le=1.0)
    average_duration_ms: float | None = Field(None, ge=0.0)
    p95_duration_ms: float | None = Field(None, ge=0.0)
    total_cost_usd: float = Field(0.0, ge=0.0)


class QualitySummary(BaseModel):
    """How far a set of evaluators agrees ("evaluation_quality")."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluator_agreement: float | None = Field(None, ge=0.0, le=1.0)
    inter_evaluator_correlation: dict[str, float] = Field(default_factory=dict)
    confidence_distribution: dict[str, float] = Field(default_factory=dict)
