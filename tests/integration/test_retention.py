"""What is too old goes, in batches, each thing at its own age; what counts stays."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, func, select

from monitor.errors import LeaseLostError
from monitor.settings import Settings
from monitor.settings.tables import RetentionTimes
from monitor.store.alert_tables import alert_events, alert_groups, incidents, outbox
from monitor.store.engine import Lease, acquire, fence
from monitor.store.ledger import (
    DeadLetter,
    Entry,
    HookCounters,
    Kind,
    absorb,
    book,
    read_between,
    read_totals,
)
from monitor.store.query import BUCKETS, read_marks
from monitor.store.reconcile import sums_of_store
from monitor.store.retention import Retention, blank, size_bytes
from monitor.store.rollup import roll_up
from monitor.store.samples import note_act
from monitor.store.tables import audit, counts, dead_letters, evaluations, hooks, samples
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.context import Clocks
from workers.maintenance import Keeper
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)
KEPT = RetentionTimes()
SECRET = "the colour of my front door"


def write(store, days_ago, n=1):
    at = NOW - timedelta(days=days_ago)
    results = [
        result_of(
            make_sample(make_interaction(app="shop", output=SECRET, query=SECRET), sampled_at=at),
            [make_evaluation(score=0.9)],
            RULES,
            now=at,
        )
        for _ in range(n)
    ]
    with store.write() as connection:
        record(connection, results, now=at, bucket_s=60)


def keep(store, **options):
    retention = Retention(store=store, kept=KEPT, budget_s=30, **options)
    return retention.run(NOW.timestamp())


def count(store, table):
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def holds(store, days):
    since_s = int((NOW - timedelta(days=days)).timestamp()) // 86_400 * 86_400
    with store.read() as connection:
        return [item for item in sums_of_store(connection, since_s=since_s) if not item.holds]


def test_texts_are_deleted_first_and_all_sums_agree(store):
    write(store, 31, n=3)
    write(store, 29)
    assert keep(store)["texts"] == 3
    with store.read() as connection:
        stored = [str(row) for row in connection.execute(select(samples.c.payload)).scalars()]
    assert sum(SECRET in text for text in stored) == 1
    assert count(store, evaluations) == 4
    assert holds(store, 60) == []


def test_samples_are_read_once_while_their_texts_are_deleted(store):
    """Retention keeps up with what arrives: reading and unpacking is most of its work."""
    write(store, 31, n=3)
    reads = []
    with store.write() as connection:
        ids = list(connection.execute(select(samples.c.sample_id)).scalars())
        event.listen(
            connection, "before_cursor_execute",
            lambda *given: reads.append("groundwatch_samples.payload" in given[2]),
        )  # fmt: skip
        blank(connection, ids, why="too old")
    assert sum(reads) == 1


def test_deleted_texts_are_not_scanned_again(store):
    write(store, 31, n=3)
    keep(store)
    assert keep(store) == {}


def test_evaluations_and_samples_are_deleted_and_sums_stay(store):
    write(store, 91, n=2)
    write(store, 1)
    assert keep(store)["samples"] == 2
    assert (count(store, samples), count(store, evaluations)) == (1, 1)
    with store.read() as connection:
        assert sum(read_totals(connection, "shop")["shop"].values()) == 3
    assert holds(store, 60) == []


def test_large_deletions_run_in_batches(store):
    write(store, 91, n=1_100)
    batches = []
    assert keep(store, guard=lambda _: batches.append(1))["samples"] == 1_100
    assert len(batches) > 3
    assert count(store, samples) == 0


def test_texts_are_deleted_in_batches_of_whole_seconds(store, monkeypatch):
    monkeypatch.setattr("monitor.store.retention._BATCH", 2)
    for days_ago, n in ((33, 3), (32, 1), (31, 1)):
        write(store, days_ago, n=n)
    left = []

    def look(connection):
        stored = connection.execute(select(samples.c.payload)).scalars()
        left.append(sum(SECRET in str(payload) for payload in stored))

    assert keep(store, guard=look)["texts"] == 5
    assert list(dict.fromkeys(left)) == [5, 2, 0]


def test_nothing_is_deleted_without_the_lease(store):
    write(store, 91)
    acquire(store, "scheduler", "other", ttl_s=60)
    with pytest.raises(LeaseLostError):
        keep(store, guard=lambda connection: fence(connection, Lease("scheduler", "me", 1)))
    assert count(store, samples) == 1


def test_old_closed_incidents_are_deleted_with_timeline_and_messages(store):
    old = NOW - timedelta(days=401)
    with store.write() as connection:
        for name, resolved_at in (("a" * 32, old), ("b" * 32, None)):
            connection.execute(incidents.insert().values(
                incident_id=name, app="shop", metric="m", segment="*", window_s=3600,
                level="critical", peak_level="critical", since=old, opened_at=old, updated_at=old,
                resolved_at=resolved_at, sequence=1,
            ))  # fmt: skip
            connection.execute(alert_events.insert().values(
                incident_id=name, sequence=1, event="fired", at=old, snapshot={},
            ))  # fmt: skip
            connection.execute(outbox.insert().values(
                delivery_id=name, incident_id=name, sequence=1, channel="slack", recipient="",
                event="fired", level="critical", snapshot={}, status="sent", attempts=1, token=1,
                created_at=old, due_at=old, finished_at=old if resolved_at else None, tells="",
                possible_duplicate=False,
            ))  # fmt: skip
            connection.execute(alert_groups.insert().values(
                group_id=name, app="shop", opened_at=old, resolved_at=resolved_at, sequence=1,
                flapping=[],
            ))  # fmt: skip
    keep(store)
    assert [count(store, table) for table in (incidents, alert_events, outbox)] == [1, 1, 1]
    with store.read() as connection:
        left = connection.execute(select(alert_groups.c.group_id)).scalars().all()
    assert left == ["b" * 32]


def test_messages_are_deleted_before_their_incident(store):
    at = NOW - timedelta(days=91)
    with store.write() as connection:
        connection.execute(incidents.insert().values(
            incident_id="i", app="shop", metric="m", segment="*", window_s=3600, level="critical",
            peak_level="critical", since=at, opened_at=at, updated_at=at, resolved_at=at,
            sequence=1,
        ))  # fmt: skip
        connection.execute(outbox.insert().values(
            delivery_id="d", incident_id="i", sequence=1, channel="slack", recipient="",
            event="fired", level="critical", snapshot={}, status="sent", attempts=1, token=1,
            created_at=at, due_at=at, finished_at=at, tells="", possible_duplicate=False,
        ))  # fmt: skip
    assert keep(store) == {"outbox": 1}
    assert count(store, incidents) == 1


def test_audit_entries_and_dead_letters_are_deleted_at_their_ages(store):
    letter = DeadLetter(
        entry_id="1-0",
        sample_id=None,
        app="shop",
        at=NOW - timedelta(days=31),
        reason="odd",
        detail="",
        body=b"x",
    )
    with store.write() as connection:
        for days in (401, 399):
            at = NOW - timedelta(days=days)
            note_act(connection, who="ann", act="view", target="t", at=at)
        record(connection, [], [letter], now=NOW - timedelta(days=31), bucket_s=60)
    assert keep(store) == {"audit": 1, "dead letters": 1}
    assert (count(store, audit), count(store, dead_letters)) == (1, 0)


def test_ledger_is_summed_to_hours_and_days_and_loses_nothing(store):
    start_s = int(NOW.timestamp()) // 86_400 * 86_400
    with store.write() as connection:
        for days, minutes in ((1, 90), (10, 90), (40, 90)):
            book(connection, [
                Entry("shop", start_s - days * 86_400 + 60 * minute, Kind.SCORED, "", 1)
                for minute in range(minutes)
            ])  # fmt: skip
    keep(store)
    assert count(store, counts) == 90 + 2 + 1
    with store.read() as connection:
        found = read_between(connection, start_s - 10 * 86_400, start_s - 10 * 86_400 + 3600)
    assert sum(found["shop"].values()) == 60
    assert [item.check for item in holds(store, 0)] == []


def test_counters_of_deleted_hooks_are_merged(store):
    def told(hook_id, days_ago, seen):
        return HookCounters(
            hook_id=hook_id, app="shop", host="web-1", pid=1,
            heartbeat_at=NOW - timedelta(days=days_ago), counters={"seen": seen},
        )  # fmt: skip

    with store.write() as connection:
        absorb(connection, [told("a", 95, 5), told("b", 94, 7), told("c", 1, 9)], bucket_s=60)
    assert keep(store)["hooks"] == 2
    assert keep(store) == {}
    assert count(store, hooks) == 2
    assert holds(store, 1) == []


def test_each_rollup_level_has_its_own_retention(store):
    write(store, 3)
    write(store, 0)
    roll_up(store, now_s=NOW.timestamp() + 7200, settle_s=0, keep_s={"bucket": 5 * 86_400})
    with store.read() as connection:
        kept_from_s = read_marks(connection)[BUCKETS.name].kept_from_s
    assert NOW.timestamp() - kept_from_s == pytest.approx(5 * 86_400, abs=7200)


def test_database_file_shrinks_when_rows_are_deleted(sqlite_store):
    def size():
        with sqlite_store.read() as connection:
            return size_bytes(connection)

    empty = size()
    write(sqlite_store, 91, n=2_000)
    full = size()
    keep(sqlite_store)
    assert size() - empty < (full - empty) / 4


@pytest.fixture
def sqlite_store(sqlite_url):
    from monitor.store.engine import Store

    store = Store(sqlite_url)
    yield store
    store.close()


def test_retention_run_stops_at_its_time_budget_and_the_next_continues(store):
    write(store, 91, n=600)
    Retention(store=store, kept=KEPT, budget_s=-1).run(NOW.timestamp())
    assert count(store, samples) == 600
    assert keep(store)["samples"] == 600


def test_texts_do_not_wait_until_all_old_samples_are_deleted(store):
    write(store, 91, n=600)
    write(store, 31)
    rounds = iter([None, None])

    def twice(_):
        next(rounds)

    with pytest.raises(StopIteration):
        keep(store, guard=twice)
    assert count(store, samples) == 101  # one batch
    with store.read() as connection:
        newest = select(samples.c.payload).order_by(samples.c.received_at_ms.desc()).limit(1)
        assert SECRET not in str(connection.execute(newest).scalar_one())


def test_retention_that_is_behind_gets_more_time(store):
    write(store, 91, n=600)
    lease = acquire(store, "scheduler", "test", ttl_s=600)
    keeper = Keeper(store, Settings(), clocks=lambda: Clocks(NOW.timestamp(), 0), budget_s=0.0)
    keeper.run(lease)
    assert (count(store, samples), keeper.budget_s) == (600, 2.0)
    keeper.budget_s = 20.0
    while count(store, samples):
        keeper.run(lease)
    keeper.run(lease)
    assert keeper.budget_s < 20


def test_nothing_is_deleted_right_after_a_clock_jump(store):
    write(store, 5)
    lease = acquire(store, "scheduler", "test", ttl_s=600)
    now_s, year_s = NOW.timestamp(), 365 * 86_400
    said = iter([
        Clocks(now_s, 0), Clocks(now_s + year_s, 60), Clocks(now_s + year_s + 3600, 3660),
        Clocks(now_s + 7200, 7200), Clocks(now_s + year_s, 7260),
        Clocks(now_s + year_s + 90_000, 97_260),
    ])  # fmt: skip
    keeper = Keeper(store, Settings(), clocks=lambda: next(said))
    left = []
    for _ in range(6):
        keeper.run(lease)
        left.append(count(store, samples))
    assert left == [1, 1, 1, 1, 1, 0]  # in the end it is believed


def test_clock_jumps_change_no_sum(store):
    """Worker and scheduler wake up a day ahead, then behind, then right."""
    for days in (0, -1, 1, 0):
        write(store, days, n=3)
        write(store, days + 0.01, n=2)
        now_s = (NOW - timedelta(days=days)).timestamp()
        roll_up(store, now_s=now_s, settle_s=600)
    assert [item.check for item in holds(store, 3)] == []
