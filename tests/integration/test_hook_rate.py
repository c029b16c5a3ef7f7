"""The workers change the rate while the app runs, and every record says what was in force."""

import pytest
import redis

import monitor
from monitor.queue import names, wire
from monitor.settings import Settings
from support.waiting import wait_until
from workers.tuning import clear_rate, set_rate


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


def rates(client):
    return [wire.decode(fields).sample_rate for _, fields in client.xrange(names.SAMPLES)]


def test_hook_adopts_the_rate_with_its_next_batch(client, hook):
    set_rate(client, "bot", 0.25, Settings())
    hook.sample(output="before")
    assert hook.flush(60)
    for _ in range(400):
        hook.sample(output="after")
    assert hook.flush(60)
    assert rates(client)[0] == 1.0
    assert set(rates(client)[1:]) == {0.25}
    assert 40 < client.xlen(names.SAMPLES) < 180
    assert hook.stats()["seen"] == 401


def test_hook_adopts_the_rate_within_a_heartbeat_when_idle(client, redis_url, monkeypatch):
    monkeypatch.setattr("monitor.hook.delivery.HEARTBEAT_S", 0.2)
    hook = monitor.Hook(app="bot", sample_rate=0.001, redis_url=redis_url)
    hook.stats()
    hook.flush()
    set_rate(client, "bot", 1.0, Settings())
    wait_until(lambda: hook.stats()["sample_rate"] == 1.0)
    hook.sample(output="a")
    assert hook.close(60)
    assert rates(client) == [1.0]


def test_hook_returns_to_its_own_rate_when_none_is_requested(client, hook):
    set_rate(client, "bot", 0.5, Settings())
    hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sample_rate"] == 0.5
    clear_rate(client, "bot")
    hook.sample(output="a")
    for _ in range(20):
        hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sample_rate"] == 1.0


def test_rate_of_another_app_is_ignored(client, hook):
    set_rate(client, "other", 0.5, Settings())
    hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sample_rate"] == 1.0


@pytest.mark.parametrize("raw", ["lots", "", "nan", "7", "-1"])
def test_invalid_rate_in_redis_is_ignored(client, hook, raw):
    client.set(names.rate("bot"), raw)
    hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sample_rate"] == 1.0


@pytest.mark.parametrize(("asked", "set_"), [(0.9, 0.5), (0.01, 0.1), (0.3, 0.3)])
def test_rate_stays_within_the_limits_of_the_settings(client, asked, set_):
    assert set_rate(client, "bot", asked, Settings(min_rate=0.1, max_rate=0.5)) == set_
    assert float(client.get(names.rate("bot"))) == set_


def test_requested_rate_expires(client):
    set_rate(client, "bot", 0.5, Settings(), kept_s=100)
    assert 0 < client.ttl(names.rate("bot")) <= 100


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_invalid_rate_is_refused(client, rate):
    with pytest.raises(ValueError, match="from 0 to 1"):
        set_rate(client, "bot", rate, Settings())
    assert client.get(names.rate("bot")) is None
