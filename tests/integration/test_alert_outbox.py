"""Lanes, leases, tokens and merging, on both databases; nothing is sent here."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from alerts import outbox, queries
from alerts.channels.base import ChannelRate
from alerts.decide import decide
from alerts.routing import Recipient
from alerts.state import Timers
from monitor.errors import DeliveryError
from monitor.models.alerting import AlertEvent, DeliveryStatus
from monitor.models.status import Status
from monitor.store.alert_tables import alert_channels
from monitor.store.alert_tables import outbox as outbox_table
from monitor.store.engine import database_now
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
FIRED, ESCALATED, RESOLVED = AlertEvent.FIRED, AlertEvent.ESCALATED, AlertEvent.RESOLVED
SLACK = [Recipient("slack")]
FAST = ChannelRate(per_minute=6000, burst=1000)
LATER = DeliveryError("busy", code="http_503")
NEVER = DeliveryError("gone", code="no_service", transient=False)


@pytest.fixture
def tell(store):
    """Decide on statuses, a second apart, from NOW on."""
    passed_s = 0

    def decide_all(*statuses, channels=SLACK, app="support-bot"):
        nonlocal passed_s
        for status in statuses:
            at = NOW + timedelta(seconds=passed_s)
            passed_s += 1
            with store.write() as connection:
                verdict = make_verdict(status, at, app=app)
                decide(connection, [verdict], now=at, timers=AT_ONCE, channels=channels)

    return decide_all


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def claim(store, seconds, limit=10, channels=("email", "slack")):
    """Return what dispatchers take that work side by side."""
    each = (name for name in channels for _ in range(limit))
    return [item for name in each if (item := outbox.claim(store, at(seconds), 60, name, FAST))]


def deliveries(store):
    with store.read() as connection:
        return {item.event: item for item in queries.deliveries(connection)}


def test_claimed_message_is_not_claimed_again(store, tell):
    tell(Status.CRITICAL)
    assert len(claim(store, 10)) == 1
    assert claim(store, 10) == []


def test_message_is_claimed_again_after_its_lease_expired(store, tell):
    tell(Status.CRITICAL)
    (first,) = claim(store, 10)
    (second,) = claim(store, 71)
    assert second.delivery_id == first.delivery_id
    assert (second.attempt, second.possible_duplicate) == (2, True)


def test_token_bucket_fills_to_its_burst_and_survives_a_clock_set_back(store):
    row = {"channel": "slack", "tokens": 1.0, "tokens_at": NOW}
    with store.write() as connection:
        connection.execute(alert_channels.insert(), [row])
    rate = ChannelRate(per_minute=30, burst=5)
    with store.read() as connection:
        held = [outbox.tokens(connection, "slack", rate, at(s)) for s in (2, 100, -100)]
    assert held == [2.0, 5.0, 1.0]


def test_expired_claim_cannot_finish_a_message(store, tell):
    tell(Status.CRITICAL)
    (first,) = claim(store, 10)
    claim(store, 71)
    assert not outbox.finish_sent(store, first, at(72))
    assert outbox.finish_failed(store, first, at(72), NEVER, 0) is None
    assert deliveries(store)[FIRED].status is DeliveryStatus.WAITING


def test_resolved_message_waits_while_fired_is_being_sent(store, tell):
    tell(Status.CRITICAL)
    (fired,) = claim(store, 10)
    tell(Status.HEALTHY)
    assert claim(store, 11) == []
    outbox.finish_sent(store, fired, at(12))
    (resolved,) = claim(store, 12)
    assert resolved.tells == {RESOLVED}


def test_other_recipients_do_not_wait(store, tell):
    tell(Status.CRITICAL, channels=[Recipient("email", "a@b.c"), Recipient("email", "d@e.f")])
    assert {item.recipient for item in claim(store, 10)} == {"a@b.c", "d@e.f"}


def test_fire_and_resolve_become_one_message_when_both_wait(store, tell):
    tell(Status.CRITICAL, Status.HEALTHY)
    (item,) = claim(store, 10)
    assert item.tells == {FIRED, RESOLVED}
    found = deliveries(store)
    assert found[FIRED].status is DeliveryStatus.MERGED
    assert found[FIRED].merged_into == item.delivery_id == found[RESOLVED].delivery_id


def test_fire_and_escalation_become_one_critical_when_both_wait(store, tell):
    tell(Status.WARNING, Status.CRITICAL)
    (item,) = claim(store, 10)
    assert FIRED in item.tells
    assert item.snapshot["level"] == "critical"


def test_message_merged_after_a_failure_has_a_new_id(store, tell):
    tell(Status.CRITICAL)
    (fired,) = claim(store, 10)
    outbox.finish_failed(store, fired, at(11), LATER, 5)
    tell(Status.HEALTHY)
    (both,) = claim(store, 20)
    assert both.delivery_id != fired.delivery_id
    assert (both.attempt, both.possible_duplicate) == (2, False)


def test_resolved_message_mentions_the_fired_message_that_never_arrived(store, tell):
    tell(Status.CRITICAL)
    (fired,) = claim(store, 10)
    outbox.finish_failed(store, fired, at(11), NEVER, 0)
    tell(Status.HEALTHY)
    (item,) = claim(store, 20)
    assert item.tells == {FIRED, RESOLVED}


def test_failed_message_waits_for_its_delay(store, tell):
    tell(Status.CRITICAL)
    (item,) = claim(store, 10)
    outbox.finish_failed(store, item, at(10), LATER, 15)
    assert claim(store, 24) == []
    assert claim(store, 25)[0].attempt == 2


def test_permanently_refused_message_is_a_dead_letter_at_once(store, tell):
    tell(Status.CRITICAL)
    outbox.finish_failed(store, claim(store, 10)[0], at(10), NEVER, 5)
    found = deliveries(store)[FIRED]
    assert (found.status, found.error_code) == (DeliveryStatus.DEAD, "no_service")


def test_delivery_gives_up_after_a_day(store, tell):
    tell(Status.CRITICAL)
    (item,) = claim(store, 86_399)
    assert outbox.finish_failed(store, item, at(86_400), LATER, 5) is DeliveryStatus.DEAD
    assert deliveries(store)[FIRED].error_code == "gave_up_after_24h:http_503"


def test_error_can_shorten_the_time_until_giving_up(store, tell):
    tell(Status.CRITICAL)
    stranger = DeliveryError("?", code="http_302", give_up_after_s=3600)
    (item,) = claim(store, 10)
    assert outbox.finish_failed(store, item, at(3599), stranger, 5) is DeliveryStatus.WAITING
    (item,) = claim(store, 3700)
    assert outbox.finish_failed(store, item, at(3700), stranger, 5) is DeliveryStatus.DEAD
    assert deliveries(store)[FIRED].error_code == "gave_up_after_1h:http_302"


def test_retry_time_below_an_hour_is_not_shown_as_zero(store, tell):
    tell(Status.CRITICAL)
    stranger = DeliveryError("?", code="http_302", give_up_after_s=1800)
    (item,) = claim(store, 2000)
    outbox.finish_failed(store, item, at(2000), stranger, 5)
    assert deliveries(store)[FIRED].error_code == "gave_up_after_30min:http_302"


def test_ambiguous_failure_marks_a_possible_duplicate(store, tell):
    tell(Status.CRITICAL)
    error = DeliveryError("?", code="timeout", ambiguous=True)
    outbox.finish_failed(store, claim(store, 10)[0], at(10), error, 1)
    assert claim(store, 20)[0].possible_duplicate


def test_retry_after_pauses_the_whole_channel(store, tell):
    tell(Status.CRITICAL, channels=[*SLACK, Recipient("email", "a@b.c")])
    tell(Status.CRITICAL, app="other", channels=SLACK)
    (item,) = claim(store, 10, limit=1, channels=["slack"])
    slow_down = DeliveryError("slow", code="rate_limited", retry_after_s=30)
    outbox.finish_failed(store, item, at(10), slow_down, 1)
    assert {found.channel for found in claim(store, 39)} == {"email"}
    assert len(claim(store, 40, channels=["slack"])) == 2


def test_critical_messages_go_first(store, tell):
    tell(Status.WARNING, app="first")
    tell(Status.CRITICAL, app="second")
    assert claim(store, 10, limit=1)[0].snapshot["verdict"]["app"] == "second"


def test_message_for_an_unknown_channel_is_given_up_after_a_day(store, tell):
    tell(Status.CRITICAL)
    assert outbox.give_up_undeliverable(store, at(86_399), ["email"]) == 0
    assert outbox.give_up_undeliverable(store, at(86_400), ["email"]) == 1
    assert deliveries(store)[FIRED].error_code == "channel_not_configured"


def test_message_that_kills_dispatchers_is_given_up_after_a_day(store, tell):
    tell(Status.CRITICAL)
    for attempt in range(5):
        claim(store, 86_000 + 61 * attempt)
    assert outbox.give_up_undeliverable(store, at(90_000), ["slack"]) == 1
    assert deliveries(store)[FIRED].error_code == "dispatcher_died"


def test_outbox_row_can_hold_every_event_at_once(store, tell):
    tell(Status.WARNING, Status.CRITICAL)
    with store.write() as connection:
        fired = outbox_table.c.event == FIRED
        tells = "+".join(AlertEvent)
        connection.execute(update(outbox_table).where(fired).values(tells=tells))
    (item,) = claim(store, 10)
    assert item.tells == set(AlertEvent)
    (again,) = claim(store, 71)
    assert again.tells == set(AlertEvent)


def test_unreadable_message_is_still_claimed(store, tell):
    tell(Status.CRITICAL)
    with store.write() as connection:
        connection.execute(update(outbox_table).values(snapshot={}, tells="unheard_of"))
    (item,) = claim(store, 10)
    assert (item.snapshot, "unheard_of" in item.tells) == ({}, True)


def test_due_time_and_lease_use_the_database_clock(store):
    fast = datetime.now(UTC) + timedelta(hours=1)
    with store.write() as connection:
        verdicts = [make_verdict(Status.CRITICAL, fast)]
        decide(connection, verdicts, now=fast, timers=AT_ONCE, channels=SLACK)
        before = database_now(connection)
    item = outbox.claim(store, None, 60, "slack", FAST)
    with store.read() as connection:
        after = database_now(connection)
    minute = timedelta(seconds=60)
    assert before + minute <= item.lease_until <= after + minute
    assert outbox.claim(store, None, 60, "slack", FAST) is None
    assert outbox.finish_failed(store, item, None, LATER, 0) is DeliveryStatus.WAITING
    again = outbox.claim(store, None, 60, "slack", FAST)
    assert outbox.finish_sent(store, again, None)
    assert before <= deliveries(store)[FIRED].finished_at < fast
