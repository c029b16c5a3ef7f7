"""A webhook address or a password shows up nowhere, whatever fails and whoever logs."""

import io
import logging
import random
import traceback
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from alerts.channels.alertmanager import AlertmanagerChannel
from alerts.channels.discord import DiscordChannel
from alerts.channels.email import EmailChannel
from alerts.channels.pagerduty import PagerDutyChannel
from alerts.channels.registry import channels_from, recipients_from
from alerts.channels.slack_bot import SlackBotChannel
from alerts.channels.teams import TeamsChannel
from alerts.channels.webhook import WebhookChannel
from alerts.decide import decide
from alerts.dispatch import Dispatcher
from alerts.evidence import Timers
from alerts.try_channel import send_test
from alerts.wiring import wiring_from
from monitor.errors import DeliveryError, SettingsError
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.base import metadata
from monitor.testing.receivers import MailReceiver, SlackAnswer, SlackReceiver
from monitor.testing.vendor_receiver import Reaction, VendorReceiver
from monitor.testing.verdicts import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
CANARY = "c4n4ry"
WELL = {SlackAnswer.OK, SlackAnswer.INVALID_BLOCKS}


@pytest.fixture
def slack():
    with SlackReceiver(path=f"/services/T0/B0/{CANARY}") as receiver:
        yield receiver


@pytest.fixture
def mail():
    with MailReceiver() as receiver:
        yield receiver


@pytest.fixture
def everything_logged():
    """All loggers there are, and will be, at DEBUG."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    names = [name for name in logging.root.manager.loggerDict if not name.startswith("asyncio")]
    loggers = [root, *map(logging.getLogger, [*names, "httpx", "httpcore.http11"])]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield heard
    root.removeHandler(handler)
    for logger, level in before:
        logger.setLevel(level)


def settings_for(slack, mail):
    return Settings(
        slack_webhook_url=slack.url,
        smtp_url=mail.url.replace("://", f"://{CANARY}:{CANARY}@"),
        email_to="ann@example.org",
        delivery_timeout_s=0.3,
    )


def test_no_secret_in_logs_rows_or_output(store, slack, mail, everything_logged, capfd):
    settings = settings_for(slack, mail)
    slack.script(*SlackAnswer)
    verdicts = [make_verdict(Status.CRITICAL, NOW, app=answer) for answer in SlackAnswer]
    with store.write() as connection:
        channels = recipients_from(settings)
        decide(connection, verdicts, now=NOW, timers=AT_ONCE, channels=channels)
    for minutes in range(len(SlackAnswer)):
        now = NOW + timedelta(minutes=minutes)
        Dispatcher(
            store, channels_from(settings), random.Random(1), clock=lambda now=now: now
        ).run_once()
    assert len(slack.requests) > len(SlackAnswer)
    with store.read() as connection:
        rows = [
            str(connection.execute(select(table)).all())
            for name, table in metadata.tables.items()
            if "alert" in name or "outbox" in name or "incident" in name
        ]
    printed = "".join(capfd.readouterr())
    for place in (everything_logged.getvalue(), printed, *rows, repr(channels_from(settings))):
        assert CANARY not in place


def test_other_users_of_the_http_library_keep_their_logs(slack, everything_logged):
    import httpx

    send_test(channels_from(Settings(slack_webhook_url=slack.url))["slack"], NOW)
    httpx.post(slack.url.replace(CANARY, "public"), json={})
    assert "/services/T0/B0/public" in everything_logged.getvalue()


@pytest.mark.parametrize("answer", [a for a in SlackAnswer if a not in WELL])
def test_no_secret_in_the_errors_of_slack(slack, mail, answer):
    slack.script(answer)
    error = failure_of(channels_from(settings_for(slack, mail))["slack"])
    assert CANARY not in told_by(error)


@pytest.mark.parametrize("scheme", ["smtp", "smtps", "smtp+plain"])
def test_no_secret_in_the_errors_of_email(slack, mail, scheme):
    settings = settings_for(slack, mail)
    url = mail.url.replace("smtp+plain://", f"{scheme}://{CANARY}:{CANARY}@")
    channel = channels_from(Settings(smtp_url=url, email_to="a@b.c", delivery_timeout_s=0.3))
    assert isinstance(channel["email"], EmailChannel)
    assert CANARY not in told_by(failure_of(channel["email"]))
    assert CANARY not in repr(settings)


def failure_of(channel):
    with pytest.raises(DeliveryError) as caught:
        send_test(channel, NOW)
    return caught.value


def told_by(error):
    """All that a careless handler could print of an error."""
    assert error.__context__ is None
    return "".join(traceback.format_exception(error)) + repr(vars(error))


CHANNELS = {
    "slack-bot": lambda url: SlackBotChannel(
        SecretStr(CANARY), channel="C0123", api_url=url, timeout_s=0.6
    ),
    "pagerduty": lambda url: PagerDutyChannel(SecretStr(CANARY), api_url=url, timeout_s=0.3),
    "teams": lambda url: TeamsChannel(SecretStr(f"{url}/{CANARY}"), timeout_s=0.3),
    "discord": lambda url: DiscordChannel(SecretStr(f"{url}/{CANARY}"), timeout_s=0.3),
    "alertmanager": lambda url: AlertmanagerChannel(
        SecretStr(f"{url}/{CANARY}"), authorization=SecretStr(f"Bearer {CANARY}"), timeout_s=0.3
    ),
    "webhook": lambda url: WebhookChannel(
        SecretStr(f"{url}/{CANARY}"), timeout_s=0.3, allow_private=True
    ),
}


@pytest.mark.parametrize("vendor", CHANNELS)
def test_no_secret_of_any_channel_in_logs_or_errors_however_it_fails(
    vendor, everything_logged, capfd
):
    with VendorReceiver(vendor) as receiver:
        channel, told = CHANNELS[vendor](receiver.url), ""
        for reaction in Reaction:
            receiver.script(reaction, reaction)
            told += told_of(channel)
    told += told_of(channel)
    assert "DeliveryError" in told
    assert CANARY not in told
    assert CANARY not in everything_logged.getvalue()
    assert CANARY not in "".join(capfd.readouterr())
    assert CANARY not in repr(vars(channel))


def test_no_secret_of_the_routes_file_in_its_mistakes(tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", f"not an address {CANARY}")
    path = tmp_path / "alerts.toml"
    path.write_text(
        '[channels.a]\ntype = "webhook"\nurl = "env:A_SECRET"\nsecret = "env:A_SECRET"\n'
        f'[channels.b]\ntype = "slack"\nurl = "https://hooks.example.org/{CANARY}"\n'
        f'[channels.c]\ntype = "apprise"\nurl = {{ env = "{CANARY}", more = 1 }}\n'
        '[[routes]]\nchannels = "nobody"\n'
    )
    with pytest.raises(SettingsError) as caught:
        wiring_from(Settings(alerts_file=path))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def told_of(channel):
    try:
        send_test(channel, NOW)
    except DeliveryError as error:
        return told_by(error)
    return ""
