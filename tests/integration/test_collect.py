"""The counters of real hooks reach the ledger, to the unit."""

import pytest

from monitor.cli.doctor import check_clocks
from monitor.hook import Hook
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.ledger import Booking, Kind, last_heartbeat, read_totals
from workers.maintenance import Collector


@pytest.fixture
def collect(redis_url, store):
    client = connect(redis_url)
    lease = acquire(store, "scheduler", "test", ttl_s=600)

    collector = Collector(client, store, bucket_s=60)

    def run():
        collector.run(lease)
        with store.read() as connection:
            return read_totals(connection)

    yield run
    client.close()


def interact(redis_url, app, n, rate):
    hook = Hook(app=app, sample_rate=rate, redis_url=redis_url)
    for _ in range(n):
        hook.sample(query="q", contexts=["c"], output="o")
    assert hook.flush(60)
    hook.close()
    return hook.stats()


def test_ledger_equals_the_hook_to_the_unit(redis_url, collect):
    stats = interact(redis_url, "bot", 2_000, 0.1)
    totals = collect()["bot"]
    assert totals[Booking(Kind.SEEN, "")] == stats["seen"] == 2_000
    assert totals[Booking(Kind.SAMPLED, "")] == stats["sampled"] == stats["sent"]


def test_collecting_twice_adds_nothing(redis_url, collect):
    interact(redis_url, "bot", 50, 1.0)
    assert collect() == collect()


def test_hooks_of_two_apps_are_counted_separately(redis_url, collect):
    interact(redis_url, "a", 10, 1.0)
    interact(redis_url, "b", 20, 1.0)
    totals = collect()
    assert [totals[app][Booking(Kind.SEEN, "")] for app in ("a", "b")] == [10, 20]


@pytest.mark.parametrize("shift_ms", [-86_400_000, 180_000, 700_000_000])
def test_hook_with_a_wrong_clock_hides_no_other_hook(redis_url, collect, shift_ms):
    interact(redis_url, "bot", 10, 1.0)
    client = connect(redis_url)
    at_ms = int(client.time()[0] * 1000) + shift_ms
    counters = {"app": "odd", "host": "h", "pid": 1, "heartbeat_at_ms": at_ms, "seen": 5}
    client.hset(names.hook("odd"), mapping=counters)
    client.zadd(names.HOOKS, {"odd": at_ms})
    client.close()
    assert collect()["odd"][Booking(Kind.SEEN, "")] == 5
    interact(redis_url, "bot", 10, 1.0)
    assert collect()["bot"][Booking(Kind.SEEN, "")] == 20


def test_long_gone_hook_is_deleted_and_its_counts_stay(redis_url, collect):
    with connect(redis_url) as client:
        long_ago_ms = int(client.time()[0] * 1000) - 8 * 86_400_000
        counters = {
            "app": "bot", "host": "h", "pid": 1, "heartbeat_at_ms": long_ago_ms, "seen": 5,
        }  # fmt: skip
        client.hset(names.hook("gone"), mapping=counters)
        client.zadd(names.HOOKS, {"gone": long_ago_ms})
        collect()
        client.delete(names.hook("gone"))  # as it expires after a week
        assert collect()["bot"][Booking(Kind.SEEN, "")] == 5
        assert client.zrange(names.HOOKS, 0, -1) == []


def test_hash_of_another_program_is_ignored(redis_url, collect):
    interact(redis_url, "bot", 10, 1.0)
    client = connect(redis_url)
    client.zadd(names.HOOKS, {"stranger": 9e12})
    client.hset(names.hook("stranger"), mapping={"seen": "many"})
    client.close()
    assert collect()["bot"][Booking(Kind.SEEN, "")] == 10


@pytest.mark.parametrize(
    "odd",
    [
        {b"\xff": 1},
        {"dropped:a\0b": 1},
        {"app": "a\0b"},
        {"host": "h\0"},
        {"pid": -(2**40)},
        {"heartbeat_at_ms": -62135596800001},
        {"heartbeat_at_ms": 10**30},
    ],
)
def test_malformed_hash_of_one_hook_does_not_affect_other_hooks(redis_url, collect, odd):
    interact(redis_url, "bot", 10, 1.0)
    counters = {"app": "odd", "host": "h", "pid": 1, "heartbeat_at_ms": 1, "seen": 5}
    with connect(redis_url) as client:
        client.hset(names.hook("odd"), mapping=counters | odd)
        client.zadd(names.HOOKS, {"odd": 1})
    assert collect()["bot"][Booking(Kind.SEEN, "")] == 10


def test_hook_with_a_slow_clock_is_recorded_as_seen_now(redis_url, store, collect):
    client = connect(redis_url)
    now_ms = int(client.time()[0] * 1000)
    for beat in range(2):
        at_ms = now_ms - 3_600_000 + beat
        counters = {"app": "odd", "host": "h", "pid": 1, "heartbeat_at_ms": at_ms, "seen": beat}
        client.hset(names.hook("odd"), mapping=counters)
        client.zadd(names.HOOKS, {"odd": at_ms})
        collect()
    client.close()
    with store.read() as connection:
        heard_at = last_heartbeat(connection, "odd")
    assert abs(heard_at.timestamp() * 1000 - now_ms) < 60_000
    interact(redis_url, "bot", 10, 1.0)
    collect()
    url = store.engine.url.render_as_string(hide_password=False)
    [found] = check_clocks(Settings(redis_url=redis_url, database_url=url))
    assert (found.what, found.ok) == ("clock of h", False)
    assert found.found.startswith(("1 h behind: samples of odd", "59 min"))
