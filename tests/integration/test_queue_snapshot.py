"""What Redis holds at one moment: samples that wait, all of them or only their number."""

import pytest
import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names, wire
from monitor.queue.snapshot import add_events, read_events, take_snapshot
from monitor.testing import make_interaction, make_sample


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client


def put(client, app="bot"):
    sample = make_sample(make_interaction(app=app))
    client.xadd(names.SAMPLES, wire.encode(sample))
    return sample.sample_id


def test_empty_redis_holds_nothing(client):
    found = take_snapshot(client, most_read=10)
    assert (found.hooks, found.waiting, found.sample_ids) == ({}, 0, ())
    assert (found.lost, found.feedback) == (0, 0)


def test_samples_that_wait_are_named_and_those_of_a_test_left_out(client):
    ids = [put(client), put(client, names.DOCTOR_APP), put(client)]
    found = take_snapshot(client, most_read=3)
    assert (found.waiting, found.sample_ids) == (2, (ids[0], ids[2]))


def test_too_many_to_read_are_only_counted(client):
    for _ in range(4):
        put(client)
    found = take_snapshot(client, most_read=3)
    assert (found.waiting, found.sample_ids) == (4, None)


def test_what_was_trimmed_before_anybody_took_it_is_lost(client):
    for _ in range(5):
        put(client)
    client.xtrim(names.SAMPLES, maxlen=2, approximate=False)
    client.set(names.ACKNOWLEDGED, 1)
    assert take_snapshot(client, most_read=10).lost == 2


def test_counters_of_each_hook_are_read(client):
    client.zadd(names.HOOKS, {"a": 1, "b": 2, "gone": 3})
    for name in ("a", "b"):
        client.hset(names.hook(name), mapping={"seen": f"{name}1"})
    assert take_snapshot(client, most_read=10).hooks == {
        "a": {b"seen": b"a1"},
        "b": {b"seen": b"b1"},
    }


def test_stream_of_another_kind_is_said_in_one_line(client):
    client.set(names.SAMPLES, "x")
    with pytest.raises(QueueUnavailableError, match="Redis refuses"):
        take_snapshot(client, most_read=10)


def test_events_of_all_workers_add_up(client):
    assert read_events(client) == {}
    for news in ({"sent": 2}, {"sent": 3, "failed": 1}):
        add_events(client, news)
    assert read_events(client) == {"sent": 5, "failed": 1}
