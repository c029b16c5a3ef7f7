"""
Bugs that users of other SDKs have met, one letter each, and that the hook must not have.

Deeper tests of the same: A test_hook_reentry; B, C, D, L test_hook_fork; F, G
test_hook_servers_*; H, I, V test_hook_outage; M, P, U, W test_hook_delivery.
"""

import contextlib
import gc
import logging
import os
import random
import signal
import socket
import threading
import time
import weakref
from statistics import median

import pytest
import redis

import monitor
from monitor.queue import names
from support.waiting import PATIENT_EXIT

DOWN = "redis://:hunter2@127.0.0.1:1/0"


def forked(test):
    """Mark a test that forks."""
    threads = "ignore:This process .* is multi-threaded:DeprecationWarning"
    marked = pytest.mark.filterwarnings(threads)(test)
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")(marked)


@pytest.fixture
def make_hook(redis_url):
    hooks = []

    def make(**arguments):
        arguments = {"app": "bot", "sample_rate": 1.0, "redis_url": redis_url} | arguments
        hooks.append(monitor.Hook(**arguments))
        return hooks[-1]

    yield make
    for hook in hooks:
        hook.close(0.2)


@pytest.fixture
def hung_url():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def in_child(action):
    """Run *action* in a fork that may take ten seconds; True when it returned True."""
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            signal.alarm(10)
            code = 0 if action() else 2
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_garbage_collection_that_samples_does_not_deadlock(make_hook, told):
    hook, collected = make_hook(), []

    def on_collection(phase, _info):
        collected.append(phase)
        hook.sample(output="gc")

    former = gc.get_threshold()
    gc.callbacks.append(on_collection)
    gc.set_threshold(50)
    try:
        for _ in range(300):
            hook.sample(output="call", metadata={"a": [{}, {}]})
    finally:
        gc.callbacks.remove(on_collection)
        gc.set_threshold(*former)
    assert hook.flush(60)
    assert hook.stats()["seen"] == 300 + len(collected) > 300
    assert told().balanced


@forked
def test_b_child_forked_during_a_send_inherits_no_held_lock(make_hook, hung_url):
    hook = make_hook(redis_url=hung_url)
    hook.sample(output="a")
    time.sleep(0.3)  # the sender waits for an answer

    def child():
        hook.sample(output="b")
        return hook.stats()["seen"] == 1 and not hook.flush(0.1)

    assert in_child(child)


@forked
def test_c_child_delivers_its_own_samples(make_hook, told):
    hook = make_hook()
    hook.sample(output="parent")
    assert hook.flush(60)
    assert in_child(lambda: hook.sample(output="child") is None and hook.flush(60))
    assert told().outputs == {"parent": 1, "child": 1}


@forked
def test_d_samples_buffered_by_the_parent_are_delivered_once(make_hook, told):
    hook = make_hook()
    for _ in range(50):
        hook.sample(output="parent")
    for _ in range(3):
        assert in_child(lambda: hook.stats()["buffered"] == 0 and hook.flush(60))
    assert hook.flush(60)
    assert told().balanced
    assert told().outputs == {"parent": 50}


@forked
def test_e_hosts_random_numbers_are_untouched_and_children_differ(make_hook, told):
    hook = make_hook(sample_rate=0.5)
    random.seed(7)
    undisturbed = [random.random() for _ in range(5)]
    random.seed(7)
    for _ in range(200):
        hook.sample(output="parent")
    assert [random.random() for _ in range(5)] == undisturbed

    def child():
        for number in range(64):
            hook.sample(output=f"{number}")
        return hook.flush(60)

    for _ in range(2):
        assert in_child(child)
    assert 1 in told().outputs.values()  # chosen by one child only


def test_f_samples_from_gevent_greenlets_are_delivered(run, told):
    run("""
from gevent import monkey; monkey.patch_all()
import gevent, monitor
monitor.init(sample_rate=1.0, redis_url=REDIS_URL)
gevent.joinall([gevent.spawn(monitor.sample, output="greenlet") for _ in range(50)])
""")
    assert told().outputs == {"greenlet": 50}


def test_g_fork_without_fork_hooks_is_detected(make_hook, told):
    hook = make_hook()
    hook.sample(output="parent")
    assert hook.flush(60)
    recorder = hook._recorder
    recorder.pid = -1  # the state of another process, as after a fork in C
    hook.sample(output="child")
    assert hook.flush(60)
    recorder.retire()
    assert told().outputs == {"parent": 1, "child": 1}


def test_h_call_does_not_wait_for_an_unresponsive_backend(make_hook, hung_url):
    hook, took_s = make_hook(redis_url=hung_url, buffer_samples=100), []
    for _ in range(300):
        started = time.perf_counter()
        hook.sample(output="a" * 10_000)
        took_s.append(time.perf_counter() - started)
    assert median(took_s) < 0.02  # a shared machine holds some of them up


def test_i_exit_is_bounded_when_the_backend_is_unresponsive(run, hung_url):
    started = time.monotonic()
    run(f"""
import monitor
monitor.init(sample_rate=1.0, redis_url={hung_url!r})
monitor.sample(output="a")
""")
    assert time.monotonic() - started < 40  # 6 at most, and the start on a busy machine


def test_j_flush_returns_after_samples_were_dropped(make_hook):
    hook = make_hook(mask=lambda text: None)
    for _ in range(30):
        hook.sample(output="a")
        hook.sample(output=iter(()))
    assert hook.flush(60)
    assert hook.stats()["dropped"] == {"mask_failed": 30, "no_output": 30}


@pytest.mark.parametrize("how", ["atexit", "thread"])
def test_k_sampling_during_interpreter_exit_is_silent(run, told, how):
    run({"atexit": f"""
import atexit
atexit.register(lambda: monitor.sample(output="very late"))
import monitor
{PATIENT_EXIT}
monitor.init(sample_rate=1.0, redis_url=REDIS_URL)
atexit.register(lambda: monitor.sample(output="late"))
""", "thread": f"""
{PATIENT_EXIT}
import monitor, threading, time
monitor.init(sample_rate=1.0, redis_url=REDIS_URL)
def work():
    while True:
        monitor.sample(output="late")
        time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""}[how])  # fmt: skip
    assert told().outputs["late"] >= 1
    assert told().outputs.total() == told().sent


@forked
def test_l_child_that_exits_without_atexit_delivers(run, told):
    run(f"""{PATIENT_EXIT}
import multiprocessing, monitor
monitor.init(sample_rate=1.0, redis_url=REDIS_URL)
child = multiprocessing.get_context("fork").Process(
    target=monitor.sample, kwargs={{"output": "child"}})
child.start()
child.join()
""")
    assert told().outputs == {"child": 1}


def test_m_oversized_text_is_cut_and_never_raises(make_hook, told):
    hook = make_hook(max_text_chars=1_000)
    hook.sample(output="a" * 5_000_000, query="q" * 5_000_000, contexts=["c" * 5_000_000] * 3)
    assert hook.flush(60)
    assert told().outputs == {"a" * 333: 1}  # a third each


@pytest.mark.parametrize("odd", [os, threading.Lock(), logging.getLogger(), object()])
def test_n_odd_values_are_reported_and_never_traversed(make_hook, told, odd):
    hook = make_hook()
    hook.sample(output="a", metadata={"odd": odd, "deep": [[odd]]})
    assert hook.flush(60)
    assert told().balanced
    assert told().sent == 1


def test_o_encoding_and_masking_stay_off_the_callers_thread(make_hook):
    threads = set()
    hook = make_hook(mask=lambda text: threads.add(threading.get_ident()) or text)
    hook.sample(output="a", metadata={"k": "v"})
    assert hook.flush(60)
    assert threads
    assert threading.get_ident() not in threads


def test_p_streams_are_not_consumed(make_hook):
    hook, chunks, passages = make_hook(), iter("abc"), (text for text in "de")
    hook.sample(output=chunks)
    hook.sample(output="a", contexts=passages, metadata={"stream": chunks})
    assert (list(chunks), list(passages)) == (["a", "b", "c"], ["d", "e"])


def test_q_memory_is_bounded_by_characters_too(make_hook):
    hook = make_hook(redis_url=DOWN, buffer_chars=300_000)
    for _ in range(500):
        hook.sample(output="a" * 10_000)
    stats = hook.stats()
    assert stats["buffered"] * 10_000 <= 300_000
    assert stats["buffered"] + stats["dropped"]["buffer_full"] == 500


def test_r_released_hook_is_garbage_collected():
    hook = monitor.Hook(sample_rate=1.0, redis_url=DOWN)
    freed = weakref.ref(hook)
    del hook
    gc.collect()
    assert freed() is None


def test_s_zero_is_respected_as_a_configured_value(make_hook, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RATE", "1")
    hook = make_hook(sample_rate=0)
    for _ in range(100):
        hook.sample(output="a")
    assert hook.stats()["sampled"] == 0


def test_t_log_handler_that_samples_does_not_recur(make_hook):
    hook = make_hook(redis_url=DOWN)

    class Sampling(logging.Handler):
        lines = 0

        def emit(self, record):
            Sampling.lines += 1
            hook.sample(output=record.getMessage())

    handler, logger = Sampling(), logging.getLogger("groundwatch.hook")
    logger.addHandler(handler)
    try:
        for _ in range(20):
            hook.sample(output="a")
            time.sleep(0.02)
    finally:
        logger.removeHandler(handler)
    assert Sampling.lines <= 1
    assert hook.stats()["seen"] == 20 + Sampling.lines


def test_u_every_cut_and_drop_is_reported(make_hook, redis_url):
    hook = make_hook(max_text_chars=10, buffer_samples=1)
    for _ in range(3_000):
        hook.sample(output="a" * 50)
    assert hook.flush(60)
    stats = hook.stats()
    assert stats["sent"] + stats["dropped"]["buffer_full"] == 3_000
    with redis.Redis.from_url(redis_url) as client:
        [(_, fields), *_] = client.xrange(names.SAMPLES, count=1)
    assert b'"truncated":["output"]' in fields[b"body"]


def test_v_neither_texts_nor_passwords_are_logged(make_hook, caplog):
    hook = make_hook(redis_url=DOWN, buffer_samples=1)
    for _ in range(50):
        hook.sample(output="TOP SECRET", query="TOP SECRET")
    hook.flush(0.5)
    hook.close(0.1)
    shown = caplog.text + str(hook.stats())
    assert "hook" in caplog.text
    assert "SECRET" not in shown
    assert "hunter2" not in shown


def test_w_collections_that_change_during_capture_are_safe(make_hook, told):
    hook, metadata, contexts, stop = make_hook(), {}, [], threading.Event()

    def change():
        while not stop.is_set():
            for number in range(100):
                metadata[number] = [number]
                contexts.append("c")
            metadata.clear()
            contexts.clear()

    changer = threading.Thread(target=change)
    changer.start()
    for _ in range(300):
        hook.sample(output="a", contexts=contexts, metadata=metadata, tags=metadata)
    stop.set()
    changer.join()
    assert hook.flush(60)
    assert told().balanced
    assert told().seen == 300


def test_x_reading_the_counters_does_not_change_them(make_hook):
    hook = make_hook(redis_url=DOWN)
    hook.sample(output="a")
    for _ in range(5):
        assert hook.stats()["seen"] == hook.stats()["sampled"] == 1
