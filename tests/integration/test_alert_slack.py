"""The Slack channel against a real HTTP server that answers as Slack and its stand-ins do."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr

from alerts.channels.base import HttpAnswer
from alerts.channels.slack import SlackChannel, webhook_refusal
from alerts.drill import send_test
from monitor.errors import DeliveryError
from support.receivers import SlackAnswer, SlackReceiver

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def slack():
    with SlackReceiver() as receiver:
        yield receiver


def channel(slack, timeout_s=30.0):
    return SlackChannel(SecretStr(slack.url), timeout_s=timeout_s)


def refused(slack, *answers, timeout_s=30.0):
    slack.script(*answers)
    with pytest.raises(DeliveryError) as caught:
        send_test(channel(slack, timeout_s), NOW)
    return caught.value


def test_channel_test_message_arrives_once(slack):
    receipt = send_test(channel(slack), NOW)
    assert receipt.answer == "200 ok"
    (message,) = slack.requests
    assert message["text"].startswith("[TEST CRITICAL]")


@pytest.mark.parametrize(
    ("answer", "code", "transient"),
    [
        (SlackAnswer.SERVER_ERROR, "server_error", True),
        (SlackAnswer.NO_SERVICE, "no_service", False),
        (SlackAnswer.HTML, "not_slack", True),
        (SlackAnswer.REDIRECT, "http_302", True),
    ],
)
def test_slack_responses_are_classified_as_documented(slack, answer, code, transient):
    error = refused(slack, answer)
    assert (error.code, error.transient, error.ambiguous) == (code, transient, False)
    assert len(slack.requests) == 1


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        (HttpAnswer(403, b"<html>log in first</html>"), False),
        (HttpAnswer(404, b"Not Found"), False),
        (HttpAnswer(302, b""), False),
        (HttpAnswer(404, b"no_service"), True),
        (HttpAnswer(403, b"invalid_token"), True),
    ],
)
def test_only_documented_slack_refusals_are_final_at_once(answer, final):
    error = webhook_refusal(answer)
    assert error.transient != final
    assert (error.give_up_after_s is None) == final


@pytest.mark.parametrize(
    ("header", "seconds"), [("30", 30), ("999999", 3600), ("0", 1), ("soon", 30)]
)
def test_retry_after_is_read_within_bounds(slack, header, seconds):
    slack.retry_after = header
    assert refused(slack, SlackAnswer.RATE_LIMITED).retry_after_s == seconds


def test_retry_after_may_be_a_date(slack):
    slack.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=100))
    assert 90 < refused(slack, SlackAnswer.RATE_LIMITED).retry_after_s <= 100


def test_blocks_that_slack_refuses_are_sent_as_text(slack):
    slack.script(SlackAnswer.INVALID_BLOCKS)
    send_test(channel(slack), NOW)
    (message,) = slack.messages
    assert "blocks" not in message
    assert "test-app" in message["text"]


@pytest.mark.parametrize("answer", [SlackAnswer.HANG, SlackAnswer.DRIP, SlackAnswer.DROP])
def test_message_that_may_have_arrived_is_ambiguous(slack, answer):
    error = refused(slack, answer, timeout_s=0.3)
    assert (error.transient, error.ambiguous) == (True, True)
    assert len(slack.messages) == 1


def test_slow_drip_response_does_not_extend_the_deadline(slack):
    started = time.monotonic()
    refused(slack, SlackAnswer.DRIP, timeout_s=0.3)
    assert time.monotonic() - started < 40  # without a deadline it would never end


def test_closed_port_is_not_ambiguous():
    with SlackReceiver() as gone:
        target = channel(gone)
    with pytest.raises(DeliveryError) as caught:
        send_test(target, NOW)
    assert (caught.value.transient, caught.value.ambiguous) == (True, False)
