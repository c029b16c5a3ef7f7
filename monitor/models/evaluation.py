"""The record of one judgement on one interaction (seed 004, "Core Evaluation Model")."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

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


def _evaluation_id() -> str:
    return f"eval_{uuid.uuid4()}"


def _now() -> datetime:
    return datetime.now(UTC)


class Evaluation(BaseModel):
    """
    One evaluator's verdict on one interaction.

    A failure has ``status="failed"``, an ``error`` and no score; a thing that
    cannot be judged is ``skipped``. Neither counts in a pass rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluation_id: str = Field(default_factory=_evaluation_id, min_length=1)
    target_event_id: str = Field(min_length=1)
    evaluator_name: str = Field(min_length=1)
    evaluator_version: str | None = None
    # The order of the union matters: with smart mode True stays a bool and 4 an int.
    score: float | int | bool | str | None = None
    explanation: str | None = None
    confidence: float | None = Field(None, ge=0.0, le=1.0)
    criteria: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    timestamp: AwareDatetime = Field(default_factory=_now)
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
