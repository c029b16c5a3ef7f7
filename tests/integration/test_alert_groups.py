"""What people are told of several alerts at once: one incident an app, or one a common cause."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from alerts import queries
from alerts.conditions import JUDGE_CHANGED, verdicts_on
from alerts.decide import decide
from alerts.message import render
from alerts.routing import Hours, Maintenance, Recipient, RoutingConfig, parse_all
from alerts.silencing import add_silence
from alerts.state import Timers
from alerts.store import Ack, acknowledge, acknowledgement, groups_of, open_groups
from monitor.models.alerting import DeliveryStatus
from monitor.models.status import Status
from monitor.store.alert_tables import incidents
from monitor.testing import make_verdict
from support.sent_messages import messages

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
H, W, C = Status.HEALTHY, Status.WARNING, Status.CRITICAL


class World:
    """A store in which verdicts are decided upon, minute by minute."""

    def __init__(self, store):
        self.store, self.plan = store, RoutingConfig.everyone([Recipient("slack")])

    def tell(self, minute, **statuses):
        """Decide on the statuses of metrics, named metric or app__metric."""
        now = NOW + timedelta(minutes=minute)
        verdicts = []
        for name, status in statuses.items():
            app, _, metric = name.rpartition("__")
            verdicts.append(make_verdict(status, now, app=app or "bot", metric=metric))
        with self.store.write() as connection:
            decide(connection, verdicts, now=now, timers=AT_ONCE, channels=self.plan)

    def messages(self):
        """List the messages in order, as (event, level, what else fires)."""
        with self.store.read() as connection:
            found = reversed(messages(connection))
        return [(s.event.value, s.level.value, [other.metric for other in s.others]) for s in found]

    def events(self):
        return [event for event, _, _ in self.messages()]


@pytest.fixture
def world(store):
    return World(store)


def test_metrics_that_fire_together_are_one_message(world):
    world.tell(0, a=W, b=C, c=W)
    assert world.messages() == [("fired", "critical", ["a", "c"])]


def test_only_a_metric_that_joins_late_sends_a_message(world):
    world.tell(0, a=W)
    world.tell(1, a=W, b=W)
    world.tell(6, a=W, b=W, c=W)
    assert world.messages() == [("fired", "warning", []), ("joined", "warning", ["a", "b"])]


def test_metric_that_joins_as_critical_is_reported_at_once(world):
    world.tell(0, a=W)
    world.tell(1, a=W, b=C)
    assert world.messages()[1] == ("escalated", "critical", ["a"])


def test_group_resolves_when_its_last_alert_does(world):
    world.tell(0, a=W, b=C)
    world.tell(1, a=W, b=H)
    assert world.events() == ["fired"]
    world.tell(2, a=H, b=H)
    assert world.messages()[1:] == [("resolved", "warning", [])]
    world.tell(3, a=W)
    assert world.events() == ["fired", "resolved", "fired"]


def test_worsening_after_the_worst_alert_resolved_is_reported(world):
    world.tell(0, a=W, b=C)
    world.tell(1, a=W, b=H)
    world.tell(2, a=C, b=H)
    assert world.events() == ["fired", "escalated"]


def test_one_reminder_covers_the_whole_group(world):
    world.tell(0, a=C)
    world.tell(30, a=C, b=C)
    for minute in range(31, 125):
        world.tell(minute, a=C, b=C)
    assert world.events() == ["fired", "joined", "repeated"]


def decide_on(world, minute, status, *apps, changed):
    """Decide on apps with one judge, which has *changed* for all of them or for none."""
    now = NOW + timedelta(minutes=minute)
    quality = [make_verdict(status, now, app=app, evaluator_version="judge-7") for app in apps]
    condition = {app: {JUDGE_CHANGED: "from judge-6 to judge-7"} if changed else {} for app in apps}
    monitor = [
        verdict
        for app, ill in condition.items()
        for verdict in verdicts_on(app, ill, [JUDGE_CHANGED], window_s=3600, now=now)
    ]
    slow = replace(AT_ONCE, monitor_for_s=3600)
    with world.store.write() as connection:
        decide(connection, [*quality, *monitor], now=now, timers=slow, channels=world.plan)


def test_apps_whose_judge_changed_and_that_begin_together_are_one_incident(world):
    decide_on(world, 0, C, "a", "b", "c", "d", changed=True)
    decide_on(world, 1, C, "a", "b", "c", "d", "e", changed=True)
    decide_on(world, 2, H, "a", "b", "c", "d", "e", changed=True)
    with world.store.read() as connection:
        resolved, fired = messages(connection)
    assert (fired.event, fired.cause) == ("fired", "the judge changed to judge-7")
    assert [other.app for other in fired.others] == ["b", "c", "d"]
    assert render(fired, {fired.event}).title == "a, b, c, d · the judge changed to judge-7"
    assert resolved.event == "resolved"


def test_judge_that_did_not_change_is_not_blamed(world):
    decide_on(world, 0, C, "a", "b", "c", "d", changed=False)
    with world.store.read() as connection:
        found = messages(connection)
    assert {render(each, {each.event}).title for each in found} == {
        f"{app} · groundedness" for app in "abcd"
    }


def test_added_channel_gets_one_message_about_what_already_fires(world):
    world.plan = RoutingConfig.everyone([])
    world.tell(0, x__a=C, y__b=W)
    world.plan = RoutingConfig.everyone([Recipient("slack"), Recipient("mail")])
    for minute in range(1, 4):
        world.tell(minute, x__a=C, y__b=W)
    world.tell(4, x__a=H, y__b=W)
    with world.store.read() as connection:
        sent = [(d.channel, d.event.value) for d in queries.deliveries(connection)]
        fired = next(s for s in messages(connection) if s.event == "fired")
    assert sorted(sent) == sorted(
        (channel, event)
        for channel in ("slack", "mail")
        for event in ("fired", "fired", "resolved")
    )
    assert "already firing" in fired.note


def test_added_channel_gets_later_alerts_of_the_incident(world):
    world.plan = RoutingConfig.everyone([])
    world.tell(0, a=W, b=C, c=W)
    world.plan = RoutingConfig.everyone([Recipient("slack")])
    world.tell(1, a=W, b=C, c=W)
    assert world.messages() == [("fired", "critical", ["a", "c"])]


@pytest.mark.parametrize("evaluated", [True, False])
@pytest.mark.parametrize("by", ["a silence", "a maintenance window"])
def test_message_at_the_end_of_a_silence_names_who_set_it(world, by, evaluated):
    x, hour = parse_all(["app=x"]), timedelta(hours=1)
    if by == "a silence":
        with world.store.write() as connection:
            add_silence(
                connection, x, now=NOW, ends_at=NOW + hour, author="ann", comment="known",
            )  # fmt: skip
    else:
        hours = Hours.parse(f"{NOW:%H:%M}", f"{NOW + hour:%H:%M}", "UTC")
        nightly = Maintenance(name="nightly", matchers=x, hours=hours)
        world.plan = replace(world.plan, maintenance=(nightly,))
    world.tell(0, w__a=W, x__a=C, y__a=W)
    world.tell(1, w__a=C, x__a=C, y__a=C)
    world.tell(60, **({"x__a": C} if evaluated else {}))
    with world.store.read() as connection:
        [told] = [each for each in messages(connection) if each.event == "unsilenced"]
    who = "ann: known" if by == "a silence" else "maintenance:nightly"
    assert (told.verdict.app, told.note) == ("x", f"it was silenced by {who}")


def test_added_channel_gets_nothing_about_silenced_or_resolved_alerts(world):
    world.plan = RoutingConfig.everyone([])
    world.tell(0, x__a=C, y__b=C)
    with world.store.write() as connection:
        add_silence(
            connection, parse_all(["app=x"]), now=NOW, ends_at=NOW + timedelta(hours=1),
            author="ann", comment="known",
        )  # fmt: skip
    world.tell(1, x__a=C, y__b=H)
    world.plan = RoutingConfig.everyone([Recipient("slack")])
    world.tell(2, x__a=C, y__b=H)
    assert world.messages() == []


def test_two_apps_are_two_incidents(world):
    world.tell(0, x__a=C, y__a=C)
    assert world.events() == ["fired", "fired"]


def test_apps_that_fall_at_different_times_get_no_common_cause(world):
    for minute, app in enumerate("xyz"):
        world.tell(minute * 11, **{f"{app}__a": C})
    assert world.events() == ["fired"] * 3


def test_acknowledgement_stops_reminders_but_not_escalations(world):
    world.tell(0, a=W, b=H)
    with world.store.write() as connection:
        (incident,) = queries.open_incidents(connection)
        done = acknowledge(
            connection, incident.group_id, by="ann", note="mine", now=NOW,
            until=NOW + timedelta(hours=8),
        )  # fmt: skip
    assert done
    world.tell(1, a=W, b=C)
    world.tell(62, a=W, b=C)
    assert world.events() == ["fired", "escalated", "repeated"]


def test_group_keeps_its_start_while_open_and_restarts_after_closing(world):
    def began(minute):
        now = NOW + timedelta(minutes=minute)
        with world.store.read() as connection:
            ids = list(connection.execute(select(incidents.c.incident_id)).scalars())
            return {group.opened_at for group in groups_of(connection, ids, now).values()}

    world.tell(0, a=W)
    assert began(5) == {NOW}
    world.tell(6, a=H)
    assert began(8) == {NOW + timedelta(minutes=8)}


def test_long_acknowledgement_texts_are_cut(world):
    world.tell(0, a=W)
    until = NOW + timedelta(hours=8)
    with world.store.write() as connection:
        (incident,) = queries.open_incidents(connection)
        key = incident.group_id
        acknowledge(connection, key, by="a" * 300, note="n" * 600, now=NOW, until=until)
        assert acknowledgement(connection, key) == Ack("a" * 200, "n" * 500, until)


def test_acknowledged_incident_has_no_reminder_until_it_expires(world):
    world.tell(0, a=C)
    with world.store.write() as connection:
        (incident,) = queries.open_incidents(connection)
        until = NOW + timedelta(hours=8)
        acknowledge(connection, incident.group_id, by="ann", note="", now=NOW, until=until)
    for hour in range(1, 9):
        world.tell(60 * hour - 1, a=C)
        world.tell(60 * hour, a=C)
    assert world.events() == ["fired", "repeated"]


def test_flapping_alert_is_sent_four_times_and_once_when_stable(world):
    minutes = iter(range(10_000))
    for _ in range(12):
        world.tell(next(minutes), a=W)
        world.tell(next(minutes), a=H)
    assert world.events() == ["fired", "resolved"] * 3 + ["fired"]
    for minute in range(30, 30 + 490, 4):
        world.tell(minute, a=H)
    assert world.events()[7:] == ["settled"]
    world.tell(600, a=H)
    with world.store.read() as connection:
        assert not open_groups(connection)
        last = queries.incidents_since(connection, NOW)[0]
    assert last.resolved_at == NOW + timedelta(minutes=23)


def test_flapping_alert_that_is_no_longer_evaluated_is_closed_and_reported(world):
    for minute in range(0, 8, 2):
        world.tell(minute, a=W, b=H)
        world.tell(minute + 1, a=H, b=H)
    for hour in range(1, 26):
        world.tell(60 * hour, b=H)
    assert world.events()[6:] == ["fired", "resolved"]
    with world.store.read() as connection:
        assert not open_groups(connection)


def test_warning_waits_for_others_and_a_critical_does_not(world):
    world.plan = RoutingConfig(
        routes=world.plan.routes, addresses=world.plan.addresses, group_wait_s=60
    )
    world.tell(0, x__a=W, y__a=C)
    with world.store.read() as connection:
        waits = {
            d.incident_id: (d.due_at - d.created_at).total_seconds()
            for d in queries.deliveries(connection, status=DeliveryStatus.WAITING)
        }
    assert sorted(waits.values()) == [0, 60]
    world.tell(0.5, x__a=W, x__b=C, y__a=C)
    with world.store.read() as connection:
        found = queries.deliveries(connection)
    assert all(d.due_at <= NOW + timedelta(seconds=30) for d in found)
