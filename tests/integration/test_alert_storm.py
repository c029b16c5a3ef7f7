"""Many messages at once: rates, digests, fallback channels; bounded, and nothing is dropped."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from alerts import outbox, queries
from alerts.channels.base import Channel, ChannelRate, Receipt
from alerts.decide import decide
from alerts.dispatch import Dispatcher
from alerts.outbox import MOST_AN_HOUR, MOST_CRITICAL_AN_HOUR, outbox_row, waiting_row
from alerts.routing import Recipient, Route, RoutingConfig, parse_all
from alerts.state import Timers
from monitor.errors import DeliveryError
from monitor.models.alerting import DIGEST, DeliveryStatus, Severity
from monitor.models.status import Status
from monitor.testing import make_verdict
from support.sent_messages import messages

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)


class Wire(Channel):
    """A channel that takes everything, unless it is told to refuse; it remembers what came."""

    timeout_s = 5.0

    def __init__(self, name="slack"):
        self.name, self.addresses = name, ("",)
        self.rate = ChannelRate(per_minute=6000, burst=1000)
        self.messages, self.refusal = [], None

    def send(self, message, delivery_id):
        if self.refusal is not None:
            raise self.refusal
        self.messages.append(message)
        return Receipt(answer="taken")


class World:
    def __init__(self, store):
        self.store, self.now = store, NOW
        self.wire, self.other = Wire(), Wire("mail")
        self.plan = RoutingConfig.everyone([Recipient("slack")])

    def tell(self, status, *apps, after_s=1.0):
        self.now += timedelta(seconds=after_s)
        verdicts = [make_verdict(status, self.now, app=app) for app in apps]
        with self.store.write() as connection:
            decide(connection, verdicts, now=self.now, timers=AT_ONCE, channels=self.plan)

    def dispatch(self, after_s=0.0, limit=1000):
        self.now += timedelta(seconds=after_s)
        channels = {"slack": self.wire, "mail": self.other}
        return Dispatcher(
            self.store, channels, random.Random(1), clock=lambda: self.now, limit=limit
        ).run_once()

    def counts(self):
        with self.store.read() as connection:
            return queries.outbox_counts(connection)


@pytest.fixture
def world(store):
    return World(store)


def names(n):
    return [f"app-{number:03}" for number in range(n)]


def test_channel_gets_no_more_than_its_rate(world):
    world.wire.rate = ChannelRate(per_minute=60, burst=5)
    world.tell(Status.CRITICAL, *names(12))
    assert world.dispatch() == {"sent": 5}
    assert world.dispatch() == {}
    assert world.dispatch(after_s=3) == {"sent": 3}
    assert world.dispatch(after_s=100) == {"sent": 4}


def test_rate_is_shared_by_all_dispatchers(world):
    world.tell(Status.CRITICAL, *names(12))
    rate = ChannelRate(per_minute=60, burst=4)
    taken = [outbox.claim(world.store, world.now, 60, "slack", rate) for _ in range(9)]
    assert [each is not None for each in taken] == [True] * 4 + [False] * 5


def test_storm_ends_in_a_digest_and_nothing_is_dropped(world):
    world.tell(Status.WARNING, *names(100))
    world.dispatch()
    assert len(world.wire.messages) == MOST_AN_HOUR
    world.dispatch(after_s=300)
    assert len(world.wire.messages) == MOST_AN_HOUR
    world.dispatch(after_s=600)
    (digest,) = world.wire.messages[MOST_AN_HOUR:]
    lines = [text for label, text in digest.facts if label == "And"]
    assert "more incidents" in lines[-1]
    more = int(lines[-1].split()[0])
    assert MOST_AN_HOUR + 1 + len(lines) - 1 + more == 100
    counts = world.counts()
    assert counts[DeliveryStatus.WAITING] == counts[DeliveryStatus.DEAD] == 0
    assert counts[DeliveryStatus.SENT] + counts[DeliveryStatus.MERGED] == 100


def test_critical_messages_go_first_up_to_a_higher_limit(world):
    world.tell(Status.WARNING, *names(40))
    world.tell(Status.CRITICAL, *(f"critical-{n}" for n in range(100)))
    world.dispatch()
    words = [message.word for message in world.wire.messages]
    assert words == ["CRITICAL"] * MOST_CRITICAL_AN_HOUR
    world.dispatch(after_s=900)
    assert len(world.wire.messages) == MOST_CRITICAL_AN_HOUR + 1
    assert world.wire.messages[-1].word == "CRITICAL"
    assert world.counts()[DeliveryStatus.WAITING] == 0


@pytest.mark.parametrize("status", [Status.WARNING, Status.CRITICAL])
def test_daily_digest_is_sent_during_a_storm(world, status):
    world.tell(status, *names(100))
    world.dispatch()
    with world.store.write() as connection:
        row = waiting_row(
            ("digest:daily", 1), DIGEST, Severity.WARNING, {}, Recipient("slack"), now=world.now
        )
        connection.execute(insert(outbox.outbox), [row])
    claimed = outbox.claim(world.store, world.now, 60, "slack", world.wire.rate)
    assert claimed.tells == {DIGEST}


def test_alert_sent_in_a_digest_is_resolved_like_the_rest(world):
    world.tell(Status.WARNING, *names(40))
    world.dispatch()
    world.dispatch(after_s=900)
    world.tell(Status.HEALTHY, *names(40))
    world.dispatch(after_s=3600)
    world.dispatch(after_s=900)
    resolved = [message for message in world.wire.messages if message.word == "RESOLVED"]
    assert sum(1 + and_lines(message) for message in resolved) == 40
    assert not any("may not have reached you" in message.text for message in resolved)


def test_failed_digest_is_retried_whole(world):
    world.tell(Status.WARNING, *names(40))
    world.dispatch()
    world.wire.refusal = DeliveryError("busy", code="http_503")
    assert world.dispatch(after_s=900) == {"retry": 1}
    world.tell(Status.HEALTHY, *names(40), after_s=10)  # the retry is due first
    world.wire.refusal = None
    before = len(world.wire.messages)
    world.dispatch(after_s=3600)
    assert 9 in [and_lines(message) for message in world.wire.messages[before:]]
    world.dispatch(after_s=900)
    assert world.counts()[DeliveryStatus.WAITING] == 0


def and_lines(message):
    """Count the other incidents that a message tells of."""
    return sum(label == "And" for label, _ in message.facts)


def with_fallback(matchers=()):
    route = Route(name="r", channels=("slack",), fallback="mail", matchers=parse_all(matchers))
    return RoutingConfig(routes=[route], addresses={"slack": ("",), "mail": ("",)})


def test_permanently_refused_message_goes_to_the_fallback(world):
    world.plan = with_fallback()
    world.tell(Status.WARNING, "shop")
    world.wire.refusal = DeliveryError("gone", code="no_service", transient=False)
    assert world.dispatch() == {"dead": 1}
    assert world.dispatch() == {"sent": 1}
    (message,) = world.other.messages
    assert "sent here because the channel slack takes no messages" in message.text
    assert world.dispatch() == {}


def test_critical_message_goes_to_the_fallback_after_five_minutes(world):
    world.plan = with_fallback()
    world.tell(Status.WARNING, "warns")
    world.tell(Status.CRITICAL, "burns")
    world.wire.refusal = DeliveryError("busy", code="http_503", retry_after_s=3600)
    world.dispatch()
    world.dispatch(after_s=240)
    assert world.other.messages == []
    world.dispatch(after_s=120)
    assert [message.app for message in world.other.messages] == ["burns"]


def test_fallback_recipient_gets_the_resolved_message_too(world):
    world.plan = with_fallback()
    world.tell(Status.CRITICAL, "shop")
    world.wire.refusal = DeliveryError("gone", code="no_service", transient=False)
    world.dispatch()
    world.dispatch()
    world.tell(Status.HEALTHY, "shop")
    world.dispatch()
    assert [message.word for message in world.other.messages] == ["CRITICAL", "RESOLVED"]


def test_escalation_goes_to_its_route_and_to_the_first_recipients(world):
    pages = Route(name="p", channels=("mail",), matchers=parse_all(["severity=critical"]))
    rest = Route(name="d", channels=("slack",))
    world.plan = RoutingConfig(routes=[pages, rest], addresses={"slack": ("",), "mail": ("",)})
    for status in (Status.WARNING, Status.CRITICAL, Status.HEALTHY):
        world.tell(status, "shop")
        world.dispatch()
    assert [m.word for m in world.wire.messages] == ["WARNING", "NOW CRITICAL", "RESOLVED"]
    assert [m.word for m in world.other.messages] == ["CRITICAL", "RESOLVED"]


def test_channel_rate_limit_survives_a_clock_set_back(world):
    world.wire.rate = ChannelRate(per_minute=60, burst=2)
    world.tell(Status.CRITICAL, *names(6))
    assert world.dispatch() == {"sent": 2}
    world.now -= timedelta(hours=1)
    assert world.dispatch() == {}


def test_outbox_rows_of_one_message_share_its_content(world):
    world.tell(Status.CRITICAL, "shop")
    with world.store.write() as connection:
        (snapshot,) = messages(connection)
        to = Recipient("mail", "x@y.z")
        row = outbox_row(snapshot, to, None, now=NOW, due_at=NOW)
        connection.execute(insert(outbox.outbox), [row])
        assert len(messages(connection)) == 1
