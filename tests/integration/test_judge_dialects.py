"""One judge for every vendor: what each says differently means the same."""

import pytest

from monitor.errors import JudgeError, JudgeOutageError, JudgeRefusedError
from monitor.scoring.judges.openai_client import RetryPolicy
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.testing import make_interaction
from support.judge_dialects import DIALECTS
from support.judge_server import JudgeServer

KEY = "sk-canary-77aa"


@pytest.fixture(params=DIALECTS)
def server(request):
    with JudgeServer(dialect=request.param) as running:
        yield running


@pytest.fixture
def judge(server):
    judge = OpenAIJudge(
        "gpt-4.1-mini",
        api_key=KEY,
        base_url=server.url,
        policy=RetryPolicy(timeout_s=5, backoff_s=0.001),
    )
    yield judge
    judge.close()


@pytest.mark.parametrize("slash", ["", "/"])
def test_interaction_is_judged_in_one_call(slash, server):
    judge = OpenAIJudge("gpt-4.1-mini", api_key=KEY, base_url=server.url + slash)
    judgement = judge.judge(make_interaction())
    judge.close()
    assert (judgement.claims[0].support, judgement.relevance) == (1.0, 1.0)
    assert judgement.model.startswith("gpt-4.1-mini")
    assert judgement.cost_usd > 0
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", ["401", "403", "404"])
def test_wrong_key_or_model_is_a_judge_outage(behaviour, server, judge):
    server.always = behaviour
    with pytest.raises(JudgeOutageError) as caught:
        judge.judge(make_interaction())
    assert KEY not in str(caught.value)
    assert str(caught.value).startswith(f"the judge's endpoint answered {behaviour}")


def test_long_requested_wait_is_a_judge_outage(server, judge):
    server.always = "429_long"
    with pytest.raises(JudgeOutageError) as caught:
        judge.judge(make_interaction())
    assert caught.value.retry_after_s == 120


@pytest.mark.parametrize("behaviour", ["429", "429_ms", "500", "503"])
def test_verdict_is_returned_once_the_failure_passes(behaviour, server, judge):
    server.script([behaviour, "ok"])
    assert judge.judge(make_interaction()).details["tries"] == 2


def test_text_is_shortened_when_it_is_too_long(server, judge):
    server.script(["too_long", "ok"])
    judgement = judge.judge(make_interaction(contexts=["Harbours close at nine. " * 200]))
    assert judgement.details["contexts_packed"]["chars"] == 4_800


@pytest.mark.parametrize("behaviour", ["no_response_format", "no_temperature", "no_seed"])
def test_refused_argument_is_left_out(behaviour, server, judge):
    server.always = behaviour
    assert judge.judge(make_interaction()).relevance == 1.0


def test_reasoning_left_in_the_reply_is_not_read_as_the_answer(server, judge):
    server.script(["thinking"])
    assert judge.judge(make_interaction()).claims[0].support == 1.0


def test_path_of_another_vendor_is_a_judge_outage(server):
    wrong = server.url.removesuffix(server.dialect.path) + "/other"
    judge = OpenAIJudge("m", api_key=KEY, base_url=wrong)
    with pytest.raises(JudgeOutageError, match="OPENAI_BASE_URL"):
        judge.judge(make_interaction())
    judge.close()


def test_text_is_refused_when_azure_filters_it():
    with JudgeServer(dialect="azure", always="filtered") as server:
        judge = OpenAIJudge("m", api_key=KEY, base_url=server.url)
        with pytest.raises(JudgeRefusedError, match="filter"):
            judge.judge(make_interaction())
        judge.close()


def test_server_that_truncates_the_prompt_gives_no_verdict_without_the_canary():
    with JudgeServer(dialect="ollama", always="no_canary") as server:
        judge = OpenAIJudge("m", base_url=server.url)
        with pytest.raises(JudgeError, match="followed our message"):
            judge.judge(make_interaction())
        judge.close()
