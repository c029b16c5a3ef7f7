"""``groundwatch doctor hook`` follows a test interaction, and says where it stops."""

import threading

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.cli.doctor import trial
from monitor.queue import names
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.ledger import last_heartbeat, read_totals
from workers.context import Components
from workers.maintenance import Collector


@pytest.fixture
def settings(redis_url, sqlite_url):
    return Settings(redis_url=redis_url, database_url=sqlite_url)


@pytest.fixture
def worker(settings):
    """Drain as a worker's task does, and be known to be alive."""
    context, stop = Components(settings), threading.Event()
    context.redis.zadd(names.WORKERS, {"worker@here": 1e12})

    def work():
        while not stop.is_set():
            drain = context.scoring_run(lambda: not stop.is_set())
            drain.idle_after_s = 0.1
            drain.run(budget_s=0.3)

    thread = threading.Thread(target=work)
    thread.start()
    yield context
    stop.set()
    thread.join()
    context.close()


def test_interaction_is_followed_to_the_store(settings, worker):
    found = list(trial(settings))
    assert [item.what for item in found] == ["hook → Redis", "worker", "worker → store"]
    assert all(item.ok for item in found)
    assert "ms" in found[0].found
    assert "ms" in found[2].found


def test_doctor_interaction_is_not_counted(settings, worker, sqlite_url):
    assert all(item.ok for item in trial(settings))
    store = Store(sqlite_url)
    lease = acquire(store, "scheduler", "test", ttl_s=60)
    Collector(worker.redis, store, bucket_s=60).run(lease)
    with store.read() as connection:
        assert read_totals(connection) == {}
        assert last_heartbeat(connection) is None
    store.close()


def test_missing_worker_is_named(settings):
    sent, worker = trial(settings)
    assert (sent.ok, worker.ok) == (True, False)
    assert "1 waiting in Redis" in worker.found


def test_silent_redis_is_named_with_its_error():
    [sent] = trial(Settings(redis_url="redis://:hunter2@127.0.0.1:1/0"))
    assert not sent.ok
    assert "ConnectionError" in sent.found
    assert "hunter2" not in sent.found


def test_doctor_hook_exits_with_one_when_redis_is_unreachable(monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", "redis://127.0.0.1:1/0")
    result = CliRunner().invoke(app, ["doctor", "hook"])
    assert result.exit_code == 1
    assert "✗ hook → Redis: not delivered" in result.stdout


@pytest.mark.parametrize("rules", ['[{"sample_rate": 0.0}]', "[]"])
def test_sampling_rules_do_not_block_the_test_interaction(settings, monkeypatch, rules):
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RULES", rules)
    monkeypatch.setenv("GROUNDWATCH_MAX_RATE", "0.01")
    assert next(trial(settings)).ok


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GROUNDWATCH_SAMPLE_RULES", '[{"rate": 1}]'), ("GROUNDWATCH_MIN_RATE", "2")],
)
def test_setting_that_switches_the_hook_off_is_named(settings, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    [found] = trial(settings)
    assert not found.ok
    assert variable in found.found
    assert "redis" not in (found.found + found.advice).lower()
