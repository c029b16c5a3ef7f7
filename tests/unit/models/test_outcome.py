"""Where a sample ends, for every mix of evaluations."""

import pytest

from monitor.models import ErrorInfo, Evaluation, Outcome, ScoredSample
from monitor.testing import make_evaluation, make_sample


def failed(code="judge_unavailable"):
    error = ErrorInfo(type="JudgeError", message="no answer", code=code)
    return Evaluation.failed(error=error, target_event_id="t", evaluator_name="groundedness")


def skipped(reason="no_context"):
    return Evaluation.skipped(reason=reason, target_event_id="t", evaluator_name="groundedness")


PENDING = make_evaluation(status="pending", score=None)


@pytest.mark.parametrize(
    ("evaluations", "outcome", "reason"),
    [
        ([make_evaluation()], Outcome.SCORED, ""),
        ([make_evaluation(), failed(), skipped()], Outcome.SCORED, ""),
        ([failed(), skipped()], Outcome.FAILED, "judge_unavailable"),
        ([skipped("no_claim"), skipped("no_citation")], Outcome.SKIPPED, "no_claim"),
        ([failed("b"), failed("a")], Outcome.FAILED, "b"),
        ([skipped(), failed("b"), failed("a")], Outcome.FAILED, "b"),
        ([], Outcome.SKIPPED, "no_evaluator"),
        ([PENDING], Outcome.SKIPPED, "no_evaluator"),
    ],
)
def test_sample_has_one_outcome_and_reason_when_evaluations_are_mixed(evaluations, outcome, reason):
    scored = ScoredSample(sample=make_sample(), evaluations=tuple(evaluations))

    assert (scored.outcome, scored.reason) == (outcome, reason)
