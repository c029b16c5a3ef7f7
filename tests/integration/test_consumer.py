"""The workers' side of the stream: nothing is lost, whoever dies."""

import pytest
import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import Consumer, NewestFirst, backlog, connect, live_workers
from monitor.queue.snapshot import Stalls, note_stall, read_stalls
from monitor.queue.wire import encode
from monitor.testing import make_sample
from workers.supervise import free_port


@pytest.fixture
def client(redis_url):
    client = connect(redis_url)
    yield client
    client.close()


def consumer(client, name="a"):
    made = Consumer(client, name)
    made.ensure_group()
    return made


def put(client, n=1, **options):
    return [client.xadd(names.SAMPLES, encode(make_sample()), **options).decode() for _ in range(n)]


def test_entries_are_taken_in_order_and_once(client):
    first, second = consumer(client, "a"), consumer(client, "b")
    sent = put(client, 5)
    taken = [e.entry_id for e in first.take(3)] + [e.entry_id for e in second.take(3)]
    assert taken == sent


def test_entry_that_is_taken_is_not_acknowledged(client):
    put(client)
    consumer(client).take(1)
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 1


def test_acknowledged_entry_is_deleted(client):
    put(client)
    reader = consumer(client)
    reader.acknowledge([entry.entry_id for entry in reader.take(1)])
    assert client.xlen(names.SAMPLES) == 0
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 0


def test_abandoned_entry_is_taken_over_with_its_count(client):
    (sent,) = put(client)
    consumer(client, "dead").take(1)
    (entry,) = consumer(client, "alive").take_abandoned(10, idle_ms=0)
    assert (entry.entry_id, entry.deliveries) == (sent, 2)


def test_only_the_claimed_entry_has_its_delivery_count_raised(client):
    put(client, 3)
    consumer(client, "dead").take(3)
    consumer(client, "alive").take_abandoned(10, idle_ms=0)
    pending = client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", 10)
    assert [item["times_delivered"] for item in pending] == [2, 1, 1]


def test_entry_kept_alive_by_its_worker_is_not_taken_over(client):
    (sent,) = put(client)
    worker = consumer(client, "slow")
    worker.take(1)
    worker.keep([sent])
    assert consumer(client, "other").take_abandoned(10, idle_ms=10_000) == []


def test_keepalive_does_not_raise_the_delivery_count(client):
    (sent,) = put(client)
    worker = consumer(client)
    worker.take(1)
    worker.keep([sent])
    (pending,) = client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", 1)
    assert pending["times_delivered"] == 1


def test_entry_trimmed_while_pending_is_released(client):
    put(client)
    consumer(client, "dead").take(1)
    client.xtrim(names.SAMPLES, maxlen=0, approximate=False)
    assert consumer(client, "alive").take_abandoned(10, idle_ms=0) == []
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 0


def test_returned_entries_are_taken_together_without_a_delivery_count(client):
    sent = put(client, 3)
    failed = consumer(client, "failed")
    failed.give_back(failed.take(3))
    found = consumer(client, "other").take_abandoned(10, idle_ms=60_000)
    assert [(entry.entry_id, entry.deliveries) for entry in found] == [(e, 1) for e in sent]


def test_worker_that_loses_a_claim_race_leaves_the_entry(client):
    (sent,) = put(client)
    consumer(client, "dead").take(1)
    client.xclaim(names.SAMPLES, names.GROUP, "dead", 0, [sent], idle=60_000, justid=True)
    winner, loser = consumer(client, "winner"), consumer(client, "loser")
    loser._redis = WinsBetween(client, winner)
    assert loser.take_abandoned(10, idle_ms=30_000) == []
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 1


class WinsBetween:
    """A client through which another worker claims between our look and our claim."""

    def __init__(self, client, winner):
        self._client, self._winner = client, winner

    def xpending_range(self, *args, **options):
        found = self._client.xpending_range(*args, **options)
        assert self._winner.take_abandoned(10, idle_ms=30_000)
        return found

    def __getattr__(self, name):
        return getattr(self._client, name)


def test_full_redis_can_be_drained(client):
    reader = consumer(client)
    put(client, 50)
    entries = reader.take(50)
    client.config_set("maxmemory", 1)
    try:
        reader.acknowledge([entry.entry_id for entry in entries])
    finally:
        client.config_set("maxmemory", 0)
    found = backlog(client)
    assert (found.waiting, found.lost) == (0, 0)


def test_consumer_group_is_recreated_when_redis_returns_empty(client):
    reader = consumer(client)
    client.flushall()
    put(client)
    assert len(reader.take(1)) == 1


def test_backlog_counts_waiting_and_lost_entries(client):
    reader = consumer(client)
    put(client, 4)
    reader.acknowledge([entry.entry_id for entry in reader.take(1)])
    client.xtrim(names.SAMPLES, maxlen=2, approximate=False)
    found = backlog(client)
    assert (found.waiting, found.lost) == (2, 1)
    assert 0 <= found.oldest_age_s < 60


def test_trimmed_entries_count_as_lost_before_any_acknowledgement(client):
    put(client, 5)
    client.xtrim(names.SAMPLES, maxlen=2, approximate=False)
    assert (backlog(client).waiting, backlog(client).lost) == (2, 3)


def test_entry_in_work_has_a_news_age_until_entries_are_left_for_later(client):
    put(client)
    consumer(client).take(1)
    found = backlog(client)
    assert found.news_age_s == found.oldest_age_s is not None
    client.lpush(names.LATER, "0-0 0-1")
    assert backlog(client).news_age_s is None


def test_other_consumer_groups_do_not_change_the_backlog(client):
    put(client, 2)
    client.xgroup_create(names.SAMPLES, "another", id="$")
    client.xgroup_create(names.SAMPLES, names.GROUP, id="0")
    client.lpush(names.LATER, "0-0 0-1")
    found = backlog(client)
    assert found.news_age_s == found.oldest_age_s is not None


def test_backlog_of_an_unused_redis_is_empty(client):
    found = backlog(client)
    assert (found.waiting, found.lost, found.oldest_age_s) == (0, 0, None)


def test_acknowledging_twice_counts_once(client):
    reader = consumer(client)
    (sent,) = put(client)
    reader.take(1)
    reader.acknowledge([sent])
    reader.acknowledge([sent])
    assert client.get(names.ACKNOWLEDGED) == b"1"


def test_deleted_entries_are_counted_in_the_same_transaction(client):
    """Else a worker, or a Redis, that dies between the two leaves entries that seem lost."""
    reader = consumer(client)
    put(client, 1)
    (entry,) = reader.take(1)
    with client.monitor() as heard:
        reader.acknowledge([entry.entry_id])
        client.echo("end")
        seen = {}
        while "ECHO" not in seen:
            command = heard.next_command()
            seen[command["command"].split()[0].upper()] = command["client_type"]
    assert seen["XDEL"] == seen["INCRBY"] == "lua"


def test_lost_reply_to_an_acknowledgement_counts_no_entry_as_lost(client, redis_url, forgetful):
    first, second = put(client, 2)
    with connect(forgetful(redis_url, second.encode())) as broken:
        reader = consumer(broken)
        client.xreadgroup(names.GROUP, reader.name, {names.SAMPLES: ">"})
        reader.acknowledge([first])
        with pytest.raises(QueueUnavailableError):
            reader.acknowledge([second])
        reader.acknowledge([second])
    found = backlog(client)
    assert (found.waiting, found.lost) == (0, 0)


def test_consumer_with_pending_entries_is_not_forgotten(client):
    put(client)
    reader = consumer(client, "busy")
    reader.take(1)
    reader.leave()
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 1


def test_worker_without_a_recent_heartbeat_is_not_alive(client):
    client.zadd(names.WORKERS, {"old": 100.0, "new": 195.0})
    assert live_workers(client, now_s=200.0) == ["new"]
    assert live_workers(client, now_s=205.0) == ["new"]
    assert live_workers(client, now_s=205.1) == []


def test_stalled_workers_are_counted_and_the_last_is_named(client):
    assert read_stalls(client) == Stalls()
    note_stall(client, "a", "no progress", now_s=100.0)
    note_stall(client, "b", "no memory", now_s=200.5)
    assert read_stalls(client) == Stalls(count=2, at_s=200.5, worker="b", why="no memory")


def test_unreachable_redis_is_reported_in_one_line():
    client = connect(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(QueueUnavailableError, match="GROUNDWATCH_REDIS_URL"):
        Consumer(client, "a").ensure_group()


def test_wrong_redis_address_is_reported_in_one_line():
    with pytest.raises(QueueUnavailableError, match="redis://host:6379/0"):
        connect("http://localhost")


def redis_time(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return seconds + microseconds / 1e6


def test_keepalive_resets_the_idle_time_of_an_entry(client):
    (sent,) = put(client)
    worker = consumer(client, "slow")
    worker.take(1)
    client.xclaim(names.SAMPLES, names.GROUP, "slow", 0, [sent], idle=60_000, justid=True)
    worker.keep([])
    assert client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", 1, idle=50_000)
    worker.keep([sent])
    assert not client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", 1, idle=50_000)


def test_oldest_remaining_abandoned_entry_is_taken(client):
    first, second = put(client, 2)
    consumer(client, "dead").take(2)
    client.xdel(names.SAMPLES, first)
    (entry,) = consumer(client, "alive").take_abandoned(10, idle_ms=0)
    assert (entry.entry_id, entry.deliveries) == (second, 2)
    assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 1


def test_entry_has_the_time_redis_received_it(client):
    (sent,) = put(client, id="1700000000123-4")
    (entry,) = consumer(client).take(1)
    assert (entry.entry_id, entry.added_at_s, entry.deliveries) == (sent, 1_700_000_000.123, 1)


def test_clock_of_the_queue_is_that_of_redis(client):
    before = redis_time(client)
    found = consumer(client).now_s()
    assert before <= found <= redis_time(client)


def test_many_entries_are_acknowledged_in_several_steps(client):
    reader = consumer(client)
    put(client, 1)
    with client.pipeline() as pipe:
        for _ in range(2_100):
            pipe.xadd(names.SAMPLES, {"v": "1"})
        pipe.execute()
    reader.acknowledge([entry.entry_id for entry in reader.take(3_000)])
    assert (client.xlen(names.SAMPLES), client.get(names.ACKNOWLEDGED)) == (0, b"2101")


def test_worker_without_pending_entries_is_forgotten(client):
    reader = consumer(client, "idle")
    put(client)
    reader.acknowledge([entry.entry_id for entry in reader.take(1)])
    reader.leave()
    assert client.xinfo_consumers(names.SAMPLES, names.GROUP) == []


def test_age_of_the_oldest_is_by_the_clock_of_redis(client):
    (sent,) = put(client, id=f"{int((redis_time(client) - 90) * 1000)}-0")
    assert backlog(client).oldest_age_s == pytest.approx(
        redis_time(client) - int(sent[:-2]) / 1000, abs=30
    )
    assert backlog(client).oldest_age_s >= 90
    client.flushdb()
    put(client, id=f"{int((redis_time(client) + 90) * 1000)}-0")
    assert backlog(client).oldest_age_s == 0


def test_redis_refusal_is_reported_in_one_line(client):
    client.set(names.SAMPLES, "no stream")
    for ask in (lambda: backlog(client), lambda: Consumer(client, "a").take(1)):
        with pytest.raises(QueueUnavailableError, match="Redis refuses: "):
            ask()


def test_entry_at_the_cutoff_is_new_and_earlier_ones_are_left(client):
    reader = consumer(client)
    for at_ms in (1_699_999_999_999, 1_700_000_000_000):
        put(client, id=f"{at_ms}-5")
    newest = NewestFirst(client, reader.name)
    assert newest.skip_to(1_700_000_000.0)
    assert not newest.skip_to(1_700_000_000.0)
    assert [entry.entry_id for entry in reader.take(9)] == ["1700000000000-5"]
    assert [entry.entry_id for entry in newest.take_later(9)] == ["1699999999999-5"]
