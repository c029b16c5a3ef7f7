"""The judge's second call: all questions of all metrics at once, and no fault becomes a score."""

import json
from contextlib import closing

import pytest

from monitor.errors import JudgeAwayError, JudgeReplyError
from monitor.models import EvaluationStatus
from monitor.rolling.tallies import tally_of
from monitor.scoring.asking import draw
from monitor.scoring.declaration import Criterion, Form
from monitor.scoring.judges.criteria_reply import read_answers
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction
from monitor.testing.judge_server import JudgeServer

ASKED = ("answer_relevancy", "contextual_relevancy", "bias", "toxicity", "quality")


@pytest.fixture(scope="module")
def server():
    with JudgeServer() as running:
        yield running


@pytest.fixture
def score(server):
    def score(*metrics, interaction=None, **settings):
        server.requests.clear()
        fields = {"scorer": "judge", "openai_base_url": server.url, "metrics": metrics}
        with closing(make_scorer(Settings(**(fields | settings)))) as scorer:
            return scorer.score(interaction or make_interaction())

    return score


def test_every_metric_costs_two_calls_together(server, score):
    found = score("groundedness", "relevance", "faithfulness", "hallucination", *ASKED)
    assert len(server.requests) == 2
    assert {each.status for each in found} == {EvaluationStatus.COMPLETED}
    tokens = [each.metadata["input_tokens"] for each in found[4:]]
    assert len(set(tokens)) == 1


def test_metrics_of_the_shared_judgement_cost_one_call(server, score):
    score("faithfulness", "hallucination", "grounding_score", "contradicted_contexts")
    assert len(server.requests) == 1


def test_cost_of_the_call_is_shared(score):
    prices = {
        "judge_usd_per_million_input_tokens": 1.0,
        "judge_usd_per_million_output_tokens": 2.0,
    }
    found = score(*ASKED, **prices)
    spent = found[0].metadata
    whole = (spent["input_tokens"] + 2 * spent["output_tokens"]) / 1e6
    assert sum(each.cost_usd for each in found) == pytest.approx(whole)


def test_only_what_is_needed_is_sent(server, score):
    score("toxicity")
    [request] = server.requests
    data = json.loads(request["messages"][-1]["content"])["data"]
    assert data.keys() == {"sentences"}
    assert request["response_format"]["json_schema"]["strict"]


def test_long_passages_are_cut_and_that_is_noted(server, score):
    long = make_interaction(contexts=["word " * 20_000, "short"])
    [found] = score("contextual_relevancy", interaction=long)
    assert found.metadata["passages_cut"] == 1
    sent = json.loads(server.requests[0]["messages"][-1]["content"])["data"]["passages"]
    assert (len(sent[0]["text"]), sent[1]["text"]) == (59_995, "short")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("503", "judge_unavailable"),
        ("malformed", "judge_reply_invalid"),
        ("refusal", "judge_refused"),
        ("empty_choices", "judge_reply_invalid"),
        ("truncated", "judge_reply_invalid"),
        ("html", "judge_reply_invalid"),
    ],
)
def test_no_fault_becomes_a_score(server, score, fault, code):
    server.script([fault])
    found = score(*ASKED, judge_attempts=1)
    assert {each.status for each in found} == {EvaluationStatus.FAILED}
    assert {each.error.code for each in found} == {code}
    assert {each.score for each in found} == {None}


def test_judge_that_answers_nobody_fails_no_sample(server, score):
    server.script(["401"])
    with pytest.raises(JudgeAwayError):
        score("quality", judge_attempts=1)


def test_cascade_asks_questions_about_its_share_of_samples(server):
    server.requests.clear()
    settings = Settings(
        scorer="cascade", openai_base_url=server.url, metrics=("quality",), judge_share=0.3
    )
    with closing(make_scorer(settings)) as scorer:
        found = [scorer.score(make_interaction(), key=f"s{n}")[0] for n in range(60)]
    asked = [draw(f"s{n}") < 0.3 for n in range(60)]
    assert [each.status is EvaluationStatus.COMPLETED for each in found] == asked
    assert {each.reason for each in found} == {"", "not_asked"}
    assert len(server.requests) == sum(asked)


def test_cascade_counts_a_low_score_as_passed_where_lower_is_better(server):
    settings = Settings(
        scorer="cascade", openai_base_url=server.url, metrics=("hallucination",), judge_share=1
    )
    with closing(make_scorer(settings)) as scorer:
        [found] = scorer.score(make_interaction(), key="s")
    tally = tally_of(found, sample_rate=1.0, pass_score=0.7)
    assert found.metadata["judged"]
    assert (found.score, found.metadata["pass_estimate"], tally.passed) == (0.0, 1.0, 1)


def test_wrong_answer_is_asked_for_again(server, score):
    server.script(["malformed", "ok"])
    [found] = score("quality")
    assert found.status is EvaluationStatus.COMPLETED
    assert len(server.requests) == 2


def test_shared_judgement_and_questions_fail_apart(server, score):
    server.script(["503", "ok"])
    grounded, quality = score("groundedness", "quality", judge_attempts=1)
    assert (grounded.status, quality.status) == ("failed", "completed")


ROW = {"name": "a", "reasoning": "", "numbers": [], "texts": [], "score": 0.5, "suggestions": []}


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        (Form.SCORE, {"score": 1.1}, "out of range"),
        (Form.SCORE, {"score": None}, "no score"),
        (Form.RATING, {"score": 6}, "out of range"),
        (Form.SENTENCES, {"numbers": [3]}, "not there"),
        (Form.SENTENCES, {"numbers": [0]}, "not there"),
        (Form.TEXTS, {"texts": [" "]}, "no text"),
        (Form.SCORE, {"name": "b"}, "other ones"),
        (Form.SCORE, {"score": "high"}, r"answers\.0\.score: float_parsing"),
    ],
)
def test_answer_of_the_wrong_form_is_refused(form, changes, message):
    content = json.dumps({"answers": [ROW | changes]})
    with pytest.raises(JudgeReplyError, match=message) as caught:
        read_answers(content, [Criterion("a", "?", form)], {Form.SENTENCES: 2})
    assert caught.value.code == "judge_reply_invalid"


def test_rating_is_put_on_a_scale_from_nought_to_one():
    content = json.dumps({"answers": [ROW | {"score": 4}]})
    assert read_answers(content, [Criterion("a", "?", Form.RATING)], {})["a"].score == 0.75


def test_answers_are_refused_when_one_is_doubled():
    content = json.dumps({"answers": [ROW, ROW]})
    with pytest.raises(JudgeReplyError, match="2 answers to 1 criteria"):
        read_answers(content, [Criterion("a", "?")], {})
