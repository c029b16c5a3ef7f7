"""The monitor notices its own blindness: samples that wait, a Redis that is away."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.queue.wire import encode
from monitor.testing import make_sample
from workers.self_monitoring import QueueWatch
from workers.supervise import free_port


@pytest.fixture
def watch(redis_url):
    client = connect(redis_url)
    yield QueueWatch(client)
    client.close()


def test_empty_queue_is_no_trouble(watch):
    assert watch.trouble(datetime.now(UTC)) is None


def test_fresh_samples_are_no_trouble(watch):
    watch.client.xadd(names.SAMPLES, encode(make_sample()))
    assert watch.trouble(datetime.now(UTC)) is None


def test_samples_that_wait_for_minutes_are(watch):
    ten_minutes_ago = f"{(watch.client.time()[0] - 600) * 1000}-1"
    watch.client.xadd(names.SAMPLES, encode(make_sample()), id=ten_minutes_ago)
    found = watch.trouble(datetime.now(UTC))
    # The queue's clock has gone on since, by a second or two on a busy machine.
    assert re.fullmatch(r"1 samples wait, the oldest for 10 min( \d+ s)?", found)


def test_clock_of_ours_that_is_ahead_makes_no_sample_old(watch):
    watch.client.xadd(names.SAMPLES, encode(make_sample()))
    assert watch.trouble(datetime.now(UTC) + timedelta(hours=1)) is None


def test_clock_of_the_queue_that_was_set_back_makes_none_younger_than_new(watch):
    ahead = f"{(watch.client.time()[0] + 3600) * 1000}-1"
    watch.client.xadd(names.SAMPLES, encode(make_sample()), id=ahead)
    assert watch.trouble(datetime.now(UTC)) is None
    assert watch.last.oldest_age_s == 0


def test_redis_away_is_trouble_only_when_it_lasts():
    watch = QueueWatch(connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5))
    now = datetime.now(UTC)
    assert watch.trouble(now) is None
    assert "away for 6 min" in watch.trouble(now + timedelta(minutes=6))
