"""Only what the endpoint says it does not take is left out, and it stays left out."""

import json

import pytest

from monitor.errors import JudgeOutageError, JudgeRefusedError
from monitor.retry import retry_after_s
from monitor.scoring.judges.openai_client import Arguments
from monitor.scoring.judges.openai_errors import (
    ContextTooLongError,
    RefusedCall,
    error_from,
)
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.judges.reply import VERDICT_SCHEMA
from monitor.scoring.judges.request import Request


def asking(sentences, squeezed=0):
    return Request(
        messages=[], schema=VERDICT_SCHEMA, entries=sentences, seed=1, parse=str, squeezed=squeezed
    )


def refused(error, status=400):
    return RefusedCall(status, {}, json.dumps(error).encode())


def openai_error(message, param=None):
    return {"error": {"message": message, "param": param}}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (openai_error("no", "temperature"), 400),
        (openai_error("no", "temperature"), 422),
        (openai_error("Unsupported value: 'temperature' does not support 0"), 400),
        (openai_error("Unrecognized request argument supplied: temperature"), 400),
        ({"detail": [{"loc": ["body", "temperature"], "msg": "Extra inputs"}]}, 422),
        ({"message": "`temperature` is not supported"}, 400),
        ({"message": "temperature does not support 0 with this model"}, 400),
    ],
)
def test_argument_is_left_out_when_the_endpoint_names_it(error, status):
    arguments = Arguments("m")
    assert arguments.leave_out(refused(error, status), arguments.of(asking(1)))
    assert "temperature" not in arguments.of(asking(1))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (openai_error("The temperature of this text is too hot"), 400),
        (openai_error("Invalid 'temperature' in messages", "messages[0].content"), 400),
        (openai_error("no", "temperature"), 500),
        ({"detail": [{"loc": ["body", "messages"], "input": "'temperature'"}]}, 422),
        (["'temperature'"], 401),
        ("temperature", 400),
    ],
)
def test_arguments_stay_when_they_are_only_mentioned(error, status):
    arguments = Arguments("m")
    before = arguments.of(asking(1))
    assert not arguments.leave_out(refused(error, status), before)
    assert arguments.of(asking(1)) == before


def test_answer_has_room_for_every_sentence_when_asked_for():
    limits = [Arguments("m").of(asking(count))["max_tokens"] for count in (0, 1, 10, 10_000)]
    assert limits == [2_000, 2_200, 4_000, 16_000]


def test_answer_takes_less_room_when_the_question_was_too_long():
    limits = [Arguments("m").of(asking(10, times))["max_tokens"] for times in (0, 1, 2, 9)]
    assert limits == [4_000, 2_000, 1_000, 500]


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "'max_tokens' is too large: 2200. This model's maximum context length is 1024 tokens",
        "You passed 1015 input tokens. However, the model's context length is only 1024 tokens.",
        "the request exceeds the available context size",
        "max_tokens must be at least 1, got -186.",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_vendor_messages_for_too_long_a_text_are_recognised(message):
    error = refused(openai_error(message))
    assert isinstance(error_from(error), ContextTooLongError)
    arguments = Arguments("m")
    assert not arguments.leave_out(error, arguments.of(asking(1)))


def test_content_filter_refuses_the_text_without_a_judge_outage():
    body = {"error": {"code": 403, "message": "flagged", "metadata": {"flagged_input": "x"}}}
    assert isinstance(error_from(refused(body, 403)), JudgeRefusedError)
    assert isinstance(error_from(refused({"error": {"message": "no"}}, 403)), JudgeOutageError)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "/chat/completions: Invalid model name passed in model=gpt-9. Call `/v1/models`",
            "Invalid model name passed in model=gpt-9",
        ),
        ("Authentication Error, No api key passed in. SECRET", "Authentication Error"),
        ("Authentication Error: LiteLLM Virtual Key expected. sk-1234", "Authentication Error"),
        ("litellm: no healthy deployments available, passed model=x", "no healthy deployments"),
    ],
)
def test_proxy_400_about_model_or_key_is_an_outage_quoting_it(message, words):
    error = error_from(refused({"error": {"message": message, "code": "400"}}))
    assert isinstance(error, JudgeOutageError)
    assert words in str(error)
    assert "SECRET" not in str(error)
    assert "sk-1234" not in str(error)


def test_echoed_text_about_an_outage_is_not_an_outage():
    message = "Validation failed for the message: " + "x" * 100 + " authentication error"
    assert isinstance(error_from(refused(openai_error(message))), JudgeRefusedError)


def test_version_differs_between_servers_of_one_model_name():
    urls = [None, "https://api.openai.com/v1", "http://a/v1", "http://b/v1", "http://a:81/v1"]
    versions = [OpenAIJudge("m", api_key="k", base_url=url).version for url in urls]
    assert versions[0] == versions[1] == "judge-m-v4p8"
    assert len(set(versions)) == 4


def test_versions_differ_when_less_is_sent():
    sent = [{}, {"input_tokens": 16_000}, {"input_tokens": 4_000}, {"pieces": 3}]
    versions = [OpenAIJudge("m", api_key="k", **each).version for each in sent]
    assert versions == ["judge-m-v4p8", "judge-m-v4p8", "judge-m-v4p8t4000", "judge-m-v4p3"]


@pytest.mark.parametrize(
    "url", ["http://A/v1/", "http://user:pw@a/v1", "https://a/v1?api-version=1"]
)
def test_version_does_not_depend_on_endpoint_spelling(url):
    judges = [OpenAIJudge("m", api_key="k", base_url=each) for each in ("http://a/v1", url)]
    assert judges[0].version == judges[1].version


AT_EIGHT = {"date": "Sun, 22 Nov 2026 08:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "6m0s"}, 360.0),
        ({"retry-after": "Sun, 22 Nov 2026 08:00:30 GMT"} | AT_EIGHT, 30.0),
        ({"retry-after": "Sun, 22 Nov 2026 08:00:30"} | AT_EIGHT, 30.0),
        ({"retry-after": "2026-11-22T09:00:30+01:00"} | AT_EIGHT, 30.0),
        ({"retry-after": "1795334430"} | AT_EIGHT, 30.0),
        ({"retry-after": "1795334430000"} | AT_EIGHT, 30.0),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_wait_is_read_when_the_endpoint_names_one(headers, wait_s):
    assert retry_after_s(headers) == wait_s


def test_refused_token_limit_is_renamed_and_then_omitted():
    arguments = Arguments("m")
    for name in ("max_tokens", "max_completion_tokens"):
        request = arguments.of(asking(1))
        assert request[name] > 2_000
        assert arguments.leave_out(refused(openai_error("no", name)), request)
    assert not {"max_tokens", "max_completion_tokens"} & set(arguments.of(asking(1)))


def test_version_fits_its_column_when_the_model_has_a_long_name():
    versions = {OpenAIJudge("m" * 300 + end, api_key="k").version for end in ("a", "b")}
    assert len(versions) == 2
    assert max(map(len, versions)) <= 190
