"""Settings name the channels, the recipients, the timers and the lines."""

from datetime import UTC, datetime

import pytest

from alerts.dispatch import channels_from, recipients_of
from alerts.drill import sample_snapshot
from alerts.message import render
from alerts.model import thresholds_from
from alerts.routing import Recipient
from alerts.state import timers_from
from monitor.models.alerting import Severity
from monitor.settings import Settings

EVERYTHING = Settings(
    slack_webhook_url="https://hooks.slack.com/services/T/B/x",
    smtp_url="smtp://user:secret@mail.example.org",
    email_to="ann@example.org, bob@example.org",
)

FOUND = sample_snapshot(datetime(2026, 3, 1, tzinfo=UTC))
MESSAGE = render(FOUND.model_copy(update={"samples": ("a REASON",)}), {FOUND.event})


def test_no_channel_exists_by_default():
    assert channels_from(Settings()) == {}
    assert recipients_of(channels_from(Settings())) == []


def test_every_email_address_is_a_separate_recipient():
    assert recipients_of(channels_from(EVERYTHING)) == [
        Recipient("slack"),
        Recipient("email", "ann@example.org"),
        Recipient("email", "bob@example.org"),
    ]


def test_channel_timeouts_come_from_the_settings():
    slow = EVERYTHING.model_copy(update={"delivery_timeout_s": 7.0})
    assert {channel.timeout_s for channel in channels_from(slow).values()} == {7.0}


@pytest.mark.parametrize("wanted", [True, False])
def test_one_setting_keeps_transcripts_out_of_slack_and_email(wanted):
    sent = []
    for channel in channels_from(
        EVERYTHING.model_copy(update={"alert_explanations": wanted})
    ).values():
        channel.send = lambda message, *_: sent.append(message)
        channel.deliver(MESSAGE, "id")
    assert [("REASON" in m.text, m.samples != ()) for m in sent] == [(wanted, wanted)] * 2


def test_timers_come_from_the_settings():
    timers = timers_from(Settings(warning_for_s=1, critical_for_s=2, resolve_after_s=3))
    assert (timers.warning_for_s, timers.critical_for_s, timers.resolve_after_s) == (1, 2, 3)


def test_slow_schedule_is_not_a_gap():
    assert timers_from(Settings(evaluate_every_s=600)).max_gap_s == 1800


def test_thresholds_come_from_the_settings():
    lines = thresholds_from(Settings(warning_rate=0.9, critical_rate=0.6))
    assert (lines.of(Severity.WARNING), lines.of(Severity.CRITICAL)) == (0.9, 0.6)
