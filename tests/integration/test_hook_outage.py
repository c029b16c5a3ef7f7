"""Redis refuses, hangs, restarts or is full: the app does not notice, and the counts stay exact."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from statistics import median

import pytest
import redis

import monitor
from monitor.errors import QueueUnavailableError
from monitor.hook import delivery
from monitor.hook.options import resolve
from monitor.hook.recorder import Recorder
from monitor.queue import names, wire
from monitor.queue.producer import Producer
from support.redis_server import RedisServer
from support.waiting import PATIENT_EXIT, wait_until


@pytest.fixture
def hung_url():
    """A server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://:hunter2@127.0.0.1:{server.getsockname()[1]}/0"


@pytest.fixture
def own_server(tmp_path):
    with RedisServer(tmp_path, durable=False) as server:
        yield server


@pytest.fixture
def endless_url(request):
    """A server whose first answer begins as the test says and never ends."""
    begins, goes_on = request.param

    def answer(server):
        with contextlib.suppress(OSError):
            connection = server.accept()[0]
            with connection:
                connection.recv(65_536)
                connection.sendall(begins)
                while True:
                    connection.sendall(goes_on)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@pytest.mark.parametrize(
    "endless_url",
    [(b"$999999999\r\n", b"x" * 65_536), (b"*999999999\r\n", b":1\r\n" * 16_384),
     (b"+", b"x" * 65_536)],
    indirect=True, ids=["text", "list", "line"],
)  # fmt: skip
def test_endless_reply_is_given_up(endless_url):
    producer = Producer(endless_url, queue_limit=10)
    with pytest.raises(QueueUnavailableError, match="the answer is too long"):
        producer.send([], app="a", hook_id="h", counters={"seen": 0}, heartbeat_at_ms=0)


def test_samples_arrive_with_an_unknown_redis_client_version(own_server, monkeypatch):
    monkeypatch.setitem(sys.modules, "redis._parsers.resp2", None)
    hook = monitor.Hook(sample_rate=1.0, redis_url=own_server.url)
    hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sent"] == 1
    hook.close(1)


def test_caller_does_not_wait_when_redis_hangs(hung_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=hung_url, buffer_samples=50)
    calls_s, flushes_s = [], []
    for _ in range(500):
        started = time.perf_counter()
        hook.sample(query="q", contexts=["c" * 1_000], output="a")
        calls_s.append(time.perf_counter() - started)
    for _ in range(5):
        started = time.perf_counter()
        assert not hook.flush(timeout=0.1)
        flushes_s.append(time.perf_counter() - started)
    assert not hook.close(timeout=0.2)
    # A busy machine holds some of them up.
    assert median(calls_s) < 0.02
    assert min(flushes_s) < 0.5
    stats = hook.stats()
    assert stats["sampled"] == 500 == stats["buffered"] + stats["dropped"]["buffer_full"]


@pytest.mark.parametrize("url", ["redis://:hunter2@127.0.0.1:1/0", "redis://:hunter2/x@h/0"])
def test_error_is_logged_without_the_password(url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=url)
    hook.sample(output="a")
    wait_until(lambda: hook.stats()["last_error"])
    assert "hunter2" not in str(hook.stats())
    assert not hook.stats()["connected"]
    hook.close(0.1)


def test_redelivery_after_a_lost_reply_is_counted_once(own_server, forgetful):
    hook = monitor.Hook(sample_rate=1.0, redis_url=forgetful(own_server.url, b"EXEC"))
    hook.sample(output="a")
    assert hook.flush(60)
    with redis.Redis.from_url(own_server.url) as client:
        ids = [wire.decode(fields).sample_id for _, fields in client.xrange(names.SAMPLES)]
        told = client.hgetall(names.hook(hook.stats()["hook_id"]))
    assert (len(ids), len(set(ids))) == (2, 1)
    assert (told[b"sent"], hook.stats()["sent"]) == (b"1", 1)
    assert hook.close(60)


def test_every_sample_arrives_once_redis_is_back(own_server):
    own_server.stop()
    hook = monitor.Hook(sample_rate=1.0, redis_url=own_server.url)
    for _ in range(60):
        hook.sample(output="a")
    wait_until(lambda: hook.stats()["last_error"])
    assert hook.stats()["buffered"] == 60
    own_server.start()
    assert hook.flush(60)
    with redis.Redis.from_url(own_server.url) as client:
        assert client.xlen(names.SAMPLES) == 60
    assert (hook.stats()["sent"], hook.stats()["dropped"]) == (60, {})
    assert hook.close(60)


def test_hook_continues_when_redis_restarts(own_server):
    hook = monitor.Hook(sample_rate=1.0, redis_url=own_server.url)
    hook.sample(output="a")
    assert hook.flush(60)
    own_server.kill()
    hook.sample(output="b")
    wait_until(lambda: not hook.stats()["connected"])
    own_server.start()
    assert hook.flush(60)
    with redis.Redis.from_url(own_server.url) as client:
        assert outputs(client) == ["a", "b"]  # the first went with the server's memory
    assert hook.stats()["sent"] == 2
    assert hook.close(60)


@pytest.fixture
def durable_server(tmp_path):
    with RedisServer(tmp_path) as server:
        yield server


def outputs(client):
    return [wire.decode(fields).interaction.output for _, fields in client.xrange(names.SAMPLES)]


@pytest.mark.parametrize("may_ask", [True, False])
def test_samples_lost_by_a_killed_redis_are_sent_again(durable_server, monkeypatch, may_ask):
    monkeypatch.setattr(delivery, "SYNCED_AFTER_S", 60.0)  # however busy the machine
    with redis.Redis.from_url(durable_server.url) as client:
        hook = monitor.Hook(sample_rate=1.0, redis_url=durable_server.url)
        hook.sample(output="a")
        assert hook.flush(60)
        with durable_server.losing():
            for output in "bcd":
                hook.sample(output=output)
                hook.feedback(trace_id=output * 32, good=True)
                assert hook.flush(60)
        durable_server.start()
        if not may_ask:
            client.acl_setuser("default", enabled=True, nopass=True, commands=["+@all", "-hmget"])
        hook.sample(output="e")
        assert hook.flush(60)
        assert outputs(client) == list("abcde" if may_ask else "aabcde")
        assert client.xlen(names.FEEDBACK) == 3
        told = client.hgetall(names.hook(hook.stats()["hook_id"]))
    assert (told[b"sent"], told[b"feedback:sent"], hook.stats()["sent"]) == (b"5", b"3", 5)
    assert hook.close(60)


def test_idle_app_resends_samples_lost_by_redis_with_its_report(durable_server, monkeypatch):
    monkeypatch.setattr(delivery, "SYNCED_AFTER_S", 60.0)
    hook = monitor.Hook(sample_rate=1.0, redis_url=durable_server.url)
    hook.sample(output="a")
    assert hook.flush(60)
    with durable_server.losing():
        hook.sample(output="b")
        assert hook.flush(60)
    durable_server.start()
    with redis.Redis.from_url(durable_server.url) as client:
        wait_until(lambda: outputs(client) == ["a", "b"])
    assert hook.close(60)


@pytest.mark.parametrize("trouble", ["memory", "type", "readonly"])
def test_samples_wait_while_redis_refuses_writes(own_server, trouble):
    with redis.Redis.from_url(own_server.url) as client:
        cause, cure = {
            "memory": (
                lambda: client.config_set("maxmemory", "1"),
                lambda: client.config_set("maxmemory", "0"),
            ),
            "type": (
                lambda: client.set(names.SAMPLES, "x"),
                lambda: client.delete(names.SAMPLES),
            ),
            "readonly": (
                lambda: client.replicaof("127.0.0.1", "1"),
                lambda: client.replicaof("NO", "ONE"),
            ),
        }[trouble]
        cause()
        hook = monitor.Hook(sample_rate=1.0, redis_url=own_server.url)
        hook.sample(output="a")
        wait_until(lambda: hook.stats()["last_error"])
        assert (hook.stats()["buffered"], hook.stats()["sent"]) == (1, 0)
        cure()
        assert hook.flush(60)
        assert client.xlen(names.SAMPLES) == hook.stats()["sent"] == 1
        assert hook.close(60)


def test_batch_is_dropped_and_counted_when_redis_stays_unreachable(monkeypatch):
    monkeypatch.setattr(delivery, "BATCH_KEPT_S", 0.0)
    hook = monitor.Hook(sample_rate=1.0, redis_url="redis://127.0.0.1:1/0")
    hook.sample(output="a")
    wait_until(lambda: hook.stats()["dropped"] == {"redis_unavailable": 1})
    assert hook.stats()["buffered"] == 0
    hook.close(0.1)


def test_remaining_samples_are_counted_when_closing_without_redis():
    hook = monitor.Hook(sample_rate=1.0, redis_url="redis://127.0.0.1:1/0")
    for _ in range(30):
        hook.sample(output="a")
    assert not hook.close(timeout=0.3)
    wait_until(lambda: hook.stats()["dropped"] == {"shutdown": 30})
    assert hook.stats()["buffered"] == 0


#: Two seconds, or six where a busy machine takes long to load the Redis client; and the end of an
#: interpreter on such a machine. Without a bound it would never end.
_EXIT_S = 40.0


def _exit_time_s(url, waits=""):
    code = (
        f"{waits}\n"
        "import monitor, time\n"
        f"monitor.init(sample_rate=1.0, redis_url={url!r})\n"
        "for _ in range(40): monitor.sample(output='a')\n"
        "print(time.time(), flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stderr == ""
    return time.time() - float(done.stdout)


def test_exit_delivers_every_sample(redis_url):
    assert _exit_time_s(redis_url, PATIENT_EXIT) < _EXIT_S
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen(names.SAMPLES) == 40
        [hook_id] = client.zrange(names.HOOKS, 0, -1)
        assert client.hget(names.hook(hook_id.decode()), "sent") == b"40"


@pytest.mark.parametrize("how", ["hung", "refused"])
def test_exit_is_bounded_when_redis_is_unreachable(hung_url, how):
    url = hung_url if how == "hung" else "redis://127.0.0.1:1/0"
    assert _exit_time_s(url) < _EXIT_S


def test_last_batch_and_counters_are_sent_at_the_deadline(redis_url, told, monkeypatch):
    monkeypatch.setattr(delivery, "BATCH", 4)
    # however slow the machine is, no batch ends early
    monkeypatch.setattr(delivery.SenderLoop._fill, "__defaults__", (60.0,))
    recorder = Recorder(resolve({"app": "bot", "sample_rate": 1.0, "redis_url": redis_url}))
    for _ in range(10):
        recorder.record({"output": "a"}, 1.0)
    recorder.finish(0.0)
    assert delivery.SenderLoop(recorder).step(time.monotonic()) is None
    assert told().balanced
    assert (told().sent, told().dropped) == (8, {"shutdown": 2})


SLOW_TO_LOAD = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "redis":
            time.sleep({seconds})

sys.meta_path.insert(0, Slow())
import monitor
monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
for _ in range(40):
    monitor.sample(output="a")
"""


def test_exit_waits_for_a_machine_that_is_slow_to_load_the_client(run, told):
    run(SLOW_TO_LOAD.format(seconds=2.2) + PATIENT_EXIT)
    assert told().balanced
    assert told().outputs == {"a": 40}


def test_exit_does_not_wait_for_a_client_that_cannot_be_loaded(run, told):
    run(SLOW_TO_LOAD.format(seconds=600), timeout_s=100.0)
    assert not told().outputs


OLD_ENCODER = """
import logging
import pydantic_core

encode = pydantic_core.to_json

def to_json(value, *, inf_nan_mode="constants", **more):  # as pydantic 2.7 has it
    if inf_nan_mode == "strings":
        raise pydantic_core.SchemaError("Invalid InfNanMode")
    return encode(value, inf_nan_mode=inf_nan_mode, **more)

pydantic_core.to_json = to_json
logging.basicConfig(format="%(message)s", filename={log!r})
import monitor
monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
monitor.sample(output="a")
assert monitor.flush(60)
assert monitor.stats()["last_error"] == "encode_failed: SchemaError", monitor.stats()
assert monitor.stats()["dropped"] == {{"encode_failed": 1}}
"""


def test_encoding_error_is_reported_in_redis_and_in_the_log(run, tmp_path, redis_url):
    run(OLD_ENCODER.format(log=str(tmp_path / "log")))
    with redis.Redis.from_url(redis_url) as client:
        [hook_id] = client.zrange(names.HOOKS, 0, -1)
        told = client.hgetall(names.hook(hook_id.decode()))
    assert told[b"last_error"] == b"encode_failed: SchemaError"
    assert 'dropped="encode_failed 1 (SchemaError)"' in (tmp_path / "log").read_text()


def test_app_without_logging_gets_one_stderr_line_about_redis():
    code = (
        "import monitor, time, monitor.hook.delivery as delivery\n"
        "delivery.SAY_AWAY_AFTER_S = 0.0\n"
        "monitor.init(sample_rate=1.0, redis_url='redis://127.0.0.1:1/0')\n"
        "for _ in range(4): monitor.sample(output='a'); time.sleep(0.3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stderr.count("groundwatch: Redis cannot be reached") == 1
    assert "GROUNDWATCH_REDIS_URL" in done.stderr


def test_requested_rate_expires_during_a_redis_outage(own_server):
    with redis.Redis.from_url(own_server.url) as client:
        client.set(names.rate("bot"), "0.5")
    hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url=own_server.url)
    hook.sample(output="a")
    assert hook.flush(60)
    assert hook.stats()["sample_rate"] == 0.5
    own_server.stop()
    hook.sample(output="a")
    wait_until(lambda: hook.sample(output="a") or hook.stats()["sample_rate"] == 1.0)
    hook.close(0.1)
