"""The evaluations with fields of their own (seed 004, "Built-in Evaluator Models")."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from monitor.models.evaluation import Evaluation


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
    """An evaluation with whatever further fields its evaluator defines."""

    model_config = ConfigDict(frozen=True, extra="allow")


#: Reads each record as the first kind that knows all its fields, and writes all of them.
AnyEvaluation = Annotated[
    Evaluation
    | QualityEvaluation
    | FactualAccuracyEvaluation
    | ToxicityEvaluation
    | RelevanceEvaluation
    | LengthEvaluation
    | CustomEvaluation,
    Field(union_mode="left_to_right"),
]
