"""From the outbox to real receivers: once each, in order, whatever the channels do."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from alerts import queries
from alerts.channels.base import Channel
from alerts.decide import decide
from alerts.dispatch import Dispatcher, channels_from, recipients_of
from alerts.state import Timers
from monitor.models.alerting import DeliveryStatus
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.alert_tables import incidents, outbox
from monitor.store.engine import Store
from monitor.testing import make_verdict
from support.receivers import MailAnswer, MailReceiver, SlackAnswer, SlackReceiver

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)


class World:
    """A store, a Slack and a mail server, and a clock that tests move."""

    def __init__(self, store, slack, mail):
        self.store, self.slack, self.mail, self.now = store, slack, mail, NOW
        self.settings = Settings(
            slack_webhook_url=slack.url,
            smtp_url=mail.url,
            email_to="ann@example.org,bob@example.org",
            email_from="gw@example.org",
            delivery_timeout_s=60,
        )

    def tell(self, *statuses, app="support-bot"):
        for status in statuses:
            self.now += timedelta(seconds=1)
            with self.store.write() as connection:
                verdict = make_verdict(status, self.now, app=app)
                decide(
                    connection, [verdict], now=self.now, timers=AT_ONCE,
                    channels=recipients_of(channels_from(self.settings)),
                )  # fmt: skip

    def dispatch(self, store=None, may_go_on=lambda: True):
        channels = channels_from(self.settings)
        dispatcher = Dispatcher(
            store or self.store, channels, random.Random(1), clock=lambda: self.now
        )
        return dispatcher.run_once(may_go_on)

    def later(self, seconds):
        self.now += timedelta(seconds=seconds)

    def statuses(self):
        with self.store.read() as connection:
            return queries.outbox_counts(connection)


@pytest.fixture
def world(store):
    with SlackReceiver() as slack, MailReceiver() as mail:
        yield World(store, slack, mail)


def subjects(slack):
    return [message["blocks"][0]["text"]["text"].partition(":")[0] for message in slack.messages]


def test_fired_and_resolved_arrive_once_each_everywhere(world):
    for status in (Status.CRITICAL, Status.HEALTHY):
        world.tell(status)
        world.dispatch()
        world.dispatch()
    assert subjects(world.slack) == ["CRITICAL", "RESOLVED"]
    assert sorted(mail["To"] for mail in world.mail.messages) == [
        "ann@example.org", "ann@example.org", "bob@example.org", "bob@example.org"
    ]  # fmt: skip
    assert world.statuses()[DeliveryStatus.SENT] == 6


def test_counts_say_how_each_message_ended(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.NO_SERVICE)
    world.mail.script(MailAnswer.OK, MailAnswer.LATER)
    assert world.dispatch() == {"dead": 1, "sent": 1, "retry": 1}


@pytest.mark.parametrize("answer", [MailAnswer.REFUSED, MailAnswer.LATER])
def test_refused_recipient_does_not_delay_the_other(world, answer):
    world.tell(Status.CRITICAL)
    world.mail.script(answer)
    world.dispatch()
    assert [mail["To"] for mail in world.mail.messages] == ["bob@example.org"]


def test_mail_deferred_by_the_server_arrives_once(world):
    world.tell(Status.CRITICAL)
    world.mail.script(MailAnswer.LATER)
    for _ in range(4):
        world.dispatch()
        world.later(60)
    arrived = [mail["To"] for mail in world.mail.messages]
    assert arrived == ["bob@example.org", "ann@example.org"]


def test_events_during_a_channel_outage_become_one_message(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.SERVER_ERROR)
    world.dispatch()
    world.tell(Status.HEALTHY)
    world.later(10)
    world.dispatch()
    (message,) = world.slack.messages
    assert message["text"].startswith("[RESOLVED]")
    assert "may not have reached you" in str(message["blocks"])


def test_retry_after_is_obeyed_for_the_whole_channel(world):
    for number in range(4):
        world.tell(Status.CRITICAL, app=f"app-{number}")
    world.slack.script(SlackAnswer.RATE_LIMITED)
    world.dispatch()
    world.later(29)
    world.dispatch()
    assert len(world.slack.requests) == 1
    world.later(1)
    world.dispatch()
    assert len(world.slack.messages) == 4


def test_ambiguous_message_is_repeated_under_its_id_and_says_so(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.DROP)
    world.dispatch()
    world.later(10)
    world.dispatch()
    first, second = world.slack.messages
    assert first["blocks"][-1]["block_id"] == second["blocks"][-1]["block_id"]
    assert "may repeat" in str(second)
    assert "may repeat" not in str(first)


def test_failing_channel_is_skipped_until_the_next_run(world):
    for number in range(9):
        world.tell(Status.CRITICAL, app=f"app-{number}")
    world.slack.script(*[SlackAnswer.SERVER_ERROR] * 9)
    world.dispatch()
    assert len(world.slack.requests) == 3


def test_channel_health_is_stored(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.RATE_LIMITED)
    world.dispatch()
    with world.store.read() as connection:
        health = {found.channel: found for found in queries.channel_health(connection)}
    assert health["email"].last_success_at == world.now
    assert health["slack"].last_error_code == "rate_limited"
    assert health["slack"].paused_until == world.now + timedelta(seconds=30)


def test_hanging_channel_does_not_delay_the_others(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.HANG)
    world.settings = world.settings.model_copy(update={"delivery_timeout_s": 3})
    assert world.dispatch() == {"retry": 1, "sent": 2}


def test_message_without_a_channel_is_kept_and_later_given_up(world):
    world.tell(Status.CRITICAL)
    world.settings = Settings()
    assert world.dispatch() == {}
    world.later(86_401)
    assert world.dispatch() == {"dead": 3}


def test_unexpected_error_is_retried_and_named(world):
    class Broken(Channel):
        name, addresses, timeout_s = "slack", ("",), 1.0

        def send(self, message, delivery_id):
            raise KeyError("https://hooks.example.org/secret")

    world.tell(Status.CRITICAL)
    channels = {"slack": Broken()}
    counts = Dispatcher(world.store, channels, random.Random(1), clock=lambda: world.now).run_once()
    with world.store.read() as connection:
        (found,) = [d for d in queries.deliveries(connection) if d.channel == "slack"]
    assert counts == {"retry": 1}
    assert found.error_code == "unexpected:KeyError"


def slack_only(world):
    world.settings = Settings(slack_webhook_url=world.slack.url)


def errors(world):
    with world.store.read() as connection:
        return {d.error_code for d in queries.deliveries(connection) if d.error_code}


def change(world, app, **values):
    """Change what is stored of the messages about *app*."""
    with world.store.write() as connection:
        about = select(incidents.c.incident_id).where(incidents.c.app == app)
        mine = outbox.c.incident_id.in_(about)
        connection.execute(update(outbox).where(mine).values(**values))


@pytest.mark.parametrize("values", [{"snapshot": {"secret": 1}}, {"tells": "unheard_of"}])
def test_unreadable_message_does_not_delay_others(world, values):
    slack_only(world)
    for app in ("first", "second"):
        world.tell(Status.CRITICAL, app=app)
    change(world, "first", **values)
    assert world.dispatch() == {"dead": 1, "sent": 1}
    assert errors(world) == {"unreadable_snapshot"}
    assert words_about(world.slack, "second") == ["CRITICAL"]


def test_message_that_cannot_be_rendered_was_never_sent(world, monkeypatch):
    slack_only(world)
    world.tell(Status.CRITICAL)
    monkeypatch.delattr("alerts.message.facts_of")
    assert world.dispatch() == {"retry": 1}
    assert errors(world) == {"rendering:NameError"}
    with world.store.read() as connection:
        assert not queries.deliveries(connection)[0].possible_duplicate


def test_stopped_dispatcher_ends_before_the_next_message(world):
    slack_only(world)
    for number in range(3):
        world.tell(Status.CRITICAL, app=f"app-{number}")
    asked = iter([True, False])
    assert world.dispatch(may_go_on=lambda: next(asked)) == {"sent": 1}
    assert world.dispatch() == {"sent": 2}


def test_dispatcher_without_a_clock_uses_the_database_time(world):
    slack_only(world)
    world.now = datetime.now(UTC) + timedelta(hours=1)
    world.tell(Status.CRITICAL)
    dispatcher = Dispatcher(world.store, channels_from(world.settings), random.Random(1))
    assert dispatcher.run_once() == {"sent": 1}


def race(world, start, rounds=3):
    """Dispatch with connections of its own."""
    store = Store(world.store.engine.url.render_as_string(hide_password=False))
    start.wait()
    for _ in range(rounds):
        world.dispatch(store)
    store.close()


def words_about(slack, app):
    about = [message["text"] for message in slack.messages if f"{app} ·" in message["text"]]
    return [text[1:].partition("]")[0] for text in about]


def test_racing_dispatchers_send_each_message_once_in_order(world):
    apps = [f"app-{number}" for number in range(15)]
    for app in apps:
        world.tell(Status.WARNING, app=app)
    start = threading.Barrier(4)
    with ThreadPoolExecutor(3) as pool:
        racers = [pool.submit(race, world, start) for _ in range(3)]
        start.wait()
        for app in apps:
            world.tell(Status.HEALTHY, app=app)
        for racer in racers:
            racer.result()
    for _ in range(20):  # where the racers sent much, the channel's rate makes the rest wait
        world.dispatch()
        if not world.statuses()[DeliveryStatus.WAITING]:
            break
        world.later(60)
    ids = [message["blocks"][-1]["block_id"] for message in world.slack.messages]
    assert len(ids) == len(set(ids))
    told = {app: words_about(world.slack, app) for app in apps}
    assert all(words in (["WARNING", "RESOLVED"], ["RESOLVED"]) for words in told.values()), told
    assert world.statuses()[DeliveryStatus.WAITING] == 0
