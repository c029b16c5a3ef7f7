"""``replay --wait`` comes before the worker does: it waits, and says for what."""

import threading
import time

import pytest
import redis

from monitor.cli.replay import await_worker
from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.schema import migrate


@pytest.fixture
def settings(redis_url, tmp_path):
    found = Settings(home=tmp_path / "home", redis_url=redis_url)
    found.home.mkdir()
    return found


def test_replay_waits_for_a_worker_that_starts_later(settings, capsys):
    def arrive():
        migrate(Store(settings.sql_url))
        with redis.Redis.from_url(settings.redis_url) as client:
            client.zadd(names.WORKERS, {"groundwatch-1@here": time.time()})

    starting = threading.Timer(0.5, arrive)
    starting.start()
    await_worker(settings, within_s=30)
    starting.join()

    first = capsys.readouterr().err.splitlines()[0]
    assert "there is no store at" in first
    assert first.endswith("waiting up to 30 s, in case it is starting")


def test_missing_scores_are_reported_when_none_arrive_in_time(settings):
    with pytest.raises(QueueUnavailableError, match=r"there is no store at .*; nothing was sent"):
        await_worker(settings, within_s=0.1)
