"""Whatever sequence of faults an endpoint plays: the true score or none, and every call counted."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import JudgeOutageError
from monitor.scoring.judges.openai_client import RetryPolicy
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction
from support.judge_server import BEHAVIOURS, JudgeServer

FACTS = [
    f"Parcel number {n} weighs {n * 7} kilograms and leaves from harbour {n}." for n in range(4)
]
LIE = "Penguins juggle yellow lemons on the moon."
#: These take their time, or are true answers with another verdict.
LEFT_OUT = {"hang", "drip", "drip_header", "error_drip", "error_flood", "oversized"}
LEFT_OUT |= {"wrong_quote", "duplicate_number", "three_claims"}
QUICK = sorted(set(BEHAVIOURS) - LEFT_OUT)


@pytest.fixture(scope="module")
def server():
    with JudgeServer() as running:
        yield running


@settings(max_examples=30, deadline=None)
@given(script=st.lists(st.sampled_from(QUICK), max_size=8))
def test_score_is_correct_or_missing_and_calls_are_counted(server, script):
    judge = OpenAIJudge(
        "gpt-4.1-mini", base_url=server.url, policy=RetryPolicy(timeout_s=5, backoff_s=0.0001)
    )
    query = "Which parcel leaves from which harbour?"
    asked = make_interaction(query=query, contexts=FACTS, output=" ".join([*FACTS[:2], LIE]))
    server.clear()
    server.script(script)
    before = len(server.requests)
    with closing(
        JudgementScorer(judge, resolve_metrics(Settings(metrics=("groundedness", "relevance"))))
    ) as scorer:
        try:
            told = scorer.score(asked)
        except JudgeOutageError as away:  # no score, and no sample at fault
            told, tries = (), {away.context["tries"]}
        else:
            tries = {facts_of(evaluation)["tries"] for evaluation in told}
    assert tries == {len(server.requests) - before}
    for evaluation, truth in zip(told, (round(2 / 3, 6), 1.0), strict=False):
        assert evaluation.score == (truth if evaluation.error is None else None)


def facts_of(evaluation):
    return evaluation.metadata if evaluation.error is None else evaluation.error.context
