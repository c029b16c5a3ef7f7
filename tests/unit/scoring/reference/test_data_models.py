"""The structures and figures of the evaluation data models, by section."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from monitor.errors import SettingsError
from monitor.models import (
    ABTestEvaluation,
    EvaluationBatch,
    EvaluationConfig,
    HumanAIEvaluation,
    MultiEvaluationResult,
    RetryConfig,
    TemporalEvaluation,
)
from monitor.models.evaluation import (
    FactualAccuracyEvaluation,
    LengthEvaluation,
    QualityEvaluation,
    ToxicityEvaluation,
)
from monitor.scoring.batch import (
    agreement_and_confidence,
    performance,
    run_batch,
    summarise,
    temporal_evaluation,
)
from monitor.scoring.measures import simple_average
from monitor.scoring.metrics import METRICS
from monitor.scoring.metrics.quality import WordRange
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_evaluation, make_interaction
from support.judge_server import JudgeServer

NOW = datetime(2024, 1, 15, 10, 30, 45, tzinfo=UTC)
LOWER = {"pass_score": 0.3, "direction": "lower"}
MULTI = [
    make_evaluation(evaluator_name="factual_accuracy", score=0.92),
    make_evaluation(evaluator_name="relevance", score=0.88),
    make_evaluation(evaluator_name="toxicity", score=0.05, criteria=LOWER),
]
WEIGHTS = {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2}


def of(target, name, score, **fields):
    return make_evaluation(target_event_id=target, evaluator_name=name, score=score, **fields)


# Built-in Evaluator Models


def test_quality_example_is_the_mean_of_its_dimensions():
    scores = dict(zip("abcde", (0.85, 0.92, 0.78, 0.88, 0.95), strict=True))
    assert simple_average(scores) == pytest.approx(0.876)


def test_relevance_example_is_the_mean_of_its_fields():
    assert simple_average({"a": 0.92, "b": 0.85, "c": 0.87}) == pytest.approx(0.88)


def length_of(output):
    record, expected = make_interaction(output=output), WordRange(min_words=50, max_words=150)
    found = METRICS["length"].compute(record, expected)
    return found.details["length_appropriateness"], found.score


def test_length_example_is_appropriate():
    # The document scores it 0.9, without a formula.
    assert length_of("word " * 87) == ("appropriate", 1.0)


@pytest.mark.parametrize(
    ("words", "verdict", "score"),
    [(25, "too_short", 0.5), (0, "too_short", 0.0), (300, "too_long", 0.5), (50, "appropriate", 1)],
)
def test_length_outside_its_range_scores_less(words, verdict, score):
    assert length_of("word " * words + ".") == (verdict, score)


def test_length_counts_characters_words_and_sentences():
    output = "It's a well-known fact. Prof. Lee agrees!"
    details = METRICS["length"].compute(make_interaction(output=output), WordRange()).details
    counts = [details[f"{of}_count"] for of in ("character", "word", "sentence")]
    assert counts == [41, 7, 2]


@pytest.mark.parametrize(
    ("metric", "model", "field"),
    [
        ("quality", QualityEvaluation, "dimensions"),
        ("toxicity", ToxicityEvaluation, "toxicity_categories"),
        ("factual_accuracy", FactualAccuracyEvaluation, "factual_claims"),
        ("length", LengthEvaluation, "expected_length_range"),
    ],
)
def test_evaluation_has_its_type_specific_fields(metric, model, field):
    interaction = make_interaction(expected={"answer": "Refunds take five days."})
    with JudgeServer() as server:
        settings = Settings(metrics=(metric,), scorer="judge", openai_base_url=server.url)
        with closing(make_scorer(settings)) as scorer:
            [found] = scorer.score(interaction)
    assert isinstance(found, model)
    assert getattr(found, field)
    again = model.model_validate_json(found.model_dump_json())
    assert again == found


# Multi-Evaluator Results


def test_weighted_average_follows_the_formula_rather_than_the_figure():
    result = summarise(MULTI, "weighted_average", weights=WEIGHTS)
    assert result.summary_score == pytest.approx(0.914)  # the document says 0.89
    assert (result.summary_method, result.weights) == ("weighted_average", WEIGHTS)


@pytest.mark.parametrize(
    ("method", "score"), [("simple_average", (0.92 + 0.88 + 0.95) / 3), ("minimum", 0.88)]
)
def test_summary_methods_give_their_documented_score(method, score):
    assert summarise(MULTI, method).summary_score == pytest.approx(score)


def test_custom_summary_method_receives_the_raw_scores():
    assert (
        summarise(MULTI, "custom", custom=lambda scores: scores["toxicity"]).summary_score == 0.05
    )


def test_summary_has_no_score_when_none_was_completed():
    skipped = make_evaluation(score=None, status="skipped")
    assert summarise([skipped]).summary_score is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "one target"),
        (([of("a", "x", 1.0), of("b", "x", 1.0)],), "one target, not of 2"),
        ((MULTI, "weighted_average"), "needs weights"),
        ((MULTI, "custom"), "needs a function"),
    ],
)
def test_summary_is_refused_when_something_is_missing(arguments, message):
    with pytest.raises(ValueError, match=message):
        summarise(*arguments)


# Evaluation Batch Model, Evaluation Configuration


def run(server, config, interactions=None, **settings):
    fields = {"scorer": "judge", "openai_base_url": server.url, "judge_attempts": 1} | settings
    waits = []
    batch = run_batch(
        interactions or [make_interaction()],
        config,
        Settings(**fields),
        now=NOW,
        sleep=waits.append,
    )
    return batch, waits


@pytest.mark.parametrize("parallel", [True, False])
def test_batch_keeps_the_order(parallel):
    interactions = [make_interaction(id=f"i{n}") for n in range(20)]
    config = EvaluationConfig(evaluators=["length", "quality"], parallel_execution=parallel)
    with JudgeServer() as server:
        batch, _ = run(server, config, interactions)
        assert len(server.requests) == 20
    targets = [each.target_event_id for each in batch.evaluations]
    assert targets == [f"i{n}" for n in range(20) for _ in range(2)]
    assert batch.status == "completed"
    assert batch.batch_metadata["batch_size"] == 20
    assert set(batch.batch_metadata["evaluator_versions"]) == {"length", "quality"}


def test_transient_failure_is_retried_with_growing_waits():
    retry = RetryConfig(max_retries=3, initial_delay_ms=1000, backoff_multiplier=2)
    config = EvaluationConfig(evaluators=["quality"], retry_config=retry)
    with JudgeServer() as server:
        server.script(["503", "503", "ok"])
        batch, waits = run(server, config)
    assert (batch.evaluations[0].status, waits) == ("completed", [1.0, 2.0])


def test_retries_are_limited():
    config = EvaluationConfig(evaluators=["quality"], retry_config=RetryConfig(max_retries=2))
    with JudgeServer(always="503") as server:
        batch, waits = run(server, config)
    assert (batch.status, len(waits)) == ("failed", 2)


def test_permanent_failure_is_not_retried():
    config = EvaluationConfig(evaluators=["quality"], retry_config=RetryConfig())
    with JudgeServer(always="401") as server:
        batch, waits = run(server, config)
    assert (batch.evaluations[0].error.code, waits) == ("judge_away", [])


def test_evaluation_that_times_out_is_failed():
    config = EvaluationConfig(evaluators=["quality"], timeout_ms=50)
    with JudgeServer(always="hang") as server:
        batch, _ = run(server, config, judge_timeout_s=1.0)
    assert batch.evaluations[0].error.code == "timeout"
    assert batch.status == "failed"


def test_record_after_a_timed_out_one_is_scored():
    config = EvaluationConfig(evaluators=["quality"], timeout_ms=2_000, parallel_execution=False)
    with JudgeServer() as server:
        server.script(["hang"])
        two = [make_interaction(id="slow"), make_interaction(id="next")]
        batch, _ = run(server, config, two, judge_timeout_s=30.0)
    late, scored = batch.evaluations
    assert (late.error.code, scored.error, scored.score is None) == ("timeout", None, False)


def test_parameters_of_the_configuration_are_used_and_checked():
    with JudgeServer() as server:
        config = EvaluationConfig(
            evaluators=["length"], evaluator_configs={"length": {"min_words": 99}}
        )
        batch, _ = run(server, config)
        assert batch.evaluations[0].score < 1
        wrong = EvaluationConfig(
            evaluators=["length"], evaluator_configs={"length": {"min_word": 99}}
        )
        with pytest.raises(SettingsError, match="did you mean min_words"):
            run(server, wrong)


# Evaluation Metrics


def test_performance_excludes_skipped_evaluations_from_the_rate():
    took = [make_evaluation(duration_ms=float(n), cost_usd=0.01) for n in range(1, 20)]
    error = {"type": "E", "message": "", "code": "x"}
    failed = make_evaluation(score=None, error=error, duration_ms=20.0)
    skipped = make_evaluation(score=None, status="skipped")
    found = performance([*took, failed, skipped])
    assert (found.total_evaluations, found.successful_evaluations) == (21, 19)
    assert found.failed_evaluations == 1
    assert found.success_rate == pytest.approx(19 / 20)
    assert (found.average_duration_ms, found.p95_duration_ms) == (10.5, 19.0)
    assert found.total_cost_usd == pytest.approx(0.19)


def test_performance_of_no_evaluations_has_no_rate():
    assert performance([]).success_rate is None


def test_quality_counts_agreement_correlation_and_confidence():
    evaluations = [
        made
        for n, score in enumerate((0.2, 0.5, 0.9))
        for made in (
            of(f"t{n}", "a", score, confidence=0.9),
            of(f"t{n}", "b", score / 2, confidence=0.5),
            of(f"t{n}", "c", 1 - score, confidence=0.1, criteria=LOWER),
        )
    ]
    found = agreement_and_confidence(evaluations, pass_score=0.7)
    # On the last target a and c pass and b does not; on the others all three fail.
    assert found.evaluator_agreement == pytest.approx((3 + 3 + 1) / 9)
    assert found.inter_evaluator_correlation == pytest.approx(
        {"a_vs_b": 1.0, "a_vs_c": 1.0, "b_vs_c": 1.0}
    )
    assert found.confidence_distribution == pytest.approx(
        {"high_confidence": 1 / 3, "medium_confidence": 1 / 3, "low_confidence": 1 / 3}
    )


def test_quality_omits_constant_series():
    same = [of(f"t{n}", name, 0.5) for n in range(4) for name in "ab"]
    found = agreement_and_confidence(same)
    assert (found.evaluator_agreement, found.inter_evaluator_correlation) == (1.0, {})


# Common Evaluation Patterns: Temporal Evaluations


def test_temporal_example_improves():
    found = temporal_evaluation([0.78, 0.82, 0.85])
    assert (found.current_score, found.trend) == (0.85, "improving")
    assert found.change_rate == pytest.approx(0.02, abs=5e-3)
    assert found.stability_score == pytest.approx(0.91, abs=5e-3)


@pytest.mark.parametrize(
    ("scores", "trend", "stability"),
    [([0.9, 0.5, 0.1], "declining", 0.0), ([0.5], "stable", 1.0), ([0, 1, 1, 0], "stable", 0.0)],
)
def test_temporal_evaluation_has_trend_and_stability(scores, trend, stability):
    found = temporal_evaluation(scores)
    assert (found.trend, found.stability_score) == (trend, pytest.approx(stability))


def test_temporal_needs_a_score():
    with pytest.raises(ValueError, match="at least one"):
        temporal_evaluation([])


# Evaluation Serialization


def test_results_and_batches_are_read_back_from_their_json():
    result = summarise(MULTI, "weighted_average", weights=WEIGHTS)
    assert MultiEvaluationResult.model_validate_json(result.model_dump_json()) == result
    batch = EvaluationBatch(batch_id="b", evaluations=MULTI, batch_metadata={"batch_size": 3})
    text = json.dumps(batch.model_dump(mode="json"), ensure_ascii=False)
    assert EvaluationBatch.model_validate_json(text) == batch


# Common Evaluation Patterns: records as the document writes them

PATTERNS = [
    (
        ABTestEvaluation,
        {
            "evaluation_id": "eval_ab_001",
            "evaluator_name": "ab_test_comparison",
            "score": 0.65,
            "explanation": "Variant A preferred in 65% of comparisons",
            "comparison_data": {
                "variant_a_event_id": "evt_variant_a",
                "variant_b_event_id": "evt_variant_b",
                "preference_score": 0.65,
                "confidence_interval": [0.58, 0.72],
                "sample_size": 1000,
                "statistical_significance": True,
            },
        },
    ),
    (
        HumanAIEvaluation,
        {
            "evaluation_id": "eval_human_ai_001",
            "evaluator_name": "human_ai_comparison",
            "human_evaluation": {
                "annotator_id": "human_123",
                "score": 0.8,
                "explanation": "Good response but could be more concise",
            },
            "ai_evaluation": {"model": "gpt-4", "score": 0.85, "explanation": "High quality"},
            "agreement_score": 0.92,
            "discrepancy_analysis": "Minor difference in verbosity assessment",
        },
    ),
    (
        TemporalEvaluation,
        {
            "evaluation_id": "eval_temporal_001",
            "evaluator_name": "temporal_quality",
            "current_score": 0.85,
            "historical_scores": [0.78, 0.82, 0.85],
            "trend": "improving",
            "change_rate": 0.02,
            "stability_score": 0.91,
        },
    ),
]


@pytest.mark.parametrize(("kind", "record"), PATTERNS)
def test_documented_patterns_have_their_own_record_types(kind, record):
    batch = EvaluationBatch.model_validate({"batch_id": "b", "evaluations": [record]})
    assert type(batch.evaluations[0]) is kind
    assert EvaluationBatch.model_validate_json(batch.model_dump_json()) == batch
    written = batch.evaluations[0].model_dump(mode="json", exclude_none=True)
    assert {key: written[key] for key in record} == record


def test_documented_multi_evaluator_example_is_read_unchanged():
    example = {
        "target_event_id": "evt_12345",
        "evaluations": [
            {"evaluator_name": "factual_accuracy", "score": 0.92},
            {"evaluator_name": "relevance", "score": 0.88},
            {"evaluator_name": "toxicity", "score": 0.05},
        ],
        "summary_score": 0.89,
        "summary_method": "weighted_average",
        "weights": {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2},
    }
    result = MultiEvaluationResult.model_validate(example)
    assert {each.target_event_id for each in result.evaluations} == {"evt_12345"}
    assert MultiEvaluationResult.model_validate_json(result.model_dump_json()) == result
