"""One evaluation a metric, whatever the judge does."""

import pytest

from monitor.errors import JudgeRateLimitedError, JudgeReplyError
from monitor.models import EvaluationStatus
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

METRICS = ("groundedness", "relevance")


class FixedJudge:
    """Says what it is told to say, and counts how often it is asked."""

    version = "fixed-1"

    def __init__(self, says):
        self.says = says
        self.asked = 0
        self.closed = False

    def judge(self, interaction):
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def close(self):
        self.closed = True


def claim(verdict=ClaimVerdict.SUPPORTED, text="It is so."):
    return Claim(text=text, verdict=verdict, support=float(verdict is ClaimVerdict.SUPPORTED))


def score(says, metrics=METRICS, **interaction):
    judge = FixedJudge(says)
    return JudgementScorer(judge, resolve_metrics(Settings(metrics=metrics))).score(
        make_interaction(**interaction)
    ), judge


def test_judge_is_called_once_for_two_metrics():
    (grounded, relevant), judge = score(Judgement(claims=(claim(),), relevance=0.5, cost_usd=0.004))
    assert judge.asked == 1
    assert (grounded.evaluator_name, relevant.evaluator_name) == METRICS
    assert (grounded.score, relevant.score) == (1.0, 0.5)
    assert grounded.cost_usd + relevant.cost_usd == pytest.approx(0.004)
    assert (grounded.evaluator_version, relevant.evaluator_version) == ("fixed-1-2", "fixed-1")
    own_line = {"pass_score": 0.2, "direction": "higher", "pass_line": "own"}
    assert grounded.criteria == own_line


def test_metrics_keep_their_order_when_named_the_other_way():
    evaluations, _ = score(Judgement(claims=(claim(),), relevance=0.5), METRICS[::-1])
    assert tuple(e.evaluator_name for e in evaluations) == METRICS[::-1]


def test_uncalibrated_judges_claims_are_averaged():
    claims = (claim(), claim(ClaimVerdict.UNVERIFIED), claim(ClaimVerdict.NO_CLAIM))
    (grounded, _), _ = score(Judgement(claims=claims, relevance=1.0))
    assert grounded.score == 0.5
    assert len(grounded.metadata["claims"]) == 3


def test_groundedness_is_the_share_of_supported_claims():
    absent, _ = score(Judgement(claims=(claim(), claim(ClaimVerdict.NOT_FOUND)), relevance=1.0))
    opposite, _ = score(
        Judgement(claims=(claim(), claim(ClaimVerdict.CONTRADICTED)), relevance=1.0)
    )
    assert (absent[0].score, opposite[0].score) == (0.5, 0.5)


def test_calibrated_judges_probability_is_the_score():
    (grounded, _), _ = score(Judgement(claims=(claim(),), groundedness=0.2, relevance=1.0))
    assert (grounded.score, grounded.confidence) == (0.2, 0.8)


def test_explanation_names_the_failing_claims():
    claims = (
        claim(),
        claim(ClaimVerdict.NOT_FOUND, "Cats fly."),
        claim(ClaimVerdict.CONTRADICTED, "No."),
    )
    (grounded, _), _ = score(Judgement(claims=claims, relevance=1.0))
    assert grounded.explanation == (
        '1 of 3 claims is supported; contradicted: "No"; not found: "Cats fly".'
    )


@pytest.mark.parametrize(
    ("interaction", "reasons"),
    [
        ({"contexts": []}, ("no_context", "")),
        ({"contexts": [" "]}, ("no_context", "")),
        ({"output": " \n"}, ("empty_output", "empty_output")),
        ({"query": None}, ("", "no_query")),
        ({"query": " ", "contexts": None}, ("no_context", "no_query")),
    ],
)
def test_metric_is_skipped_when_the_interaction_lacks_an_input(interaction, reasons):
    evaluations, judge = score(Judgement(claims=(claim(),), relevance=1.0), **interaction)
    assert tuple(e.reason for e in evaluations) == reasons
    assert judge.asked == ("" in reasons)


def test_groundedness_is_skipped_without_claims():
    (grounded, relevant), _ = score(
        Judgement(claims=(claim(ClaimVerdict.NO_CLAIM),), relevance=0.0)
    )
    assert (grounded.status, grounded.reason) == (EvaluationStatus.SKIPPED, "no_claim")
    assert relevant.score == 0.0


def test_both_metrics_are_skipped_when_the_judge_cannot_read_the_text():
    evaluations, _ = score(Judgement(readable=False))
    assert {e.reason for e in evaluations} == {"unsupported_text"}


def test_both_metrics_fail_without_a_score_when_the_judge_fails():
    error = JudgeRateLimitedError("slow down", retry_after_s=9)
    error.context = {"tries": 3, "cost_usd": 0.02, "duration_ms": 5.0}
    evaluations, _ = score(error)
    for evaluation in evaluations:
        assert (evaluation.status, evaluation.score) == (EvaluationStatus.FAILED, None)
        assert evaluation.error.code == "judge_rate_limited"
        assert evaluation.error.context == {"tries": 3, "transient": True}
        assert (evaluation.cost_usd, evaluation.duration_ms) == (0.01, 5.0)


def test_only_the_ready_metric_fails_when_the_other_is_skipped():
    (grounded, relevant), _ = score(JudgeReplyError("bad"), contexts=[])
    assert (grounded.reason, relevant.reason) == ("no_context", "judge_reply_invalid")


def test_unexpected_error_contains_no_text():
    evaluations, _ = score(KeyError("the judged text"))
    assert {e.error.code for e in evaluations} == {"internal_error"}
    assert "the judged text" not in evaluations[0].model_dump_json()
    assert evaluations[0].error.type == "KeyError"


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf")])
def test_no_score_is_made_when_the_value_is_out_of_range(value):
    (grounded, relevant), _ = score(Judgement(claims=(claim(),), relevance=value))
    assert (relevant.status, relevant.score) == (EvaluationStatus.FAILED, None)
    assert grounded.score == 1.0


def test_closing_the_scorer_closes_its_judge():
    judge = FixedJudge(Judgement())
    JudgementScorer(judge, resolve_metrics(Settings(metrics=METRICS))).close()
    assert judge.closed
