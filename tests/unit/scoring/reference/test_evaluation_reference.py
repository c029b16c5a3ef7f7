"""The formulas of the evaluation reference, by section."""

import pytest

from monitor.scoring.declaration import Answers, CriterionAnswer
from monitor.scoring.measures import weighted_average, weighted_mean
from monitor.scoring.metrics import METRICS, quality
from monitor.testing import make_interaction

RUBRIC_WEIGHTS = METRICS["rubric_overall_score"].weights


def test_core_metric_definitions_levels():
    assert quality.LEVELS == {
        "excellent": 1.0,
        "good": 0.8,
        "acceptable": 0.6,
        "poor": 0.3,
        "failed": 0.0,
    }


def test_rubric_implementation_weights():
    assert RUBRIC_WEIGHTS == {
        "factual_accuracy": 0.30,
        "completeness": 0.25,
        "citation_accuracy": 0.15,
        "source_quality": 0.10,
        "tool_efficiency": 0.20,
    }
    assert sum(RUBRIC_WEIGHTS.values()) == pytest.approx(1)
    assert METRICS["rubric_overall_score"].least_share < 1
    assert set(RUBRIC_WEIGHTS) < set(METRICS)


def test_calculate_overall_score_weighs_all_dimensions():
    scores = dict(zip(RUBRIC_WEIGHTS, (1.0, 0.8, 0.6, 0.3, 0.0), strict=True))
    found = METRICS["rubric_overall_score"].combine(scores, ())
    assert found.score == pytest.approx(0.3 + 0.2 + 0.09 + 0.03)


def test_calculate_overall_score_leaves_missing_dimensions_out():
    overall = METRICS["rubric_overall_score"]
    found = overall.combine({"factual_accuracy": 1.0, "completeness": 0.6}, ())
    assert found.score == pytest.approx((0.3 + 0.15) / 0.55)
    assert overall.combine({}, ()).skipped == "part_missing"


def test_unknown_dimension_has_no_weight():
    scores = {"factual_accuracy": 1.0, "completeness": 0.6, "style": 0.0}
    assert weighted_average(scores, RUBRIC_WEIGHTS) == pytest.approx((0.3 + 0.15) / 0.55)
    assert weighted_average({"style": 1.0}, RUBRIC_WEIGHTS) is None


@pytest.mark.parametrize(
    ("wrong", "major", "score"), [((2,), (1,), 2 / 3), ((1,), (1,), 1 / 3), ((1, 2), (), 0.0)]
)
def test_factual_accuracy_weighs_claims_by_importance(wrong, major, score):
    said = {
        "wrong_sentences": CriterionAnswer(numbers=wrong),
        "major_sentences": CriterionAnswer(numbers=major),
    }
    answers = Answers(by_name=said, sentences=("One.", "Two."), passages=0, reference=("One.",))
    metric = METRICS["factual_accuracy"]
    found = metric.read(answers, make_interaction(), metric.declaration.parameters())
    assert found.score == pytest.approx(score)


@pytest.mark.parametrize(("accuracies", "weights"), [([], []), ([1], []), ([1, 1], [0, 0])])
def test_factual_accuracy_without_claims_is_refused(accuracies, weights):
    with pytest.raises(ValueError, match="one weight each"):
        weighted_mean(accuracies, weights)


@pytest.mark.parametrize(
    ("score", "level"),
    [(1, "excellent"), (0.91, "excellent"), (0.9, "good"), (0.45, "poor"), (0.1, "failed")],
)
def test_score_maps_to_the_nearest_level(score, level):
    assert quality.nearest_level(score) == (level, quality.LEVELS[level])
