"""The monitor notices its own blindness: samples that wait, a Redis that is away."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from alerts.decide import decide
from alerts.state import timers_from
from monitor.models.status import Status
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.testing import make_sample, make_verdict
from workers.self_monitoring import QueueWatch
from workers.supervise import free_port


@pytest.fixture
def watch(redis_url):
    client = connect(redis_url)
    yield QueueWatch(client)
    client.close()


def test_empty_queue_is_not_a_problem(watch):
    assert watch.trouble(datetime.now(UTC)) is None


def test_fresh_samples_are_not_a_problem(watch):
    watch.client.xadd(names.SAMPLES, encode(make_sample()))
    assert watch.trouble(datetime.now(UTC)) is None


def test_samples_waiting_for_minutes_are_reported(watch):
    ten_minutes_ago = f"{(watch.client.time()[0] - 600) * 1000}-1"
    watch.client.xadd(names.SAMPLES, encode(make_sample()), id=ten_minutes_ago)
    found = watch.trouble(datetime.now(UTC))
    # The queue's clock has gone on since, by a second or two on a busy machine.
    assert re.fullmatch(r"1 samples wait, the oldest for 10 min( \d+ s)?", found)


def test_local_clock_ahead_makes_no_sample_old(watch):
    watch.client.xadd(names.SAMPLES, encode(make_sample()))
    assert watch.trouble(datetime.now(UTC) + timedelta(hours=1)) is None


def test_sample_from_the_future_has_age_zero(watch):
    ahead = f"{(watch.client.time()[0] + 3600) * 1000}-1"
    watch.client.xadd(names.SAMPLES, encode(make_sample()), id=ahead)
    assert watch.trouble(datetime.now(UTC)) is None
    assert watch.last.oldest_age_s == 0


def test_redis_outage_is_reported_only_when_it_lasts():
    watch = QueueWatch(connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5))
    now = datetime.now(UTC)
    assert watch.trouble(now) is None
    assert "unreachable for 6 min" in watch.trouble(now + timedelta(minutes=6))


def test_redis_outage_is_notified_within_four_minutes(store):
    watch = QueueWatch(connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5))
    began, heard = datetime.now(UTC), None
    for seconds in range(0, 600, 15):
        now = began + timedelta(seconds=seconds)
        away = watch.trouble(now)
        status = Status.BLIND if away else Status.HEALTHY
        verdict = make_verdict(status, now, reason=away or "well")
        with store.write() as connection:
            events = decide(
                connection, [verdict], now=now, timers=timers_from(Settings()), channels=[]
            )
        heard = heard or (now - began if events else None)
    assert timedelta(minutes=2) < heard < timedelta(minutes=4)
