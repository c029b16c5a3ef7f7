"""The hook in processes of every making, under gevent and in an event loop: exact counts."""

import sys

import numpy as np
import pytest

from support.waiting import PATIENT_EXIT

MULTIPROCESSING = """
import multiprocessing, sys
import monitor

def work(n):
    monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
    for _ in range(n):
        monitor.sample(output="child")

if __name__ == "__main__":
    monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
    monitor.sample(output="parent")
    assert monitor.flush(60)
    context = multiprocessing.get_context({how!r})
    children = [context.Process(target=work, args=(10,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    monitor.sample(output="parent")
"""
POOL = """
import concurrent.futures, multiprocessing
import monitor

def work(n):
    monitor.sample(output="child")
    return n

if __name__ == "__main__":
    monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
    monitor.sample(output="parent")
    assert monitor.flush(60)
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert sum(pool.map(work, range(20))) == 190
"""
GEVENT = """
{before}
import gevent
import monitor
monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
{between}

def work():
    for _ in range(20):
        monitor.sample(output="greenlet")
        gevent.sleep(0.001)

gevent.joinall([gevent.spawn(work) for _ in range(20)], timeout=60)
assert monitor.flush(60), monitor.stats()
monitor.sample(output="after the flush")
"""
PATCH = "from gevent import monkey; monkey.patch_all()"
LOOP = """
import asyncio, time
import monitor
monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)

async def sample():
    for _ in range(60):
        monitor.sample(query="q", contexts=["c" * 1_000] * 4, output="a" * 800)
        await asyncio.sleep(0.001)

async def lags():
    found = []
    for _ in range(50):
        due = time.perf_counter() + 0.005
        await asyncio.sleep(0.005)
        found.append(time.perf_counter() - due)
    found.sort()
    return found[len(found) // 2], found[int(len(found) * 0.95)]

async def main():
    for _ in range(6):
        usual = await lags()
        sampling, _ = await asyncio.gather(lags(), sample())
        print(*usual, *sampling)

asyncio.run(main())
assert monitor.flush(60)
assert monitor.stats()["seen"] == 360, monitor.stats()
"""

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


@needs_fork
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_deliver_at_their_exit(run, told, how):
    run(PATIENT_EXIT + MULTIPROCESSING.format(how=how))
    assert told().balanced
    assert told().outputs == {"parent": 2, "child": 30}
    assert told().seen == 32


@needs_fork
def test_children_of_a_pool_deliver_at_their_exit(run, told):
    run(POOL)
    assert told().balanced
    assert told().outputs == {"parent": 1, "child": 20}


@needs_fork
@pytest.mark.parametrize("when", ["early", "late"])
def test_greenlets_sample_whether_patched_before_or_after_the_import(run, told, when):
    early = when == "early"
    run(GEVENT.format(before=PATCH if early else "", between="" if early else PATCH))
    assert told().balanced
    assert told().outputs == {"greenlet": 400, "after the flush": 1}


@needs_fork
def test_greenlets_sample_when_patched_after_the_first_use(run, told):
    used = "monitor.sample(output='first'); assert monitor.flush(60)"
    run(GEVENT.format(before="", between=f"{used}\n{PATCH}"))
    assert told().balanced
    assert told().outputs == {"first": 1, "greenlet": 400, "after the flush": 1}


def test_nothing_is_imported_after_the_senders_start(run):
    # A child that is forked amid an import of another thread could never finish it.
    run("""
import monitor, sys
from monitor.hook import delivery
known = set(sys.modules)
monitor.init(sample_rate=1.0, redis_url=REDIS_URL)
monitor.sample(output="a")
assert monitor.flush(60)
assert set(sys.modules) == known, set(sys.modules) - known
""")


def test_hook_does_not_delay_the_event_loop(run, told):
    rounds = [map(float, line.split()) for line in run(LOOP).stdout.splitlines()]
    usual_medians_s, usual_highs_s, medians_s, highs_s = map(np.array, zip(*rounds, strict=True))
    assert told().balanced
    assert not told().dropped
    # Who shares the machine is in some of the rounds; a hook in the way would be in all.
    assert np.min(medians_s - usual_medians_s) < 0.005
    assert np.min(highs_s - usual_highs_s) < 0.05
