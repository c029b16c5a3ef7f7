"""How often each key fired, and whether anybody did something about it."""

from datetime import UTC, datetime, timedelta

import pytest

from alerts.decide import decide
from alerts.queries import noise_since, open_incidents
from alerts.routing import Recipient, RoutingConfig
from alerts.state import Timers
from alerts.store import acknowledge
from monitor.models.status import Status
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
H, W, C = Status.HEALTHY, Status.WARNING, Status.CRITICAL


@pytest.fixture
def tell(store):
    """Decide on the status of one metric at a minute."""

    def tell(minute, status, metric="groundedness"):
        now = NOW + timedelta(minutes=minute)
        with store.write() as connection:
            decide(
                connection, [make_verdict(status, now, app="bot", metric=metric)], now=now,
                timers=AT_ONCE, channels=RoutingConfig.everyone([Recipient("slack")]),
            )  # fmt: skip

    return tell


def noise(store, minute=600):
    with store.read() as connection:
        found = noise_since(connection, NOW, NOW + timedelta(minutes=minute))
    return {item.key.metric: item for item in found}


def test_short_alerts_are_distinguished_from_lasting_ones(store, tell):
    for minute, status in ((0, C), (4, H), (100, C), (160, H)):
        tell(minute, status)
    found = noise(store)["groundedness"]
    assert (found.fired, found.by_itself, found.short, found.acted_on) == (2, 2, 1, 0)
    assert found.longest == timedelta(minutes=60)


def test_acknowledged_alert_is_not_counted_as_noise(store, tell):
    tell(0, C)
    with store.write() as connection:
        (incident,) = open_incidents(connection)
        until = NOW + timedelta(hours=8)
        acknowledge(connection, incident.group_id, by="ann", note="", now=NOW, until=until)
    tell(4, H)
    found = noise(store)["groundedness"]
    assert (found.acted_on, found.by_itself, found.short) == (1, 0, 0)


def test_noisiest_key_is_first_and_an_open_alert_counts_as_open(store, tell):
    tell(0, W, "relevance")
    for minute, status in ((1, C), (3, H), (120, C), (123, H)):
        tell(minute, status)
    found = noise(store)
    assert list(found) == ["groundedness", "relevance"]
    assert (found["relevance"].still_open, found["relevance"].by_itself) == (1, 0)


def test_alerts_before_the_period_are_not_counted(store, tell):
    tell(-60, C)
    assert noise(store) == {}
