"""The evaluation record and its built-in kinds, against the document that defines them."""

import json
import os
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from monitor.models import (
    CustomEvaluation,
    ErrorInfo,
    Evaluation,
    EvaluationStatus,
    FactualAccuracyEvaluation,
    LengthEvaluation,
    QualityEvaluation,
    RelevanceEvaluation,
    ToxicityEvaluation,
)
from monitor.testing import make_evaluation

#: The document's short examples leave out this field, which it requires.
TARGET = {"target_event_id": "evt_01234567-89ab-cdef-0123-456789abcdef"}
ERROR = {
    "type": "EvaluationError",
    "message": "Reference data not found",
    "code": "missing_reference",
    "context": {"evaluator": "factual_accuracy", "reference_id": "ref_123"},
}
EXAMPLES = [
    (
        QualityEvaluation,
        {
            "evaluation_id": "eval_quality_001",
            "evaluator_name": "quality",
            "score": 0.876,
            "explanation": "High quality response with good relevance and accuracy",
            "dimensions": {
                "relevance": 0.85,
                "coherence": 0.92,
                "clarity": 0.78,
                "completeness": 0.88,
                "accuracy": 0.95,
            },
        },
    ),
    (
        FactualAccuracyEvaluation,
        {
            "evaluation_id": "eval_fact_001",
            "evaluator_name": "factual_accuracy",
            "score": 0.75,
            "explanation": "Most facts are correct but population figure is outdated",
            "factual_claims": [
                {"claim": "Paris is the capital of France", "verified": True, "confidence": 0.99}
            ],
            "citation_accuracy": 0.8,
            "hallucination_detected": False,
        },
    ),
    (
        ToxicityEvaluation,
        {
            "evaluation_id": "eval_toxic_001",
            "evaluator_name": "toxicity",
            "score": 0.05,
            "explanation": "Content is safe with minimal profanity",
            "toxicity_categories": {
                "hate_speech": 0.02,
                "harassment": 0.01,
                "violence": 0.03,
                "profanity": 0.05,
            },
            "overall_toxicity": 0.05,
            "content_warnings": [],
        },
    ),
    (
        RelevanceEvaluation,
        {
            "evaluation_id": "eval_rel_001",
            "evaluator_name": "relevance",
            "score": 0.88,
            "explanation": "Response directly addresses the question",
            "query_intent_match": 0.92,
            "topic_alignment": 0.85,
            "information_completeness": 0.87,
        },
    ),
    (
        LengthEvaluation,
        {
            "evaluation_id": "eval_len_001",
            "evaluator_name": "length",
            "score": 0.9,
            "explanation": "Response length is appropriate for the question complexity",
            "character_count": 543,
            "word_count": 87,
            "sentence_count": 6,
            "expected_length_range": {"min_words": 50, "max_words": 150},
            "length_appropriateness": "appropriate",
        },
    ),
    (
        CustomEvaluation,
        {
            "evaluation_id": "eval_med_001",
            "evaluator_name": "medical_accuracy",
            "score": 0.85,
            "explanation": "Medically sound advice with appropriate caveats",
            "medical_fields": {"diagnosis_accuracy": 0.9, "disclaimer_present": True},
            "risk_level": "low",
            "regulatory_compliance": True,
            "citations_medical_literature": 3,
        },
    ),
    (
        CustomEvaluation,
        {
            "evaluation_id": "eval_ab_001",
            "evaluator_name": "ab_test_comparison",
            "score": 0.65,
            "explanation": "Variant A preferred in 65% of comparisons",
            "comparison_data": {"confidence_interval": [0.58, 0.72], "sample_size": 1000},
        },
    ),
    (
        CustomEvaluation,
        {
            "evaluation_id": "eval_human_ai_001",
            "evaluator_name": "human_ai_comparison",
            "human_evaluation": {"annotator_id": "human_123", "score": 0.8},
            "ai_evaluation": {"model": "gpt-4", "score": 0.85},
            "agreement_score": 0.92,
        },
    ),
    (
        CustomEvaluation,
        {
            "evaluation_id": "eval_temporal_001",
            "evaluator_name": "temporal_quality",
            "current_score": 0.85,
            "historical_scores": [0.78, 0.82, 0.85],
            "trend": "improving",
            "change_rate": 0.02,
        },
    ),
]


@pytest.mark.parametrize(
    ("kind", "example"), EXAMPLES, ids=[example["evaluation_id"] for _, example in EXAMPLES]
)
def test_documented_example_survives_a_round_trip(kind, example):
    record = kind.model_validate_json(json.dumps(example | TARGET))

    written = json.loads(record.model_dump_json())

    assert {key: written[key] for key in example} == example
    assert kind.model_validate_json(record.model_dump_json()) == record


def test_full_record_survives_a_round_trip():
    given = TARGET | {
        "evaluation_id": "eval_01234567-89ab-cdef-0123-456789abcdef",
        "evaluator_name": "factual_accuracy",
        "evaluator_version": "v1.2.0",
        "score": 0.85,
        "explanation": "The response accurately answers the question.",
        "confidence": 0.92,
        "criteria": {"accuracy_threshold": 0.8, "check_citations": True, "language": "en"},
        "metadata": {"evaluator_model": "gpt-4", "evaluation_environment": "production"},
        "timestamp": "2024-01-15T10:30:45.123456Z",
        "duration_ms": 1250.5,
        "cost_usd": 0.001,
        "status": "completed",
        "error": None,
    }

    assert json.loads(Evaluation.model_validate(given).model_dump_json()) == given


@pytest.mark.parametrize("score", [0.85, 87.5, 4, 0, 1, True, False, "excellent", "4", "", None])
def test_score_keeps_its_type_through_json(score):
    again = Evaluation.model_validate_json(make_evaluation(score=score).model_dump_json()).score

    assert (again, type(again)) == (score, type(score))


def test_id_and_time_are_made_when_absent():
    first, second = make_evaluation(), make_evaluation()

    assert first.evaluation_id.startswith("eval_")
    assert first.evaluation_id != second.evaluation_id
    assert (datetime.now(UTC) - first.timestamp).total_seconds() < 60
    assert first.status is EvaluationStatus.COMPLETED


@pytest.mark.parametrize("status", ["failed", "skipped", "pending"])
def test_score_is_refused_for_a_status_without_one(status):
    error = ERROR if status == "failed" else None

    with pytest.raises(ValidationError, match=f"an evaluation that is {status} has no score"):
        make_evaluation(status=status, error=error, score=0.0)


@pytest.mark.parametrize("status", ["skipped", "pending"])
def test_record_without_a_score_is_read_if_its_status_has_none(status):
    assert make_evaluation(status=status, score=None).status == status


def test_status_is_failed_when_there_is_an_error():
    record = make_evaluation(error=ERROR, score=None)

    assert record.status is EvaluationStatus.FAILED
    assert record.error is not None
    assert record.error.model_dump() == ERROR


@pytest.mark.parametrize(
    "fields", [{"status": "failed"}, {"status": "completed", "error": ERROR}], ids=str
)
def test_record_is_refused_when_error_and_status_disagree(fields):
    with pytest.raises(ValidationError, match="exactly when its status is failed"):
        make_evaluation(score=None, **fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", 1.01),
        ("confidence", -0.01),
        ("duration_ms", -1),
        ("cost_usd", -0.01),
        ("status", "done"),
        ("timestamp", "2024-01-15T10:30:45"),
        ("target_event_id", ""),
        ("evaluator_name", ""),
        ("scroe", 1),
    ],
)
def test_field_with_a_refused_value_is_named(field, value):
    with pytest.raises(ValidationError) as refused:
        make_evaluation(**{field: value})

    assert refused.value.errors()[0]["loc"] == (field,)


def test_skip_reason_is_kept_with_other_metadata():
    record = Evaluation.skipped(
        reason="no_context", metadata={"model": "m"}, target_event_id="t", evaluator_name="e"
    )

    assert record.reason == "no_context"
    assert record.metadata == {"model": "m", "reason": "no_context"}


def test_reason_of_a_failed_evaluation_is_its_error_code():
    error = ErrorInfo.model_validate(ERROR)

    failed = Evaluation.failed(error=error, target_event_id="t", evaluator_name="e")

    assert failed.reason == "missing_reference"


def test_completed_evaluation_has_no_reason():
    assert make_evaluation().reason == ""


def test_evaluation_record_is_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        make_evaluation().score = 0.1


def test_forked_processes_create_distinct_evaluation_ids():
    named = lambda: Evaluation(target_event_id="t", evaluator_name="e").evaluation_id  # noqa: E731
    named()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, named().encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 100).decode() != named()
