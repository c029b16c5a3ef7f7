"""The hook is entered again on the same thread, by a signal or by the garbage collector."""

import datetime as dt
import gc
import signal
import threading
import time

import pytest
import redis

import monitor
from monitor.queue import names


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


def arrived(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        return client.xlen(names.SAMPLES)


def assert_exact(hook, redis_url, seen):
    assert hook.flush(60)
    stats = hook.stats()
    assert stats["seen"] == stats["sampled"] == seen
    assert stats["sent"] + sum(stats["dropped"].values()) == seen
    assert arrived(redis_url) == stats["sent"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_signal_handler_may_sample_and_flush_state(hook, redis_url):
    handled = 0

    def handler(*_):
        nonlocal handled
        handled += 1
        hook.sample(output="signal")
        hook.stats()

    former = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        called, deadline = 0, time.monotonic() + 10
        while (handled < 50 or called < 2_000) and time.monotonic() < deadline:
            hook.sample(output="call")
            called += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert handled >= 50
    assert_exact(hook, redis_url, called + handled)


def test_destructor_may_sample_during_collection(hook, redis_url):
    died = 0

    class Loop:
        def __init__(self):
            self.me = self

        def __del__(self):
            nonlocal died
            died += 1
            hook.sample(output="destructor")

    former = gc.get_threshold()
    gc.set_threshold(10)
    try:
        for _ in range(500):
            Loop()
            hook.sample(output="call", metadata={"a": [{}, {}]})
    finally:
        gc.set_threshold(*former)
    gc.collect()
    assert died == 500
    assert_exact(hook, redis_url, 1_000)


def test_racing_first_calls_share_one_recorder(redis_url):
    for _ in range(20):
        hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
        barrier = threading.Barrier(8)

        def first(hook=hook, barrier=barrier):
            barrier.wait()
            hook.sample(output="a")

        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert hook.close(60)
        assert hook.stats()["sent"] == 8
    assert arrived(redis_url) == 160


@pytest.mark.parametrize("own", [True, False], ids=["of one call", "of the hook"])
def test_mask_that_samples_and_flushes_does_not_hang_the_sender(redis_url, own):
    def mask(text):
        hook.sample(output="recursion")
        hook.feedback(trace_id="recursion", good=True)
        hook.flush(timeout=0.01)
        return text

    of_hook, of_call = ({}, {"mask": mask}) if own else ({"mask": mask}, {})
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url, **of_hook)
    for n in (1, 2):
        hook.sample(output="a", **of_call)
        assert hook.flush(60)
        assert hook.stats()["sampled"] == hook.stats()["sent"] == arrived(redis_url) == n
    assert hook.stats()["feedback"]["given"] == 0
    hook.close(0.2)


def test_interrupt_during_capture_reaches_the_host_and_is_counted(hook):
    class Interrupting(dt.tzinfo):
        def utcoffset(self, _):
            raise KeyboardInterrupt

    at = dt.datetime(2026, 1, 1, tzinfo=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        hook.sample(output="a", metadata={"at": at})
    assert hook.stats()["dropped"] == {"capture_failed": 1}
