"""A dispatcher that is killed at the worst moment loses nothing and repeats at most once."""

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from alerts.decide import decide
from alerts.dispatch import Dispatcher, channels_from, recipients_of
from alerts.state import Timers
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.testing import make_verdict
from support.receivers import MailReceiver, SlackReceiver

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)

#: A dispatcher that kills itself: before the bytes leave, or after the answer came.
VICTIM = """
import os, random, signal, sys
from datetime import datetime
from alerts.channels.base import Channel
from alerts.dispatch import Dispatcher, channels_from
from monitor.settings import Settings
from monitor.store.engine import Store

database_url, now, point = sys.argv[1:]

class Deadly(Channel):
    def __init__(self, channel):
        self.channel, self.name, self.timeout_s = channel, channel.name, channel.timeout_s
        self.addresses = channel.addresses

    def send(self, *message):
        if point == "after":
            self.channel.send(*message)
        os.kill(os.getpid(), signal.SIGKILL)

channels = {name: Deadly(channel) for name, channel in channels_from(Settings.from_env()).items()}
clock = lambda: datetime.fromisoformat(now)
Dispatcher(Store(database_url), channels, random.Random(1), clock=clock).run_once()
"""


@pytest.fixture
def slack():
    with SlackReceiver() as receiver:
        yield receiver


@pytest.fixture
def mail():
    with MailReceiver() as receiver:
        yield receiver


def open_incident(store, settings):
    with store.write() as connection:
        decide(
            connection, [make_verdict(Status.CRITICAL, NOW)], now=NOW, timers=AT_ONCE,
            channels=recipients_of(channels_from(settings)),
        )  # fmt: skip


def kill_a_dispatcher(store, point, **environ):
    url = store.engine.url.render_as_string(hide_password=False)
    variables = {f"GROUNDWATCH_{name.upper()}": value for name, value in environ.items()}
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, url, NOW.isoformat(), point],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **variables},
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert victim.returncode == -9, victim.stderr.decode()


def dispatch(store, settings, seconds):
    now = NOW + timedelta(seconds=seconds)
    Dispatcher(store, channels_from(settings), random.Random(1), clock=lambda: now).run_once()


@pytest.mark.parametrize(("point", "arrivals"), [("before", 1), ("after", 2)])
def test_slack_gets_the_message_under_one_id(store, slack, point, arrivals):
    settings = Settings(slack_webhook_url=slack.url)
    open_incident(store, settings)
    kill_a_dispatcher(store, point, slack_webhook_url=slack.url)
    dispatch(store, settings, 59)  # the dead one's lease still runs
    assert len(slack.messages) == arrivals - 1
    dispatch(store, settings, 61)
    dispatch(store, settings, 200)
    ids = [message["blocks"][-1]["block_id"] for message in slack.messages]
    assert (len(ids), len(set(ids))) == (arrivals, 1)


def test_mail_is_repeated_under_one_message_id(store, mail):
    settings = Settings(smtp_url=mail.url, email_to="ann@example.org")
    open_incident(store, settings)
    kill_a_dispatcher(store, "after", smtp_url=mail.url, email_to="ann@example.org")
    dispatch(store, settings, 61)
    assert len(mail.messages) == 2
    assert len({message["Message-ID"] for message in mail.messages}) == 1
