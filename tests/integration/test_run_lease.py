"""The lease of a worker's scoring run, in a real Redis."""

from contextlib import closing

import pytest

from monitor.queue import names
from monitor.queue.consumer import connect
from workers.waker import RunLease


@pytest.fixture
def client(redis_url):
    with closing(connect(redis_url)) as client:
        yield client


def test_one_drain_at_a_time_runs_in_a_slot(client):
    slot = RunLease(client, "w", 0)
    assert slot.take()
    assert not slot.runs()
    assert slot.begin(1.0)
    assert slot.runs()
    assert not slot.begin(2.0)
    assert not slot.take()
    slot.give_back()
    assert slot.take()


def test_late_wake_up_starts_no_drain(client):
    assert not RunLease(client, "w", 0).begin(1.0)
    assert not RunLease(client, "w", 0).runs()


def test_drain_records_when_its_wake_up_was_answered(client):
    slot = RunLease(client, "w", 0)
    slot.take()
    assert client.zscore(names.ANSWERED, "w") is None
    slot.begin(5.0)
    slot.give_back()
    assert client.zscore(names.ANSWERED, "w") == 5.0
