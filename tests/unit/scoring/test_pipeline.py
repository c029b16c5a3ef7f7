"""Metrics of every kind together: each scored, skipped or failed, and none takes another along."""

from dataclasses import replace
from threading import Barrier

import pytest

from monitor.errors import JudgeRateLimitedError
from monitor.metrics import evaluate
from monitor.models import EvaluationStatus
from monitor.models.evaluation import Direction, PassRule
from monitor.scoring.declaration import (
    Answers,
    ConfiguredMetric,
    CriterionAnswer,
    JudgementMetric,
    Reply,
)
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.metric_config import function_metric
from monitor.scoring.metrics import METRICS
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

RICH = {
    "contexts": [{"text": "Refunds take five days.", "id": "a"}, {"text": "Cats.", "id": "b"}],
    "output": "Refunds take five days [a].",
    "tool_calls": [{"name": "search"}, {"name": "fetch"}],
    "expected": {
        "relevant": ["a"],
        "answer": "Refunds take five days.",
        "tools": ["search"],
        "name": "Apple",
        "citations": ["a"],
        "trajectory": ["plan", "search"],
        "unanswerable": False,
        "false_passages": [2],
        "contradictions": ["1 and 2"],
    },
    "metadata": {
        "parsed": {"name": "Apple Inc", "type": "public_us", "confidence": 0.9},
        "plan": ["fetch data", "analyse", "write"],
        "trajectory": ["plan", "search"],
        "answer": {"level": "low"},
        "runs": [{"level": "low", "score": 70}] * 2,
        "models": [{"level": "low", "score": 70, "confidence": 0.5}] * 2,
        "answers": ["Five days.", "five days"],
        "verification_chain": [0.5, {"confidence": 0.6}],
        "latency_ms": 20,
    },
}


class FixedAsker:
    """Gives every criterion the same answer, and counts how often it is asked."""

    criteria_version = "fixed-1"

    def __init__(self, answer=None, error=None):
        self.answer = answer or CriterionAnswer(
            score=0.5, numbers=(1,), texts=("yes: what?",), reasoning="So."
        )
        self.error = error
        self.asked = []

    def ask(self, interaction, criteria, fields):
        self.asked.append((tuple(item.name for item in criteria), fields))
        if self.error:
            raise self.error
        answers = Answers(
            by_name={item.name: self.answer for item in criteria},
            sentences=("Refunds take five days.",),
            passages=len(interaction.contexts),
            reference=("Refunds take five days.",),
        )
        return Reply(answers=answers, cost_usd=0.01, duration_ms=5.0)

    def close(self):
        pass


class Alike:
    """Finds all texts alike."""

    version = "alike-1"

    def __call__(self, one, other):
        return 1.0


def score(*metrics, asker=None, **interaction):
    resolved = resolve_metrics(Settings(metrics=metrics), plugins=())
    shared = [each for each in resolved if isinstance(each.metric, JudgementMetric)]
    judged = JudgementScorer(LocalJudge(), shared) if shared else None
    found = MetricPipeline(
        resolved, wanted=metrics, judged=judged, criteria_judge=asker, similarity=Alike()
    ).score(make_interaction(**(RICH | interaction)))
    return found if len(metrics) > 1 else found[0]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_scored_when_its_inputs_are_present(name):
    overrides = {"expected": RICH["expected"] | {"unanswerable": True}}
    if name == "multi_source_coverage":
        overrides = {"expected": {"sources_needed": [2]}}
    found = score(name, asker=FixedAsker(), **overrides)
    assert found.status is EvaluationStatus.COMPLETED, (found.reason, found.error)
    assert 0 <= found.score <= 1
    assert found.criteria["direction"] == METRICS[name].declaration.direction.value


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_skipped_with_a_declared_reason_when_inputs_are_missing(name):
    bare = {"query": None, "contexts": [], "tool_calls": [], "expected": None, "metadata": {}}
    found = score(name, output=" ", **bare)
    assert found.status is EvaluationStatus.SKIPPED
    assert found.reason in METRICS[name].declaration.reasons()


def test_all_questions_of_a_sample_share_one_call():
    asker = FixedAsker()
    found = score("quality", "answer_relevancy", "toxicity", "contextual_precision", asker=asker)
    [(criteria, fields)] = asker.asked
    assert len(criteria) == 5 + 1 + 6 + 1
    assert fields == {"query", "output", "contexts"}
    assert sum(each.cost_usd for each in found) == pytest.approx(0.01)
    assert {each.evaluator_version for each in found} == {"fixed-1-1", "fixed-1-2"}


def test_metrics_that_share_a_question_ask_it_once():
    asker = FixedAsker()
    score("contextual_relevancy", "contextual_precision", asker=asker)
    assert asker.asked[0][0] == ("relevant_passages",)


def test_judge_is_not_called_when_all_metrics_are_skipped():
    asker = FixedAsker()
    assert score("answer_relevancy", asker=asker, query=None).reason == "no_query"
    assert asker.asked == []


def test_judge_failure_does_not_fail_computed_metrics():
    error = JudgeRateLimitedError("slow down")
    error.context = {"cost_usd": 0.02}
    failed, computed = score("quality", "length", asker=FixedAsker(error=error))
    assert (failed.error.code, failed.score, failed.cost_usd) == ("judge_rate_limited", None, 0.02)
    assert computed.score == 1.0


def test_judge_metric_without_a_judge_says_what_it_needs():
    assert score("answer_relevancy").reason == "needs_judge"
    assert score("toxicity").reason == "screen_found_nothing"


@pytest.mark.parametrize("value", [2, -0.1, float("nan"), "good"])
def test_invalid_value_of_a_custom_metric_is_a_failure(value):
    own = function_metric(lambda _: value, name="own")
    bound = ConfiguredMetric(own, own.declaration.parameters(), PassRule(0.7))
    [found] = MetricPipeline([bound]).score(make_interaction())
    assert (found.status, found.score) == (EvaluationStatus.FAILED, None)


def test_input_of_the_wrong_shape_is_a_failure_without_its_text():
    found = score("mrr", expected={"relevant": {"a": "secret"}})
    assert (found.status, found.error.code) == (EvaluationStatus.FAILED, "internal_error")


def test_every_metric_is_skipped_when_texts_were_not_captured():
    asker = FixedAsker()
    found = score(
        "length", "quality", "mrr", asker=asker, output="", metadata={"capture": "metadata"}
    )
    assert {each.reason for each in found} == {"not_captured"}
    assert asker.asked == []


def test_incomplete_answer_is_skipped():
    asker = FixedAsker()
    found = score("length", "quality", "mrr", asker=asker, metadata={"incomplete": True})
    assert {(each.status, each.reason) for each in found} == {("skipped", "incomplete")}
    assert asker.asked == []


def test_overall_metric_scores_its_parts_without_reporting_them():
    found = score("agent_overall_score")
    assert found.evaluator_name == "agent_overall_score"
    assert set(found.metadata["parts"]) == set(METRICS["agent_overall_score"].weights)


def test_overall_score_inverts_lower_is_better_parts():
    found = score("rag_overall_score", asker=FixedAsker(CriterionAnswer(score=0.0)))
    assert found.metadata["parts"]["hallucination"] == 0.0
    assert found.metadata["parts"]["bias"] == 0.0
    # Everything is well but the context: none of the passages is relevant.
    assert found.score == pytest.approx(0.9)


def test_overall_carries_the_cost_of_its_hidden_parts():
    found = score("judge_overall_score", asker=FixedAsker())
    assert found.cost_usd == pytest.approx(0.01)


def test_overall_is_skipped_when_a_part_is_missing():
    found = score("agent_overall_score", metadata={})
    assert found.reason == "part_missing"
    assert "plan_quality" in found.metadata["missing"]
    missing = found.metadata["missing"]
    said = f"{len(missing)} of 6 parts are missing: {', '.join(missing)}."
    assert found.explanation == said


def test_overall_of_the_rubric_leaves_missing_parts_out_and_names_them():
    found = score("rubric_overall_score", asker=FixedAsker(), tool_calls=[])
    assert found.metadata["missing"] == ["tool_efficiency"]
    assert found.explanation.endswith(". 1 of 5 parts is missing: tool_efficiency.")
    assert found.status is EvaluationStatus.COMPLETED


def test_overall_of_the_rubric_is_skipped_when_most_of_its_weight_is_missing():
    found = score("rubric_overall_score")
    assert found.metadata["parts"] == {"citation_accuracy": 1.0}
    assert found.reason == "part_missing"


def test_low_score_carries_advice():
    assert score("tool_completeness", tool_calls=[]).metadata["advice"].endswith("logic")
    assert "advice" not in score("tool_completeness").metadata


@pytest.mark.parametrize(
    ("output", "score_of", "reason"),
    [
        ("You are a stupid idiot.", 1.0, ""),
        ("I will hurt you.", 1.0, ""),
        ("Thank you for your patience.", None, "screen_found_nothing"),
        ("Kill him with kindness.", None, "screen_found_nothing"),
    ],
)
def test_toxicity_screen_fails_insults_and_never_passes_a_text(output, score_of, reason):
    found = score("toxicity", output=output)
    assert (found.score, found.reason) == (score_of, reason)


@pytest.mark.parametrize(
    "output", ["Women are just as capable as men.", "Old people are always welcome here."]
)
def test_screen_finds_no_bias_in_fair_words(output):
    assert score("bias", output=output).reason == "screen_found_nothing"


def test_screen_finds_open_prejudice():
    assert score("bias", output="Women cannot do maths.").score == 1.0


def test_screen_counts_biased_sentences():
    found = score("bias", output="All women are late. It rains.")
    assert (found.score, found.metadata["biased"]) == (0.5, [1])
    assert found.criteria == {"pass_score": 0.3, "direction": "lower"}


@pytest.mark.parametrize("name", ["hallucination", "bias", "toxicity", "score_std"])
def test_direction_is_declared_when_lower_is_better(name):
    assert METRICS[name].declaration.direction is Direction.LOWER


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (["Five days.", "five days"], 0.0),
        (["a", "b"], 1.0),
        (["The refund takes five days.", "You wait for five days."], "needs_embedding_model"),
    ],
)
def test_uncertainty_is_skipped_without_a_semantic_model(answers, found):
    [made] = evaluate([{"output": "x", "metadata": {"answers": answers}}], ["answer_uncertainty"])[
        0
    ]
    assert found == (made.reason if made.score is None else made.score)


def test_both_judge_calls_of_a_sample_run_concurrently():
    both = Barrier(2, timeout=100)  # broken, and so a failure, where one waits for the other

    class WaitingJudge(LocalJudge):
        def judge(self, interaction):
            both.wait()
            return super().judge(interaction)

    class WaitingAsker(FixedAsker):
        def ask(self, interaction, criteria, fields):
            both.wait()
            return super().ask(interaction, criteria, fields)

    metrics = resolve_metrics(Settings(metrics=("groundedness", "answer_relevance")), plugins=())
    judged = JudgementScorer(WaitingJudge(), metrics[:1])
    pipeline = MetricPipeline(
        metrics, judged=judged, criteria_judge=WaitingAsker(), similarity=Alike()
    )
    found = pipeline.score(make_interaction(**RICH))
    assert [each.status for each in found] == [EvaluationStatus.COMPLETED] * 2


def test_screen_by_the_local_scorers_rules_carries_their_version():
    found = score("passage_contradictions", "toxicity", contexts=["Two.", "Three."])
    assert [each.evaluator_version for each in found] == [
        f"screen-1+{LocalJudge().version}",
        "screen-2",
    ]


def test_samples_are_not_prefetched_when_a_user_function_may_block():
    class KeepingJudge(LocalJudge):
        def kept(self, interactions):
            return [self.judge(each) for each in interactions]

    known = resolve_metrics(Settings(metrics=("groundedness", "mrr")), plugins=())
    judged = JudgementScorer(KeepingJudge(), known[:1])
    own = function_metric(lambda _: 1.0, name="own")
    waiting = replace(known[1], metric=own)
    samples = [make_interaction(**RICH)]
    assert MetricPipeline(known, judged=judged).kept(samples) != [None]
    assert MetricPipeline([known[0], waiting], judged=judged).kept(samples) == [None]
