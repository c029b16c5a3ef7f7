"""A webhook address or a password shows up nowhere, whatever fails and whoever logs."""

import io
import logging
import random
import traceback
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from alerts.channels.chat import DiscordChannel, TeamsChannel
from alerts.channels.email import EmailChannel
from alerts.channels.programs import AlertmanagerChannel, PagerDutyChannel, WebhookChannel
from alerts.channels.slack import SlackBotChannel
from alerts.decide import decide
from alerts.dispatch import Dispatcher, channels_from, recipients_of, wiring_from
from alerts.drill import send_test
from alerts.state import Timers
from monitor.errors import DeliveryError, SettingsError
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.tables import metadata
from monitor.testing import make_verdict
from support.receivers import MailReceiver, SlackAnswer, SlackReceiver
from support.vendor_receiver import Reaction, VendorReceiver

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
        channels = recipients_of(channels_from(settings))
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
def test_no_channel_secret_in_logs_or_errors_after_any_failure(vendor, everything_logged, capfd):
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


def test_no_secret_in_routes_file_errors(tmp_path, monkeypatch):
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


@pytest.fixture
def secretive(store, slack, mail, redis_url, tmp_path, monkeypatch):
    """Settings in which every secret holds the canary, and channels of every type."""
    for name, value in {"URL": slack.url, "SMTP": mail.url, "KEY": CANARY}.items():
        monkeypatch.setenv(f"CANARY_{name}", value)
    monkeypatch.setenv("CANARY_HOOK", f"http://127.0.0.1:9/{CANARY}")
    path = tmp_path / "alerts.toml"
    path.write_text(EVERY_CHANNEL)
    return Settings.from_env(
        {
            "GROUNDWATCH_HOME": str(tmp_path),
            "GROUNDWATCH_DATABASE_URL": store.engine.url.render_as_string(hide_password=False),
            "GROUNDWATCH_REDIS_URL": redis_url,
            "GROUNDWATCH_ALERTS_FILE": str(path),
            "GROUNDWATCH_SLACK_WEBHOOK_URL": slack.url,
            "GROUNDWATCH_SMTP_URL": mail.url.replace("://", f"://{CANARY}:{CANARY}@"),
            "GROUNDWATCH_EMAIL_TO": "ann@example.org",
            "OPENAI_API_KEY": CANARY,
            "GROUNDWATCH_DEAD_MANS_SWITCH_URL": f"http://127.0.0.1:9/{CANARY}",
            "GROUNDWATCH_DELIVERY_TIMEOUT_S": "0.3",
        }
    )


EVERY_CHANNEL = """
[channels.a]
type = "slack"
url = "env:CANARY_URL"
[channels.b]
type = "slack-bot"
token = "env:CANARY_KEY"
channel = "C0123"
[channels.c]
type = "teams"
url = "env:CANARY_HOOK"
[channels.d]
type = "discord"
url = "env:CANARY_HOOK"
[channels.e]
type = "alertmanager"
url = "env:CANARY_HOOK"
authorization = "env:CANARY_KEY"
[channels.f]
type = "webhook"
url = "env:CANARY_HOOK"
allow_private = true
[channels.g]
type = "email"
url = "env:CANARY_SMTP"
from = "gw@example.org"
to = ["ann@example.org"]
[[routes]]
channels = ["a", "c", "d", "e", "f", "g"]
fallback = "b"
"""
PAGES = ("/", "/incidents", "/channels", "/config", "/audit", "/api/v1/incidents", "/metrics",
         "/api/v1/status", "/readyz")  # fmt: skip


def fail_everywhere(store, settings):
    """Tell of an incident on every channel; most of them refuse it, and the fallback too."""
    wiring = wiring_from(settings)
    channels = {n: c for n, c in wiring.channels.items() if n != "b"}
    with store.write() as connection:
        decide(
            connection, [make_verdict(Status.CRITICAL, NOW)], now=NOW, timers=AT_ONCE,
            channels=wiring.plan,
        )  # fmt: skip
    for minutes in (0, 2, 10):
        now = NOW + timedelta(minutes=minutes)
        Dispatcher(store, channels, random.Random(1), clock=lambda now=now: now).run_once()
    return wiring


def test_no_secret_on_any_page_in_any_table_or_in_redis(
    store, slack, secretive, everything_logged, capfd
):
    from starlette.testclient import TestClient

    from monitor.web.app import make_app
    from monitor.web.site import Site
    from workers.celery import make_app as make_celery

    slack.script(SlackAnswer.NO_SERVICE)
    wiring = fail_everywhere(store, secretive)
    wake_up = make_celery(secretive)
    wake_up.send_task("groundwatch.score", args=("worker", 0), retry=False)
    site = Site(store, secretive)
    with TestClient(make_app(site), base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as web:
        pages = [web.get(page) for page in PAGES]
    tables = [_rows_of(store, table) for table in metadata.tables.values()]
    told = [str(wiring), repr(secretive), "".join(capfd.readouterr()), everything_logged.getvalue()]
    assert all(page.status_code < 600 and page.text for page in pages)
    assert "'dead'" in "".join(tables)
    for place in (*told, *tables, *(page.text for page in pages), *in_redis(secretive)):
        assert CANARY not in place


def _rows_of(store, table):
    with store.read() as connection:
        return str(connection.execute(select(table)).all())


def in_redis(settings):
    """Dump all that Redis holds, as it lies there."""
    import redis

    with redis.Redis.from_url(settings.redis_url) as client:
        keys = client.keys("*")
        assert keys
        return [repr((key, client.dump(key))) for key in keys]


def test_no_secret_in_the_output_of_config(secretive, monkeypatch):
    from typer.testing import CliRunner

    from monitor.cli.app import app

    monkeypatch.setattr(Settings, "from_env", classmethod(lambda *_: secretive))
    shown = CliRunner().invoke(app, ["config"])
    assert shown.exit_code == 0
    assert "GROUNDWATCH_SMTP_URL" in shown.output
    assert CANARY not in shown.output
