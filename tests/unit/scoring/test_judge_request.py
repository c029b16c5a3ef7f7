"""Only what the endpoint says it does not take is left out, and it stays left out."""

import json

import pytest

from monitor.scoring.judges.openai_errors import RefusedCall
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.judges.openai_request import Arguments


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
    ],
)
def test_argument_is_left_out_when_the_endpoint_names_it(error, status):
    arguments = Arguments("m")
    assert arguments.leave_out(refused(error, status), arguments.request([], 1))
    assert "temperature" not in arguments.request([], 1)


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
    before = arguments.request([], 1)
    assert not arguments.leave_out(refused(error, status), before)
    assert arguments.request([], 1) == before


def test_answer_has_room_for_every_sentence_when_asked_for():
    limits = [Arguments("m").request([], count)["max_tokens"] for count in (0, 1, 10, 10_000)]
    assert limits == [2_000, 2_200, 4_000, 16_000]


def test_limit_goes_by_its_other_name_and_then_without_when_refused():
    arguments = Arguments("m")
    for name in ("max_tokens", "max_completion_tokens"):
        request = arguments.request([], 1)
        assert request[name] > 2_000
        assert arguments.leave_out(refused(openai_error("no", name)), request)
    assert not {"max_tokens", "max_completion_tokens"} & set(arguments.request([], 1))


def test_version_fits_its_column_when_the_model_has_a_long_name():
    versions = {OpenAIJudge("m" * 300 + end, api_key="k").version for end in ("a", "b")}
    assert len(versions) == 2
    assert max(map(len, versions)) <= 190
