"""Verdicts become incidents, timeline and outbox in one transaction, on both databases."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from alerts import queries
from alerts.conditions import BLIND
from alerts.decide import decide
from alerts.model import AlertKey
from alerts.routing import Recipient
from alerts.state import Timers
from alerts.store import load, save
from monitor.models.alerting import AlertEvent, DeliveryStatus, Severity
from monitor.models.status import Status
from monitor.store.alert_tables import alert_states, outbox
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
CHANNELS = [Recipient("slack"), Recipient("email", "ann@example.org")]
KEY = AlertKey("support-bot", "groundedness", "*", 3600)


def tell(store, status, now, **options):
    """Decide on one verdict in a transaction of its own."""
    with store.write() as connection:
        return decide(
            connection,
            [make_verdict(status, now)],
            now=now,
            timers=AT_ONCE,
            channels=CHANNELS,
            **options,
        )


@pytest.fixture
def incident(store):
    return tell(store, Status.CRITICAL, NOW)[0].incident_id


def test_incident_opens_when_a_breach_fires(store, incident):
    with store.read() as connection:
        (found,) = queries.open_incidents(connection)
    assert (found.incident_id, found.level, found.opened_at) == (incident, Severity.CRITICAL, NOW)
    assert found.is_open


def test_every_recipient_gets_its_own_message(store, incident):
    with store.read() as connection:
        found = queries.deliveries(connection, incident_id=incident)
    assert {(item.channel, item.recipient) for item in found} == {
        ("slack", ""),
        ("email", "ann@example.org"),
    }
    assert len({item.delivery_id for item in found}) == 2


def test_incident_closes_when_it_resolves(store, incident):
    later = NOW + timedelta(minutes=5)
    tell(store, Status.HEALTHY, later)
    with store.read() as connection:
        assert queries.open_incidents(connection) == []
        (found,) = queries.incidents_since(connection, NOW)
    assert (found.resolved_at, found.sequence) == (later, 2)


def test_timeline_records_every_step_of_the_incident(store):
    statuses = [Status.WARNING, Status.CRITICAL, Status.WARNING, Status.HEALTHY]
    for minute, status in enumerate(statuses):
        (event,) = tell(store, status, NOW + timedelta(minutes=minute))
    with store.read() as connection:
        story = [s.timeline_event() for s in queries.snapshots(connection, event.incident_id)]
    assert [line.event.value for line in story] == [
        "fired", "escalated", "deescalated", "resolved"
    ]  # fmt: skip
    assert [line.sequence for line in story] == [1, 2, 3, 4]
    assert story[1].previous_level is Severity.WARNING


def test_deescalation_sends_no_message(store, incident):
    tell(store, Status.WARNING, NOW + timedelta(minutes=1))
    with store.read() as connection:
        events = {item.event for item in queries.deliveries(connection)}
    assert events == {AlertEvent.FIRED}


def test_repeated_verdict_adds_no_message(store, incident):
    assert tell(store, Status.CRITICAL, NOW) == []
    with store.read() as connection:
        assert queries.outbox_counts(connection)[DeliveryStatus.WAITING] == 2


def decide_and_fail(store):
    with store.write() as connection:
        verdicts = [make_verdict(Status.CRITICAL, NOW)]
        decide(connection, verdicts, now=NOW, timers=AT_ONCE, channels=CHANNELS)
        raise RuntimeError


def test_failed_transaction_leaves_nothing_behind(store):
    with pytest.raises(RuntimeError):
        decide_and_fail(store)
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(alert_states)).scalar() == 0
        assert connection.execute(select(func.count()).select_from(outbox)).scalar() == 0


def test_evidence_is_frozen_with_the_worst_samples(store):
    def said(app, metric, evaluator_version):
        return ("a\x1b[31m claim", "", "two\nlines") if (app, metric) == KEY[:2] else ()

    (event,) = tell(store, Status.CRITICAL, NOW, worst_of=said)
    with store.read() as connection:
        (snapshot,) = queries.snapshots(connection, event.incident_id)
    assert snapshot.samples == ("a[31m claim", "two lines")
    assert snapshot.verdict.pass_rate == pytest.approx(0.62)


def test_worst_samples_are_not_queried_without_an_event(store, incident):
    def unasked(**key):
        raise AssertionError(key)

    assert tell(store, Status.CRITICAL, NOW + timedelta(minutes=1), worst_of=unasked) == []


def test_overtaken_decider_writes_nothing(store, incident):
    with store.write() as connection:
        ((state, version, _),) = load(connection, {KEY.app}, NOW).values()
        assert save(connection, [(state, version)], NOW) == [True]
        assert save(connection, [(state, version)], NOW) == [False]


def test_one_of_several_deciders_fires_when_all_decide_at_once(store):
    start = threading.Barrier(4)

    def decide_at_once(_):
        start.wait()
        return tell(store, Status.CRITICAL, NOW)

    with ThreadPoolExecutor(4) as pool:
        events = [event for found in pool.map(decide_at_once, range(4)) for event in found]
    assert len(events) == 1
    with store.read() as connection:
        assert queries.outbox_counts(connection)[DeliveryStatus.WAITING] == 2


def test_many_keys_are_decided_in_one_fast_transaction(store):
    verdicts = [make_verdict(Status.CRITICAL, NOW, app=f"app-{i}") for i in range(500)]
    with store.write() as connection:
        events = decide(connection, verdicts, now=NOW, timers=AT_ONCE, channels=CHANNELS)
    assert len(events) == 500


def test_blind_monitor_has_its_own_incident(store, incident):
    (fired,) = tell(store, Status.BLIND, NOW + timedelta(minutes=1))
    assert (fired.metric, fired.level) == (BLIND, Severity.WARNING)
    (resolved,) = tell(store, Status.CRITICAL, NOW + timedelta(minutes=2))
    assert (resolved.metric, resolved.event) == (BLIND, AlertEvent.RESOLVED)
    with store.read() as connection:
        assert [found.incident_id for found in queries.open_incidents(connection)] == [incident]


def test_monitor_that_was_never_blind_stores_no_state(store, incident):
    with store.read() as connection:
        assert connection.execute(select(alert_states.c.metric)).scalars().all() == [KEY.metric]


def decide_on_another_app(store, now):
    with store.write() as connection:
        verdicts = [make_verdict(Status.HEALTHY, now, app="other")]
        return decide(connection, verdicts, now=now, timers=AT_ONCE, channels=CHANNELS)


def test_incident_that_is_no_longer_evaluated_is_closed_after_a_day(store, incident):
    assert decide_on_another_app(store, NOW + timedelta(hours=23)) == []
    later = NOW + timedelta(hours=24)
    (event,) = decide_on_another_app(store, later)
    assert (event.incident_id, event.event) == (incident, AlertEvent.RESOLVED)
    assert event.reason == "no_longer_evaluated"
    with store.read() as connection:
        assert queries.open_incidents(connection) == []
        events = {item.event for item in queries.deliveries(connection)}
    assert events == {AlertEvent.FIRED, AlertEvent.RESOLVED}
    assert decide_on_another_app(store, later + timedelta(hours=25)) == []


def test_incident_is_not_closed_while_it_is_evaluated(store, incident):
    assert tell(store, Status.INSUFFICIENT_DATA, NOW + timedelta(hours=30)) == []
    assert decide_on_another_app(store, NOW + timedelta(hours=53)) == []


def test_closed_key_may_fire_again(store, incident):
    decide_on_another_app(store, NOW + timedelta(hours=24))
    (event,) = tell(store, Status.CRITICAL, NOW + timedelta(hours=25))
    assert event.event is AlertEvent.FIRED
    assert event.incident_id != incident


def test_unreadable_state_of_one_app_does_not_stop_the_others(store, incident):
    with store.write() as connection:
        connection.execute(update(alert_states).values(state={"phase": "from the future"}))
        later = NOW + timedelta(minutes=1)
        verdicts = [make_verdict(Status.CRITICAL, later, app=app) for app in (KEY.app, "other")]
        (event,) = decide(connection, verdicts, now=later, timers=AT_ONCE, channels=CHANNELS)
    assert event.app == "other"
