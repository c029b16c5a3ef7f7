"""Counters of hooks: cumulative where they come from, added once."""

from datetime import UTC, datetime, timedelta

from monitor.store.ledger import Booking, HookCounters, Kind, absorb, last_heartbeat, read_totals

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def news(hook_id="h1", app="bot", at=NOW, **counters):
    return HookCounters(
        hook_id=hook_id, app=app, host="web-1", pid=7, heartbeat_at=at, counters=counters
    )


def absorbed(store, *items):
    for item in items:
        with store.write() as connection:
            absorb(connection, [item], bucket_s=60)
    with store.read() as connection:
        return read_totals(connection, "bot").get("bot", {})


def test_only_new_counts_are_added(store):
    totals = absorbed(store, news(seen=10, sampled=2), news(seen=25, sampled=3))
    assert totals == {Booking(Kind.SEEN, ""): 25, Booking(Kind.SAMPLED, ""): 3}


def test_repeated_counters_add_nothing(store):
    totals = absorbed(store, *[news(seen=10)] * 3)
    assert totals[Booking(Kind.SEEN, "")] == 10


def test_counters_of_several_hooks_add_up(store):
    totals = absorbed(store, news("h1", seen=10), news("h2", seen=5))
    assert totals[Booking(Kind.SEEN, "")] == 15


def test_drops_keep_their_reason(store):
    totals = absorbed(store, news(**{"dropped:buffer_full": 4, "dropped:mask_failed": 1}))
    assert totals[Booking(Kind.DROPPED, "buffer_full")] == 4
    assert totals[Booking(Kind.DROPPED, "mask_failed")] == 1


def test_late_older_report_does_not_lower_the_counters(store):
    totals = absorbed(store, news(seen=25), news(seen=10), news(seen=26))
    assert totals[Booking(Kind.SEEN, "")] == 26


def test_heartbeat_is_that_of_the_newest_hook(store):
    absorbed(store, news("h1", at=NOW), news("h2", at=NOW + timedelta(minutes=5)))
    with store.read() as connection:
        assert last_heartbeat(connection, "bot") == NOW + timedelta(minutes=5)
        assert last_heartbeat(connection, "another") is None
