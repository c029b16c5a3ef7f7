"""What the store of alerts returns among others of its kind: one of many, and at the boundary."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select

from alerts import outbox, store
from alerts.decide import decide
from alerts.model import AlertKey, Phase
from alerts.outbox import MOST_AN_HOUR, MOST_CRITICAL_AN_HOUR, waiting_row
from alerts.routing import Recipient
from alerts.silencing import add_silence
from alerts.state import Timers
from alerts.store import Ack
from monitor.models.alerting import DeliveryStatus, Severity
from monitor.models.status import Status
from monitor.store.alert_tables import alert_events, alert_states
from monitor.store.alert_tables import outbox as outbox_table
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
APPS = ("ant", "bee", "cat")
QUOTES = {"ant": "the ant said so", "bee": "the bee said so", "cat": "the cat said so"}


def at(minutes):
    return NOW + timedelta(minutes=minutes)


def tell(connection, minute, **statuses):
    verdicts = [make_verdict(s, at(minute), app=app) for app, s in statuses.items()]
    return decide(
        connection, verdicts, now=at(minute), timers=AT_ONCE, channels=[Recipient("slack", "#a")],
        worst_of=lambda *, app, **_: ["", QUOTES[app]] * 3,
    )  # fmt: skip


@pytest.fixture
def firing(connection):
    """Three apps that began to fire one after the other, a minute apart."""
    for minute, app in enumerate(APPS):
        tell(connection, minute, **{app: Status.WARNING})
    return connection


@pytest.fixture
def groups(firing):
    return {group.app: group for group in store.open_groups(firing).values()}


def key(app, metric="groundedness", segment="*", window_s=3600):
    return AlertKey(app, metric, segment, window_s)


@pytest.mark.parametrize("app", APPS)
def test_alert_state_is_read_by_its_exact_key(firing, app):
    assert store.read_state(firing, key(app)).key == key(app)
    for other in (key(app, "b"), key(app, segment="x"), key(app, window_s=60), key("dog")):
        assert store.read_state(firing, other) is None


def test_load_returns_states_of_named_apps_and_stale_states(firing):
    tell(firing, 5, bee=Status.HEALTHY, cat=Status.WARNING)
    day = 24 * 60
    assert store.load(firing, ["bee"], at(5)).keys() == {key("bee")}
    assert store.load(firing, [], at(day - 1)) == {}
    found = store.load(firing, ["bee"], at(day))
    assert {each.app: stored.forgotten for each, stored in found.items()} == {
        "ant": True, "bee": False,
    }  # fmt: skip
    assert found[key("ant")].state.phase is Phase.FIRING
    assert store.load(firing, [], at(day + 5)).keys() == {key("ant"), key("cat")}
    well = store.load(firing, ["bee"], at(2 * day))[key("bee")]
    assert (well.forgotten, well.state.phase) == (False, Phase.OK)


def test_stale_alert_is_closed_without_a_verdict(firing):
    events = tell(firing, 24 * 60, bee=Status.WARNING)
    assert [(event.app, event.reason) for event in events] == [("ant", "no_longer_evaluated")]


@pytest.mark.parametrize("app", APPS)
def test_acknowledgement_applies_to_one_open_incident(firing, groups, app):
    note = {"by": "ann", "note": "on it", "now": at(5), "until": at(60)}
    chosen = groups[app].group_id
    assert store.acknowledge(firing, chosen, **note)
    assert store.acknowledgements(firing) == {chosen: Ack("ann", "on it", at(60))}
    for other, group in groups.items():
        found = store.acknowledgement(firing, group.group_id)
        assert (found is not None) == (other == app)
    assert store.open_groups(firing)[chosen].acked_until == at(60)
    tell(firing, 6, **{app: Status.HEALTHY})
    assert not store.acknowledge(firing, chosen, **note)
    assert not store.acknowledge(firing, "nobody", **note)
    assert store.acknowledgements(firing) == {}


def test_groups_close_one_by_one_and_reopen_with_a_new_start_time(firing, groups):
    ids = {app: group.group_id for app, group in groups.items()}
    store.close_groups(firing, [ids["bee"]], at(5))
    assert store.open_groups(firing).keys() == {ids["ant"], ids["cat"]}
    assert store.reopen_groups(firing, [ids["bee"], "nobody"], at(9)) == {ids["bee"]}
    opened = {group.app: group.opened_at for group in store.open_groups(firing).values()}
    assert opened == {"ant": at(0), "bee": at(9), "cat": at(2)}
    found = store.groups_of(firing, [ids["ant"], ids["bee"]], at(20))
    assert {group.app: group.opened_at for group in found.values()} == {
        "ant": at(0), "bee": at(9),
    }  # fmt: skip


def test_members_are_read_by_group_firing_or_resolved(firing, groups):
    tell(firing, 5, bee=Status.HEALTHY)
    ids = [group.group_id for group in groups.values()]
    found = store.members_of(firing, ids)
    assert {name: [m.key.app for m in each] for name, each in found.items()} == {
        group.group_id: [app] for app, group in groups.items()
    }
    (over,) = found[groups["bee"].group_id]
    assert (over.over_at, over.peak, over.silenced) == (at(5), Severity.WARNING, False)
    fires = store.members_of(firing, ids, firing=True)
    assert fires.keys() == {groups[app].group_id for app in ("ant", "cat")}


def test_recipients_and_first_evidence_are_read_by_group(firing, groups):
    ids = {group.group_id for group in groups.values()}
    told = store.notified_recipients(firing, ids)
    assert told == {group_id: {Recipient("slack", "#a"): None} for group_id in ids}
    tell(firing, 5, ant=Status.CRITICAL)
    first = list(store.first_snapshots(firing, [groups["ant"].group_id]))
    assert [(each.key.app, each.level) for each in first] == [("ant", Severity.WARNING)]
    last = store.last_snapshot(firing, first[0].incident_id)
    assert (last.level, last.sequence) == (Severity.CRITICAL, 2)


def test_evidence_has_at_most_three_samples_and_no_empty_one(firing):
    (snapshot, *_) = firing.execute(select(alert_events.c.snapshot)).scalars()
    assert snapshot["samples"] == [QUOTES["ant"]] * 3


def test_deleted_quotes_are_removed_everywhere_and_others_stay(firing):
    tables = (alert_events, outbox_table)

    def kept():
        rows = [
            found.get("samples", [])
            for table in tables
            for found in firing.execute(select(table.c.snapshot)).scalars()
        ]
        return sorted({text for row in rows for text in row}), len(rows)

    assert store.forget_quotes(firing, [], dry_run=False) == 0
    assert store.forget_quotes(firing, ["nobody said this"], dry_run=False) == 0
    assert store.forget_quotes(firing, [QUOTES["bee"]], dry_run=True) == 2
    assert kept() == (sorted(QUOTES.values()), 6)
    assert store.forget_quotes(firing, [QUOTES["bee"]], dry_run=False) == 2
    assert kept() == (["(deleted)", QUOTES["ant"], QUOTES["cat"]], 6)


def test_active_silences_are_listed_by_end_time(connection):
    made = [
        add_silence(
            connection, store.parse_all([f"app={app}"]), now=NOW, ends_at=at(minutes),
            author=app, comment="c",
        )
        for app, minutes in (("ant", 30), ("bee", 10), ("cat", 20))
    ]  # fmt: skip
    assert [s.author for s in store.silences_after(connection, at(9))] == ["bee", "cat", "ant"]
    assert [s.author for s in store.silences_after(connection, at(10))] == ["cat", "ant"]
    for silence in made:
        assert store.silence_named(connection, silence.silence_id) == silence
    unreadable = store.silences.update().where(store.silences.c.silence_id == made[2].silence_id)
    connection.execute(unreadable.values(matchers=["app=~("]))
    assert [s.author for s in store.silences_after(connection, at(9))] == ["bee", "ant"]
    assert store.silence_named(connection, "nobody") is None


def test_alert_states_are_saved_unless_another_writer_was_first(firing):
    found = store.load(firing, APPS, at(3))
    changes = [(stored.state.but(reason=None), stored.version) for stored in found.values()]
    assert store.save(firing, changes, at(4)) == [True, True, True]
    versions = set(firing.execute(select(alert_states.c.version)).scalars())
    assert versions == {2}
    assert store.save(firing, changes[:1], at(5)) == [False]
    assert store.save(firing, [(changes[0][0], 0)], at(5)) == [False]
    with pytest.raises(store.StoreError):
        store.save(firing, changes, at(5))


def sent(connection, n, *, level=Severity.WARNING, minute=0, recipient="#a", number=0):
    """Write that so many messages went out."""
    to = Recipient("slack", recipient)
    rows = [
        waiting_row((f"{recipient}-{number}-{k}", 1), "fired", level, {}, to, now=at(minute))
        | {"status": DeliveryStatus.SENT, "finished_at": at(minute)}
        for k in range(n)
    ]
    connection.execute(insert(outbox_table), rows)


@pytest.mark.parametrize(("n", "throttled"), [(MOST_AN_HOUR - 1, False), (MOST_AN_HOUR, True)])
def test_recipient_is_throttled_after_thirty_messages_an_hour(connection, n, throttled):
    sent(connection, n)
    sent(connection, 5, recipient="#b")
    found = outbox.throttled_recipients(connection, "slack", at(59))
    assert [(each.recipient, each.count) for each in found] == [("#a", n)] * throttled
    assert outbox.throttled_recipients(connection, "slack", at(60)) == []
    assert outbox.throttled_recipients(connection, "mail", at(1)) == []


@pytest.mark.parametrize(
    ("count", "alone"), [(MOST_CRITICAL_AN_HOUR - 1, {"critical", "other"}),
                         (MOST_CRITICAL_AN_HOUR, {"other"})]
)  # fmt: skip
def test_critical_messages_pass_the_throttle_up_to_sixty(connection, count, alone):
    throttle = outbox.RecipientThrottle("slack", "#a", count, NOW)
    rows = [
        waiting_row((name, 1), "fired", level, {}, Recipient("slack", to), now=NOW)
        for name, level, to in (
            ("warning", Severity.WARNING, "#a"), ("critical", Severity.CRITICAL, "#a"),
            ("other", Severity.WARNING, "#b"),
        )
    ]  # fmt: skip
    connection.execute(insert(outbox_table), rows)
    query = select(outbox_table.c.incident_id).where(throttle.unthrottled())
    assert set(connection.execute(query).scalars()) == alone


def test_oldest_waiting_and_dead_letters_are_counted_by_time(firing):
    sent(firing, 2)
    assert outbox.oldest_waiting(firing) == {"slack": at(0)}
    rows = [
        waiting_row((f"dead-{minute}", 1), "fired", Severity.WARNING, {}, Recipient("mail"),
                    now=NOW) | {"status": DeliveryStatus.DEAD, "finished_at": at(minute)}
        for minute in (1, 2, 3)
    ]  # fmt: skip
    firing.execute(insert(outbox_table), rows)
    assert [outbox.dead_letters_since(firing, at(minute)) for minute in (1, 2, 4)] == [3, 2, 0]
    assert outbox.oldest_waiting(firing) == {"slack": at(0)}
