"""No fault of an endpoint ever becomes a score, and each is named for what it is."""

import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from monitor.errors import JudgeError, JudgeOutageError, JudgeUnavailableError
from monitor.models import EvaluationStatus
from monitor.scoring.judges.openai_client import RetryPolicy
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.limits.budget import CallAbandonedError
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction
from monitor.testing.receivers import Serving
from support.judge_server import BEHAVIOURS, JudgeServer

#: What each fault becomes, and how many requests it takes with three tries.
FAULTS = {
    "malformed": ("judge_reply_invalid", 3),
    "truncated": ("judge_reply_invalid", 1),
    "thoughts_truncated": ("judge_reply_invalid", 2),
    "refusal": ("judge_refused", 1),
    "null": ("judge_reply_invalid", 3),
    "tool_calls": ("judge_reply_invalid", 3),
    "error_in_200": ("judge_rate_limited", 3),
    "error_after_200": ("judge_unavailable", 3),
    "json_validate_failed": ("judge_reply_invalid", 3),
    "streamed": ("judge_reply_invalid", 3),
    "bad_gzip": ("judge_unavailable", 3),
    "504": ("judge_unavailable", 3),
    "empty_choices": ("judge_reply_invalid", 3),
    "html": ("judge_reply_invalid", 3),
    "content_filter": ("judge_refused", 1),
    "missing_number": ("judge_reply_invalid", 3),
    "unasked_number": ("judge_reply_invalid", 3),
    "no_canary": ("judge_reply_invalid", 2),
    "wrong_enum": ("judge_reply_invalid", 3),
    "401": ("judge_away", 1),
    "402": ("judge_away", 1),
    "403": ("judge_away", 1),
    "404": ("judge_away", 1),
    "429": ("judge_rate_limited", 3),
    "429_ms": ("judge_rate_limited", 3),
    "429_long": ("judge_away", 1),
    "insufficient_quota": ("judge_away", 1),
    "too_long": ("judge_refused", 1),
    "filtered": ("judge_refused", 1),
    "500": ("judge_unavailable", 3),
    "503": ("judge_unavailable", 3),
    "503_long": ("judge_away", 1),
    "reset": ("judge_unavailable", 3),
    "oversized": ("judge_reply_invalid", 3),
    "hang": ("judge_unavailable", 1),
    "drip": ("judge_unavailable", 1),
    "drip_header": ("judge_unavailable", 1),
    "error_drip": ("judge_unavailable", 1),
    "cut": ("judge_unavailable", 3),
    "error_flood": ("judge_unavailable", 3),
}
#: These never end: the call does.
ENDLESS = ("hang", "drip", "drip_header", "error_drip")
HARMLESS = {"ok", "three_claims", "fenced", "no_usage", "wrong_quote"}
HARMLESS |= {"no_response_format", "no_temperature", "no_seed", "no_max_tokens"}
HARMLESS |= {"duplicate_number", "first_missing", "truncated_when_long", "thinking", "cached"}
HARMLESS |= {"gullible", "gullible_in_role", "thoughts_in_total", "score_out_of_range"}


@pytest.fixture
def server():
    with JudgeServer() as running:
        yield running


@pytest.fixture
def judge(server, request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    timeout_s = 1.5 if params.get("fault") in ENDLESS else 30.0
    judge = OpenAIJudge(
        "gpt-4.1-mini",
        base_url=server.url,
        policy=RetryPolicy(attempts=3, timeout_s=timeout_s, backoff_s=0.001),
    )
    yield judge
    judge.close()


def test_every_behaviour_of_the_judge_server_has_an_expectation():
    assert set(BEHAVIOURS) == set(FAULTS) | HARMLESS


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_endpoint_becomes_a_score(fault, server, judge):
    server.always = fault
    code, requests = FAULTS[fault]
    scorer = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness", "relevance")))
    )
    if code == "judge_away":  # no sample is at fault
        with pytest.raises(JudgeOutageError) as raised:
            scorer.score(make_interaction())
        assert raised.value.context["tries"] == requests
    else:
        for evaluation in scorer.score(make_interaction()):
            assert (evaluation.status, evaluation.score) == (EvaluationStatus.FAILED, None)
            assert evaluation.error.code == code
            assert evaluation.error.context["tries"] == requests
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    "fault", ["malformed", "null", "html", "missing_number", "429", "429_ms", "500", "503", "reset"]
)
def test_retry_succeeds_once_the_fault_passes(fault, server, judge):
    server.script([fault, "ok"])
    assert judge.judge(make_interaction()).relevance == 1.0
    assert len(server.requests) == 2


def test_wrapped_json_is_recovered_when_fenced(server, judge):
    server.script(["fenced"])
    assert judge.judge(make_interaction()).claims[0].support == 1.0


def test_cost_of_invalid_answers_is_counted_when_a_later_one_is_valid(server, judge):
    plain = judge.judge(make_interaction())
    server.script(["malformed", "ok"])
    assert judge.judge(make_interaction()).input_tokens == 2 * plain.input_tokens


def test_cost_is_counted_when_the_call_fails(server, judge):
    server.always = "null"
    with pytest.raises(JudgeError) as caught:
        judge.judge(make_interaction())
    assert caught.value.context["cost_usd"] > 0


def test_reasoning_tokens_are_charged_when_only_the_total_includes_them(server, judge):
    plain = judge.judge(make_interaction())
    server.script(["thoughts_in_total"])
    assert judge.judge(make_interaction()).output_tokens == plain.output_tokens + 100


@pytest.mark.parametrize(("fault", "unanswered"), [("504", 3), ("error_in_200", 3), ("503", 0)])
def test_attempts_that_may_have_been_billed_are_counted(fault, unanswered, server, judge):
    server.always = fault
    with pytest.raises(JudgeError) as caught:
        judge.judge(make_interaction())
    assert caught.value.context.get("tries_without_usage", 0) == unanswered


def test_tokens_are_unknown_when_the_endpoint_does_not_say(server, judge):
    server.script(["no_usage"])
    judgement = judge.judge(make_interaction())
    assert (judgement.input_tokens, judgement.cost_usd) == (None, None)


def test_unsupported_response_format_is_remembered(server, judge):
    server.always = "no_response_format"
    judge.judge(make_interaction())
    judge.judge(make_interaction())
    kinds = [r.get("response_format", {}).get("type") for r in server.requests]
    assert kinds == ["json_schema", "json_object", None, None]


def test_unsupported_temperature_is_left_out(server, judge):
    server.always = "no_temperature"
    judge.judge(make_interaction())
    judge.judge(make_interaction())
    assert ["temperature" in request for request in server.requests] == [True, False, False]


def test_unsupported_seed_is_left_out(server, judge):
    server.always = "no_seed"
    judge.judge(make_interaction())
    judge.judge(make_interaction())
    assert ["seed" in request for request in server.requests] == [True, False, False]


def test_every_request_is_counted_when_arguments_are_refused_first(server, judge):
    server.always = "no_response_format"
    assert judge.judge(make_interaction()).details["tries"] == len(server.requests) == 3


def test_wait_beyond_the_deadline_is_a_judge_outage(server, judge):
    server.always = "429_long"
    with pytest.raises(JudgeOutageError) as caught:
        judge.judge(make_interaction())
    assert (caught.value.retry_after_s, caught.value.context["http_status"]) == (120, 429)


@pytest.mark.parametrize("fault", ["401", "403", "404", "insufficient_quota"])
def test_refusal_of_every_call_is_a_judge_outage(fault, server, judge):
    server.always = fault
    with pytest.raises(JudgeOutageError) as caught:
        judge.judge(make_interaction())
    assert (caught.value.transient, caught.value.retry_after_s) == (False, None)


@pytest.mark.parametrize("fault", ENDLESS)
def test_deadline_covers_the_whole_call(fault, server, judge):
    server.always = fault
    started = time.monotonic()
    with pytest.raises(JudgeUnavailableError, match=r"no answer in 1\.5 s"):
        judge.judge(make_interaction())
    assert time.monotonic() - started < 40  # without a deadline it would never end


def test_endpoint_without_a_listener_is_reported_unreachable(server):
    with JudgeServer() as gone:
        url = gone.url
    judge = OpenAIJudge("m", base_url=url, policy=RetryPolicy(attempts=2, backoff_s=0.001))
    with pytest.raises(JudgeUnavailableError, match="cannot be reached") as caught:
        judge.judge(make_interaction())
    judge.close()
    assert caught.value.context["tries"] == 2


def test_script_is_refused_when_it_names_no_behaviour(server):
    with pytest.raises(ValueError, match="no such behaviour: nonsense"):
        server.script(["nonsense"])


def test_unknown_behaviour_is_refused(server):
    with pytest.raises(ValueError, match="no such behaviour: typo"):
        JudgeServer(always="typo")
    with pytest.raises(ValueError, match="no such behaviour: typo"):
        server.always = "typo"


def test_closing_the_judge_aborts_its_call_without_a_retry(server):
    judge = OpenAIJudge("m", base_url=server.url, policy=RetryPolicy(timeout_s=30))
    server.always = "hang"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(judge.judge, make_interaction())
        while not server.requests:
            time.sleep(0.01)
        judge.close()
        with pytest.raises(CallAbandonedError, match="closed while it was asked"):
            asked.result(100)
    assert len(server.requests) == 1


def test_error_body_is_not_read_whole_when_it_never_ends(server, judge):
    server.script(["error_flood", "ok"])
    assert judge.judge(make_interaction()).relevance == 1.0
    assert server.flooded < 20_000_000


def test_limit_is_renamed_when_the_model_takes_only_the_new_name(server, judge):
    server.always = "no_max_tokens"
    judge.judge(make_interaction())
    judge.judge(make_interaction())
    assert [r.get("max_tokens") for r in server.requests] == [2_200, None, None]
    assert [r.get("max_completion_tokens") for r in server.requests] == [None, 10_200, 10_200]


def test_answer_limit_rises_after_truncated_reasoning(server, judge):
    server.script(["thoughts_truncated", "ok"])
    judge.judge(make_interaction())
    judge.judge(make_interaction())
    assert [r["max_tokens"] for r in server.requests] == [2_200, 10_200, 10_200]


def test_broken_response_body_is_a_lost_connection(server, judge):
    server.always = "cut"
    [evaluation] = JudgementScorer(judge, resolve_metrics(Settings(metrics=("relevance",)))).score(
        make_interaction()
    )
    assert evaluation.error.code == "judge_unavailable"
    assert "broke off" in evaluation.error.message


class Redirecting(Serving):
    """Answers every request with a redirect."""

    def __init__(self, status, location):
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format, *args):  # noqa: A002
                pass

            def do_POST(self):
                asked.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.asked = asked = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_to_another_origin_receives_no_text(status, server):
    with Redirecting(status, f"{server.url}/chat/completions") as elsewhere:
        judge = OpenAIJudge("m", base_url=elsewhere.url)
        with pytest.raises(JudgeOutageError, match="redirects to another origin"):
            judge.judge(make_interaction())
        judge.close()
        assert len(elsewhere.asked) == 1
    assert server.requests == []
