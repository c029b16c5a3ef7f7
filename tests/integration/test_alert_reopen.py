"""What fires again soon goes on in its incident and thread; what is judged again does not."""

from datetime import UTC, datetime, timedelta

import pytest

from alerts import queries
from alerts.conditions import JUDGE_CHANGED, verdicts_on
from alerts.decide import decide
from alerts.model import AlertThresholds
from alerts.routing import Recipient, RoutingConfig, parse_all
from alerts.silencing import add_silence
from alerts.state import Timers
from alerts.store import open_groups
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Status
from monitor.testing import make_verdict
from support.sent_messages import messages

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(
    warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600, monitor_for_s=3600
)
H, W, C = Status.HEALTHY, Status.WARNING, Status.CRITICAL
LINES = AlertThresholds(warning_rate=0.88, critical_rate=0.8)


class World:
    """A store in which verdicts are decided upon, minute by minute."""

    def __init__(self, store):
        self.store, self.plan = store, RoutingConfig.everyone([Recipient("slack")])

    def tell(self, minute, evaluator="g@1", lines=LINES, changed=(), **statuses):
        """Decide on the statuses of metrics, named metric or app__metric."""
        now = NOW + timedelta(minutes=minute)
        verdicts = []
        for name, status in statuses.items():
            app, _, metric = name.rpartition("__")
            verdicts.append(
                make_verdict(
                    status, now, app=app or "bot", metric=metric, evaluator_version=evaluator
                )
            )
        ill = {JUDGE_CHANGED: "from g@0"}
        for app in changed:  # the judge of these has changed
            verdicts += verdicts_on(app, ill, [JUDGE_CHANGED], window_s=3600, now=now)
        with self.store.write() as connection:
            return decide(
                connection, verdicts, now=now, timers=AT_ONCE, channels=self.plan, thresholds=lines
            )

    def messages(self):
        with self.store.read() as connection:
            return list(reversed(messages(connection)))

    def incidents(self):
        with self.store.read() as connection:
            return queries.incidents_since(connection, NOW)


@pytest.fixture
def world(store):
    return World(store)


def test_alert_refired_soon_is_sent_in_the_same_thread(world):
    for minute, status in enumerate((C, H, W)):
        world.tell(minute, a=status)
    fired, resolved, again = world.messages()
    assert fired.incident_id == resolved.incident_id == again.incident_id
    assert [m.sequence for m in (fired, resolved, again)] == [1, 2, 3]
    assert again.well_since == NOW + timedelta(minutes=1)


def test_reopened_incident_keeps_its_start_time_and_worst_level(world):
    for minute, status in enumerate((C, H, W, H)):
        world.tell(minute, a=status)
        (incident,) = world.incidents()
        assert incident.is_open == (status is not H)
    assert (incident.opened_at, incident.peak_level, incident.sequence) == (
        NOW,
        Severity.CRITICAL,
        4,
    )


def test_refired_alert_joins_the_incident_now_open_in_its_app(world):
    world.tell(0, a=W, b=H)
    world.tell(1, a=H, b=H)
    world.tell(2, a=H, b=W)
    world.tell(3, a=C, b=W)
    assert [m.event.value for m in world.messages()] == ["fired", "resolved", "fired", "escalated"]
    assert len({m.incident_id for m in world.messages()}) == 2
    world.tell(4, a=H, b=H)
    with world.store.read() as connection:
        assert not open_groups(connection)


def test_app_refiring_in_a_common_cause_incident_stays_in_it(world):
    apps = ("x__a", "y__a", "z__a")
    world.tell(0, changed="xyz", **dict.fromkeys(apps, C))
    world.tell(1, x__a=H, y__a=C, z__a=C)
    world.tell(2, **dict.fromkeys(apps, C))
    assert [m.event for m in world.messages()] == [AlertEvent.FIRED]
    world.tell(3, **dict.fromkeys(apps, H))
    world.tell(4, x__a=H, y__a=W, z__a=H)
    assert len({m.incident_id for m in world.messages()}) == 1
    assert world.messages()[-1].cause == "the judge changed to g@1"


def test_metric_that_joins_a_just_reopened_incident_sends_no_message(world):
    world.tell(0, a=W, b=H)
    world.tell(9, a=H, b=H)
    world.tell(10, a=W, b=H)
    world.tell(11, a=W, b=W)
    assert [m.event.value for m in world.messages()] == ["fired", "resolved", "fired"]


def test_expired_silence_is_not_mentioned_when_the_alert_fires_again(world):
    with world.store.write() as connection:
        add_silence(
            connection, parse_all(["app=bot"]), now=NOW, ends_at=NOW + timedelta(minutes=5),
            author="ann", comment="deploy",
        )  # fmt: skip
    world.tell(0, a=W)
    world.tell(1, a=H)
    assert world.messages() == []
    world.tell(9, a=W)
    assert [m.event for m in world.messages()] == [AlertEvent.FIRED]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"evaluator": "g@2"}, "evaluator changed from g@1 to g@2"),
        (
            {"lines": AlertThresholds(warning_rate=0.9, critical_rate=0.8)},
            (
                "threshold changed from warning below 0.88, critical below 0.8"
                " to warning below 0.9, critical below 0.8"
            ),
        ),
    ],
)
def test_change_of_evaluation_basis_closes_the_incident_and_opens_a_new_one(world, changes, words):
    world.tell(0, a=C)
    (event,) = world.tell(1, a=C, **changes)
    assert (event.event, event.reason) == (AlertEvent.RESOLVED, "superseded")
    world.tell(2, a=C, **changes)
    fired, closed, other = world.messages()
    assert closed.superseded == words
    assert closed.incident_id == fired.incident_id != other.incident_id
    assert (other.sequence, other.well_since) == (1, None)


def test_superseded_alert_is_resolved_when_the_other_metrics_resolve(world):
    world.tell(0, a=C, b=W)
    world.tell(1, evaluator="g@2", a=H, b=H)
    assert [m.event for m in world.messages()] == [AlertEvent.FIRED, AlertEvent.RESOLVED]
