"""Results, batches, configuration and summaries, against the document that defines them."""

import json

import pytest
from pydantic import ValidationError

from monitor.models import (
    CustomEvaluation,
    EvaluationBatch,
    EvaluationConfig,
    MultiEvaluationResult,
    PerformanceSummary,
    QualityEvaluation,
    QualitySummary,
)
from monitor.testing import make_evaluation

MULTI = {
    "target_event_id": "evt_12345",
    "evaluations": [
        {"target_event_id": "evt_12345", "evaluator_name": "factual_accuracy", "score": 0.92},
        {"target_event_id": "evt_12345", "evaluator_name": "relevance", "score": 0.88},
        {"target_event_id": "evt_12345", "evaluator_name": "toxicity", "score": 0.05},
    ],
    "summary_score": 0.89,
    "summary_method": "weighted_average",
    "weights": {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2},
}
CONFIG = {
    "evaluators": ["factual_accuracy", "toxicity"],
    "evaluator_configs": {
        "factual_accuracy": {
            "reference_sources": ["wikipedia", "scholarly"],
            "confidence_threshold": 0.8,
        },
        "toxicity": {"categories": ["hate_speech", "harassment"], "threshold": 0.1},
    },
    "parallel_execution": True,
    "timeout_ms": 30_000,
    "retry_config": {"max_retries": 3, "backoff_multiplier": 2.0, "initial_delay_ms": 1000},
}
PERFORMANCE = {
    "total_evaluations": 1000,
    "successful_evaluations": 985,
    "failed_evaluations": 15,
    "success_rate": 0.985,
    "average_duration_ms": 1250.5,
    "p95_duration_ms": 3200.0,
    "total_cost_usd": 0.15,
}
QUALITY = {
    "evaluator_agreement": 0.82,
    "inter_evaluator_correlation": {
        "quality_vs_relevance": 0.75,
        "factual_accuracy_vs_quality": 0.68,
    },
    "confidence_distribution": {
        "high_confidence": 0.65,
        "medium_confidence": 0.25,
        "low_confidence": 0.10,
    },
}
BATCH = {
    "batch_id": "batch_1",
    "evaluations": MULTI["evaluations"],
    "batch_metadata": {
        "batch_size": 100,
        "created_at": "2024-01-15T10:30:45Z",
        "evaluator_versions": {"quality": "v1.2.0", "factual_accuracy": "v2.1.0"},
        "processing_time_ms": 5432.1,
    },
    "status": "processing",
}


def test_documented_multi_evaluator_result_is_read():
    result = MultiEvaluationResult.model_validate(MULTI)

    assert [item.score for item in result.evaluations] == [0.92, 0.88, 0.05]
    assert MultiEvaluationResult.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize(
    ("model", "example"),
    [(EvaluationConfig, CONFIG), (PerformanceSummary, PERFORMANCE), (QualitySummary, QUALITY)],
    ids=["configuration", "performance", "quality"],
)
def test_documented_example_survives_a_round_trip(model, example):
    assert json.loads(model.model_validate(example).model_dump_json()) == example


def test_documented_batch_is_read():
    batch = EvaluationBatch.model_validate(BATCH)

    assert batch.status == "processing"
    assert batch.batch_metadata == BATCH["batch_metadata"]
    assert EvaluationBatch.model_validate_json(batch.model_dump_json()) == batch


@pytest.mark.parametrize("status", ["pending", "processing", "completed", "failed"])
def test_batch_accepts_every_documented_status(status):
    assert EvaluationBatch.model_validate(BATCH | {"status": status}).status == status


@pytest.mark.parametrize("method", ["weighted_average", "simple_average", "minimum", "custom"])
def test_result_accepts_every_documented_method(method):
    result = MultiEvaluationResult.model_validate(MULTI | {"summary_method": method})

    assert result.summary_method == method


@pytest.mark.parametrize(
    ("kind", "extra"),
    [(QualityEvaluation, {"dimensions": {"clarity": 0.7}}), (CustomEvaluation, {"risk": "low"})],
)
def test_type_specific_fields_survive_inside_a_result(kind, extra):
    inside = kind.model_validate(make_evaluation().model_dump() | extra)
    result = MultiEvaluationResult(target_event_id="evt", evaluations=[inside])

    again = MultiEvaluationResult.model_validate_json(result.model_dump_json())

    assert again.evaluations == [inside]
    assert type(again.evaluations[0]) is kind


@pytest.mark.parametrize(
    ("model", "example", "field", "value"),
    [
        (MultiEvaluationResult, MULTI, "summary_method", "median"),
        (EvaluationBatch, BATCH, "status", "done"),
        (EvaluationConfig, CONFIG, "timeout_ms", 0),
        (PerformanceSummary, PERFORMANCE, "success_rate", 1.1),
        (PerformanceSummary, PERFORMANCE, "failed_evaluations", -1),
        (QualitySummary, QUALITY, "evaluator_agreement", 2),
        (QualitySummary, QUALITY, "agreement", 0.5),
    ],
)
def test_refused_summary_field_is_named(model, example, field, value):
    with pytest.raises(ValidationError) as refused:
        model.model_validate(example | {field: value})

    assert refused.value.errors()[0]["loc"][0] == field
