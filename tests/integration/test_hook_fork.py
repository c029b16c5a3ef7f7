"""Forked before, during and after use: each process delivers its own samples, once."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import redis

import monitor
from monitor.queue import names, wire

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


def samples(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        return [
            wire.decode(fields).interaction.output for _, fields in client.xrange(names.SAMPLES)
        ]


def in_child(action):
    """Run *action* in a fork; its exit code is 0 when the action returned True."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        signal.alarm(100)
        code = 0 if action() else 2
    os._exit(code)


def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_child_starts_empty_and_delivers_its_own(hook, redis_url):
    hook.sample(output="parent before")
    hook_id = hook.stats()["hook_id"]

    def child():
        fresh = hook.stats()["seen"] == 0 and hook.stats()["hook_id"] != hook_id
        hook.sample(output="child")
        return fresh and hook.flush(60) and hook.stats()["sent"] == 1

    assert code_of(in_child(child)) == 0
    hook.sample(output="parent after")
    assert hook.flush(60)
    assert sorted(samples(redis_url)) == ["child", "parent after", "parent before"]
    assert hook.stats()["sent"] == 2


def test_fork_before_the_first_use_delivers(hook, redis_url):
    assert code_of(in_child(lambda: hook.sample(output="child") is None and hook.flush(60))) == 0
    assert samples(redis_url) == ["child"]


def test_forks_while_threads_sample_deliver(hook, redis_url):
    stop = threading.Event()

    def work():
        while not stop.is_set():
            hook.sample(output="parent")
            time.sleep(0.0005)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        children = [
            in_child(lambda: hook.sample(output="child") is None and hook.flush(60))
            for _ in range(12)
        ]
        codes = [code_of(child) for child in children]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert hook.flush(60)
    arrived = samples(redis_url)
    assert codes == [0] * 12
    assert arrived.count("child") == 12
    assert arrived.count("parent") == hook.stats()["sent"] == hook.stats()["sampled"]


def test_fork_while_the_sender_is_importing_delivers(redis_url):
    code = f"""
import monitor, os, signal
monitor.init(sample_rate=1.0, redis_url={redis_url!r})
monitor.sample(output="parent")
child = os.fork()
if child == 0:
    signal.alarm(100)
    monitor.sample(output="child")
    os._exit(0 if monitor.flush(60) else 2)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=100, check=False)
    assert done.returncode == 0
    assert sorted(samples(redis_url)) == ["child", "parent"]


def test_nested_forks_deliver(hook, redis_url):
    def grandchild():
        hook.sample(output="grandchild")
        return hook.flush(60)

    def child():
        hook.sample(output="child")
        return code_of(in_child(grandchild)) == 0 and hook.flush(60)

    assert code_of(in_child(child)) == 0
    assert sorted(samples(redis_url)) == ["child", "grandchild"]


def test_child_of_multiprocessing_delivers_at_its_exit(hook, redis_url):
    hook.sample(output="parent")
    worker = multiprocessing.get_context("fork").Process(
        target=hook.sample, kwargs={"output": "mp"}
    )
    worker.start()
    worker.join(100)
    assert worker.exitcode == 0
    assert hook.flush(60)
    assert sorted(samples(redis_url)) == ["mp", "parent"]


def test_child_delivers_after_a_fork_without_hooks(hook, redis_url):
    hook.sample(output="parent")
    recorder = hook._recorder
    recorder.pid = -1  # as after a fork by C code: the state is another process's
    hook.sample(output="child")
    assert hook.flush(60)
    assert "child" in samples(redis_url)
    assert hook._recorder is not recorder
    recorder.retire()
