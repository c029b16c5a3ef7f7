"""What Redis holds at one moment: samples that wait, all of them or only their number."""

import pytest
import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names, wire
from monitor.queue.consumer import backlog
from monitor.queue.snapshot import add_events, note_stall, read_events, take_snapshot
from monitor.testing import make_interaction, make_sample


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client


def put(client, app="bot"):
    sample = make_sample(make_interaction(app=app))
    client.xadd(names.SAMPLES, wire.encode(sample))
    return sample.sample_id


def test_snapshot_of_an_empty_redis_is_empty(client):
    found = take_snapshot(client, most_read=10)
    assert (found.hooks, found.waiting, found.sample_ids) == ({}, 0, ())
    assert (found.lost, found.feedback) == (0, 0)


def test_waiting_samples_are_listed_without_doctor_samples(client):
    ids = [put(client), put(client, names.DOCTOR_APP), put(client)]
    found = take_snapshot(client, most_read=3)
    assert (found.waiting, found.sample_ids) == (2, (ids[0], ids[2]))


@pytest.mark.parametrize("most_read", [1, 3])
def test_too_many_to_read_are_only_counted(client, most_read):
    for _ in range(most_read + 1):
        put(client)
    found = take_snapshot(client, most_read=most_read)
    assert (found.waiting, found.sample_ids) == (most_read + 1, None)


def test_entries_trimmed_before_delivery_count_as_lost(client):
    for _ in range(5):
        put(client)
    client.xtrim(names.SAMPLES, maxlen=2, approximate=False)
    assert take_snapshot(client, most_read=10).lost == 3
    client.set(names.ACKNOWLEDGED, 1)
    assert take_snapshot(client, most_read=10).lost == 2


def test_counters_of_every_hook_are_read_and_those_that_expired_left_out(client):
    client.zadd(names.HOOKS, {"a": 1, "b": 2, "gone": 3, "c": 4, "d": 5})
    for name in "abcd":
        client.hset(names.hook(name), mapping={"seen": f"{name}1"})
    assert take_snapshot(client, most_read=10).hooks == {
        name: {b"seen": f"{name}1".encode()} for name in "abcd"
    }


@pytest.mark.parametrize(
    "step",
    [
        lambda client: take_snapshot(client, most_read=10),
        backlog,
        lambda client: add_events(client, {"sent": 1, "failed": 1}),
        lambda client: note_stall(client, "w", "no progress", now_s=1.0),
    ],
    ids=["snapshot", "backlog", "events", "stall"],
)
def test_related_keys_are_read_and_written_in_one_transaction(client, step):
    client.config_resetstat()
    step(client)
    assert "cmdstat_exec" in client.info("commandstats")


def test_key_of_another_type_is_reported_in_one_line(client):
    client.set(names.SAMPLES, "x")
    with pytest.raises(QueueUnavailableError, match="Redis refuses"):
        take_snapshot(client, most_read=10)


def test_events_of_all_workers_add_up(client):
    assert read_events(client) == {}
    for news in ({"sent": 2}, {"sent": 3, "failed": 1}):
        add_events(client, news)
    assert read_events(client) == {"sent": 5, "failed": 1}
