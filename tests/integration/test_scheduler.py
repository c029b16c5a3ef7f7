"""Schedulers that share a store: slow jobs, and jobs that hang."""

import threading
import time
from contextlib import contextmanager

import pytest

from monitor.settings import Settings
from monitor.store.engine import fence
from workers.context import Components
from workers.scheduler import Job, Scheduler

TTL_S = 1.0


@pytest.fixture
def contexts(redis_url, sqlite_url):
    made = [Components(Settings(database_url=sqlite_url, redis_url=redis_url)) for _ in range(2)]
    yield made
    for context in made:
        context.close()


@pytest.fixture
def short_leases(monkeypatch):
    monkeypatch.setattr("workers.scheduler.TTL_S", TTL_S)
    monkeypatch.setattr("workers.scheduler.RENEW_EVERY_S", 0.1)


@contextmanager
def running(contexts, run):
    """Run a scheduler a context, each with *run* as its only job."""
    stop = threading.Event()
    threads = []
    for context in contexts:
        scheduler = Scheduler(context)
        scheduler.jobs = (Job("job", 0.0, lambda lease, own=context: run(own, lease)),)
        threads.append(threading.Thread(target=scheduler.run, args=(stop,)))
        threads[-1].start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.usefixtures("short_leases")
def test_job_longer_than_the_lease_can_still_write(contexts):
    written = threading.Event()

    def slow(context, lease):
        time.sleep(1.5 * TTL_S)  # reads and computes
        with context.store.write() as connection:
            fence(connection, lease)
        written.set()

    with running(contexts, slow):
        assert written.wait(100)


@pytest.mark.usefixtures("short_leases")
def test_scheduler_with_a_hanging_job_loses_the_lease(contexts, monkeypatch):
    monkeypatch.setattr("workers.scheduler.LONGEST_JOB_S", 0.3)
    both, owners = threading.Event(), set()

    def hang(context, lease):
        owners.add(lease.owner)
        if len(owners) == 2:
            both.set()
        both.wait(100)

    with running(contexts, hang):
        assert both.wait(100)


def test_slow_job_does_not_delay_the_others(contexts):
    """An explanation may take a minute; statuses go on meanwhile."""
    stop, explaining, evaluated = threading.Event(), threading.Event(), threading.Event()
    scheduler = Scheduler(contexts[0])

    def explain(_lease):
        explaining.set()
        assert evaluated.wait(100)

    def evaluate(_lease):
        if explaining.is_set():
            evaluated.set()

    scheduler.jobs = [Job("insights", 60.0, explain, slow=True), Job("evaluate", 0.0, evaluate)]
    thread = threading.Thread(target=scheduler.run, args=(stop,))
    thread.start()
    assert explaining.wait(100)
    assert evaluated.wait(100)
    stop.set()
    thread.join()
