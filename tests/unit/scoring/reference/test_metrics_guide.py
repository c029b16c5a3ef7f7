"""The formulas and examples of the evaluation metrics guide, by section."""

import tomllib
from pathlib import Path

import pytest

from monitor.metrics import evaluate
from monitor.models.evaluation import Direction, advice_for, band_of
from monitor.scoring.measures import population_std
from monitor.scoring.metrics import METRICS, agent
from monitor.scoring.registry import known_metrics, read_metrics_file
from monitor.testing import make_interaction

RAG_WEIGHTS = METRICS["rag_overall_score"].weights
AGENT_WEIGHTS = METRICS["agent_overall_score"].weights
UNIFIED_WEIGHTS = METRICS["overall_quality_score"].weights
CREDIT_FILE = Path(__file__).parents[4] / "examples/credit.toml"
CREDIT = tomllib.loads(CREDIT_FILE.read_text())

TRAJECTORY = [
    *("parse_input", "validate_company", "create_plan", "fetch_api_data"),
    *("search_web", "synthesize", "save_to_database", "evaluate"),
]
LOWER = {"hallucination", "bias"}


@pytest.mark.parametrize("name", ["hallucination", "bias", "toxicity"])
def test_lower_is_better_core_metrics_declare_it(name):
    assert METRICS[name].declaration.direction is Direction.LOWER


@pytest.mark.parametrize("name", ["answer_relevancy", "faithfulness", "contextual_relevancy"])
def test_higher_is_better_core_metrics_declare_it(name):
    assert METRICS[name].declaration.direction is Direction.HIGHER


def test_example_3_overall_score():
    scores = {
        "answer_relevancy": 0.95,
        "faithfulness": 0.90,
        "hallucination": 0.05,
        "contextual_relevancy": 0.85,
        "bias": 0.10,
    }
    found = METRICS["rag_overall_score"].combine(scores, LOWER)
    assert found.score == pytest.approx(0.92)


def test_weights_of_every_overall_sum_to_one():
    for weights in (RAG_WEIGHTS, AGENT_WEIGHTS, UNIFIED_WEIGHTS):
        assert sum(weights.values()) == pytest.approx(1)


def value(name, parameters=None, **record):
    """Compute a metric of a record with these fields."""
    metric = METRICS[name]
    parameters = parameters or metric.declaration.parameters()
    return metric.compute(make_interaction(**record), parameters).score


@pytest.mark.parametrize(
    ("confidence", "score"), [(0.71, 1.0), (0.7, 0.9), (0.5, 0.8), (0.3, 0.7), (None, 0.7)]
)
def test_intent_correctness(confidence, score):
    parsed = {"name": "Apple Inc", "type": "public_us", "confidence": confidence}
    record = {"expected": {"name": "apple"}, "metadata": {"parsed": parsed}}
    assert value("intent_correctness", **record) == pytest.approx(score)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [("Apple", {"name": "", "confidence": 0.2}), (" ", {"name": "Apple", "confidence": None})],
)
def test_intent_correctness_is_zero_for_a_wrong_or_missing_parse(name, parsed):
    record = {"expected": {"name": name}, "metadata": {"parsed": parsed}}
    assert value("intent_correctness", **record) == 0


@pytest.mark.parametrize(
    ("steps", "score"),
    [
        (["fetch data", "analyze risk", "write"], 1.0),
        (["Search", "Synthesize"], 0.7),
        (["one", "two", "three"], 0.3),
        ([f"data {n}" for n in range(11)], 0.35),
        ([], 0.0),
    ],
)
def test_plan_quality(steps, score):
    assert value("plan_quality", metadata={"plan": steps}) == pytest.approx(score)


@pytest.mark.parametrize(
    ("actual", "score"),
    [
        (TRAJECTORY, 1.0),
        (TRAJECTORY[::-1], 0.6),
        (TRAJECTORY[:4], 0.6 * 0.5 + 0.4),
        (["something_else"], 0.0),
        ([], 0.0),
    ],
)
def test_trajectory_match(actual, score):
    record = {"metadata": {"trajectory": actual}, "expected": {"trajectory": TRAJECTORY}}
    assert value("trajectory_match", **record) == pytest.approx(score)


@pytest.mark.parametrize(
    ("actual", "reason"),
    [
        (["plan", "fetch", "write"], "No step is missing."),
        (["plan", "write", "fetch"], "No step is missing. Out of order: plan, write, fetch."),
        (["plan", "fetch", "beg", "write"], "No step is missing. Not expected: beg."),
        (["write", "plan"], "Missing: fetch. Out of order: write, plan."),
    ],
)
def test_trajectory_reason_names_the_differences(actual, reason):
    record = {
        "output": "x",
        "metadata": {"trajectory": actual},
        "expected": {"trajectory": ["plan", "fetch", "write"]},
    }
    [[found]] = evaluate(record, "trajectory_match")
    assert found.explanation == reason


FIELDS = agent.AnswerFields(**CREDIT["final_answer_quality"])


def test_final_answer_quality_is_one_when_complete_and_valid():
    answer = {
        "risk_level": "low",
        "credit_score": 100,
        "confidence": 0.9,
        "reasoning": "x" * 51,
        "recommendations": [],
    }
    found = value("final_answer_quality", FIELDS, metadata={"answer": answer})
    assert found == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"risk_level": "huge"}, 0.15),
        ({"credit_score": 101}, 0.15),
        ({"credit_score": True}, 0.15),
        ({"confidence": "high"}, 0.1),
        ({"reasoning": "x" * 50}, 0.1),
    ],
)
def test_final_answer_quality_falls_with_invalid_parts(change, lost):
    answer = {
        "risk_level": "low",
        "credit_score": 0,
        "confidence": 1.0,
        "reasoning": "x" * 51,
        "recommendations": [],
    }
    found = value("final_answer_quality", FIELDS, metadata={"answer": answer | change})
    assert found == pytest.approx(1 - lost)


def test_same_model_consistency():
    runs = [{"level": level, "score": 70} for level in ("low", "low", "high", "low")]
    assert value("level_consistency", metadata={"runs": runs}) == 0.75
    assert value("score_consistency", metadata={"runs": runs}) == 1.0
    assert value("score_consistency", metadata={"runs": [{"score": 0}, {"score": 100}]}) == 0.0
    assert value("level_consistency", metadata={"runs": [{"score": 0}, {"score": 100}]}) is None
    assert population_std([60, 80]) == 10.0


def test_cross_model_consistency():
    models = [{"score": 60}, {"score": 75, "confidence": 0.8}, {"score": 80, "confidence": 0.9}]
    assert value("score_range", metadata={"models": models}) == pytest.approx(0.2)
    assert value("confidence_agreement", metadata={"models": models}) == pytest.approx(0.9)


def test_overall_quality_score():
    scores = {
        "unified_accuracy": 0.9,
        "unified_consistency": 0.8,
        "agent_overall_score": 0.7,
    }
    expected = 0.9 * 0.35 + 0.8 * 0.25 + 0.7 * 0.4
    assert METRICS["overall_quality_score"].combine(scores, ()).score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("score", "quality"),
    [
        *((1.0, "excellent"), (0.9, "excellent"), (0.89, "good"), (0.895, "good"), (0.7, "good")),
        *((0.69, "fair"), (0.5, "fair"), (0.49, "poor"), (0.3, "poor"), (0.29, "critical")),
        (0.0, "critical"),
    ],
)
def test_score_ranges(score, quality):
    assert band_of(score).quality == quality


@pytest.mark.parametrize(("score", "quality"), [(0.3, "good"), (0.31, "fair"), (1.0, "critical")])
def test_score_ranges_are_inverted_when_lower_is_better(score, quality):
    assert band_of(score, Direction.LOWER).quality == quality


def test_common_issues_and_fixes_are_shown_only_beside_a_low_score():
    assert advice_for("faithfulness", 0.4).fix == "improve context retrieval"
    assert advice_for("hallucination", 0.6, Direction.LOWER).fix == "add stricter grounding"
    assert advice_for("faithfulness", 0.7) is None
    assert advice_for("length", 0.0) is None


def test_every_metric_of_the_tables_can_be_named():
    named = [
        *("answer_relevancy", "faithfulness", "hallucination", "contextual_relevancy", "bias"),
        *("toxicity", "intent_correctness", "plan_quality", "tool_choice_correctness"),
        *("tool_completeness", "trajectory_match", "final_answer_quality", "step_count"),
        *("tool_calls", "latency_ms", "accuracy_score", "completeness_score"),
        *("consistency_score", "actionability_score", "data_utilization_score"),
        *("risk_level_consistency", "score_consistency", "score_std", "overall_consistency"),
        *("risk_level_agreement", "credit_score_range", "confidence_agreement"),
        *("cross_model_agreement", "overall_quality_score", "semantic_similarity"),
    ]
    known = known_metrics(read_metrics_file(CREDIT_FILE), plugins=())
    assert [name for name in named if name not in known] == []
