"""
How jobs run: by whoever holds the scheduler's lease, with repeated failures logged once.

A `Job` is something to do regularly. `LeaseHolder` takes the lease and keeps it while its
jobs get on; `ErrorThrottle` runs what is tried again anyway, and logs failures as they change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from monitor.errors import GroundwatchError
from monitor.store.engine import Store
from monitor.store.lease import Lease, acquire, new_owner, release

TTL_S = 15.0
RENEW_EVERY_S = 1.0
#: A job that takes longer hangs: another scheduler may take over.
LONGEST_JOB_S = 600.0
_TICK_S = 0.25
_LOG_AGAIN_S = 600.0

log = structlog.get_logger("groundwatch.scheduler")


class Job(NamedTuple):
    """Something to do regularly, by whoever holds the lease."""

    name: str
    every_s: float
    run: Callable[[Lease], object]
    slow: bool = False  #: runs beside the others, so that no status waits for it


def run_jobs(
    jobs: Sequence[Job], holder: LeaseHolder, throttle: ErrorThrottle, stop: threading.Event
) -> None:
    """Run these jobs in turn, each when it is due, while the lease lasts and until *stop*."""
    due_s = dict.fromkeys((job.name for job in jobs), 0.0)
    try:
        while not stop.wait(_TICK_S):
            now_s = time.monotonic()
            for job in jobs:
                lease = holder.lease
                if lease is not None and now_s >= due_s[job.name]:
                    due_s[job.name] = now_s + job.every_s
                    holder.begin(job.name)
                    throttle.guard(job.name, partial(job.run, lease))
                    holder.end(job.name)
    finally:
        # What ends one thread of the scheduler ends it; its supervisor starts another.
        stop.set()


class LeaseHolder:
    """
    Takes the scheduler's lease and keeps it, on a thread of its own.

    Jobs read and compute before the one transaction that the lease fences, and may take
    longer than the lease lasts; renewed beside them, it does not change hands meanwhile. A
    job that began longer than ``LONGEST_JOB_S`` ago hangs, and the lease is given up.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = new_owner()
        self._began_s: dict[str, float] = {}
        self.lease: Lease | None = None  #: None while another scheduler has it

    def renew(self) -> None:
        """Take the lease or keep it; call it every ``RENEW_EVERY_S``."""
        now_s = time.monotonic()
        if any(now_s - began_s > LONGEST_JOB_S for began_s in list(self._began_s.values())):
            self.lease = None
            return
        before = self.lease
        try:
            self.lease = acquire(self._store, "scheduler", self._owner, ttl_s=TTL_S)
        except BaseException:
            self.lease = None
            raise
        if self.lease is not None and before is None:
            log.info("lease_taken", owner=self._owner, token=self.lease.token)

    def renew_until(self, stop: threading.Event, throttle: ErrorThrottle) -> None:
        """Renew it until *stop* is set."""
        throttle.guard("lease", self.renew)
        while not stop.wait(RENEW_EVERY_S):
            throttle.guard("lease", self.renew)

    def begin(self, job: str) -> None:
        """Note that a job begins."""
        self._began_s[job] = time.monotonic()

    def end(self, job: str) -> None:
        """Note that a job is done."""
        del self._began_s[job]

    def release(self) -> None:
        """Give the lease back, so that no scheduler has to wait for it to expire."""
        if self.lease is not None:
            release(self._store, self.lease)
            self.lease = None


class ErrorThrottle:
    """
    Runs work by name and logs its failures; safe for threads that run different names.

    A failure is logged when it begins, when another one takes its place, and every ten
    minutes as long as it lasts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}

    def guard(self, name: str, work: Callable[[], object]) -> Exception | None:
        """Run *work*; return the exception that ended it, if any."""
        try:
            work()
        except Exception as error:
            code = error.code if isinstance(error, GroundwatchError) else ""
            kind, known, now_s = (
                (type(error).__name__, code),
                self._failures.get(name),
                self._clock(),
            )
            if known and known.kind == kind and now_s - known.logged_s < _LOG_AGAIN_S:
                return error
            self._failures[name] = _Failure(kind, now_s)
            if isinstance(error, GroundwatchError):
                log.error("job_failed", job=name, code=code, message=str(error))  # noqa: TRY400
            else:
                log.error("job_broken", job=name, exc_info=error)  # noqa: TRY400
            return error
        if self._failures.pop(name, None):
            log.info("job_recovered", job=name)
        return None


class _Failure(NamedTuple):
    kind: tuple[str, str]  #: of exception, and its code
    logged_s: float
