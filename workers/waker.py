"""
Each worker wakes its own scoring runs, as many as it can run at once.

There is no beat in the path of the data, and nothing piles up in the broker while no
worker lives: a worker that sees samples waiting sends an empty message, which it or
another one takes. A `RunLease` says how many runs a worker may have, and tells them to
stop; a `StallWatch` ends a worker that takes no messages any more.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from celery import bootsteps
from celery.worker import state
from kombu.exceptions import OperationalError

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import connect, translated
from monitor.queue.snapshot import note_stall
from monitor.settings import Settings

#: A run takes samples for so long, then ends once its judge has answered; what comes meanwhile
#: waits, so the longer the better. Told to stop, it stops at once. Between two runs Celery looks
#: at the memory of the process.
RUN_FOR_S = 120.0
#: What a worker that makes no progress ends with, and how long it may take to.
STALLED = os.EX_SOFTWARE
_END_WITHIN_S = 30.0
_EVERY_S = 0.5
_SAMPLES_PER_RUN = 50
_EXPIRES_S = 15
_FORGET_AFTER_S = 86_400
#: A run that is woken begins at once; after this long without, the message was lost.
_WOKEN_MS = 5_000
#: A run renews its lease every second; after this long without, it is dead or cut off.
_RUNNING_MS = 10_000
_WOKEN, _RUNNING = b"woken", b"running"

log = structlog.get_logger("groundwatch.waker")


class Waker(bootsteps.StartStopStep):
    """A thread in the worker's main process that sends a message for each run it wants."""

    # Not after the consumer: its start never returns. So it stops first, then we, then the pool.
    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._redis: Any = None
        # With the process id, because two workers of one host may have the same name.
        self._name = f"{parent.hostname}/{os.getpid()}"

    def start(self, parent: Any) -> None:
        """Start the thread."""
        settings = Settings.from_env()
        self._redis = connect(settings.broker_url)
        self._watch = StallWatch(settings.worker_timers.stall_after_s)
        self._thread = threading.Thread(
            target=self.wake_until_stopped, args=(parent,), name="groundwatch-waker", daemon=True
        )
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """Take the leases away, which makes running runs finish what they have in work."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
        try:
            with translated():
                self._redis.zrem(names.WORKERS, self._name)
                self._redis.zrem(names.ANSWERED, self._name)
            for lease in self._leases(parent):
                lease.give_back()
        except QueueUnavailableError as error:
            log.warning("waker_stop_failed", message=str(error))

    def wake_until_stopped(self, parent: Any) -> None:
        """Wake runs and watch for a stall, twice a second, until the worker stops."""
        reachable = True
        while True:
            try:
                why = self._watch.look(self._wake(parent), time.monotonic())
                if why is not None:
                    log.critical("worker_stalled", why=why)
                    with suppress(QueueUnavailableError):
                        note_stall(self._redis, self._name, why, now_s=time.time())
                    celery_state: Any = state
                    celery_state.should_stop = STALLED
                    last_resort = threading.Timer(_END_WITHIN_S, os._exit, (STALLED,))
                    last_resort.daemon = True
                    last_resort.start()
                    self._stop.set()
            except (QueueUnavailableError, OperationalError) as error:
                if reachable:
                    log.warning("queue_unreachable", message=str(error))
                reachable = False
                self._watch.reset()
            except Exception:
                # A mistake of ours must not leave a worker that lives and takes no work.
                log.exception("waker_broken")
            else:
                if not reachable:
                    log.info("queue_reachable")
                reachable = True
            if self._stop.wait(_EVERY_S):
                return

    def _wake(self, parent: Any) -> WorkerActivity:
        """Announce this worker, wake the runs that are wanted, and return what it sees."""
        now_s = time.time()
        with translated():
            self._redis.zadd(names.WORKERS, {self._name: now_s})
            for key in (names.WORKERS, names.ANSWERED):
                self._redis.zremrangebyscore(key, "-inf", now_s - _FORGET_AFTER_S)
            waiting = self._redis.xlen(names.SAMPLES)
        leases = self._leases(parent)
        wanted = 1 + waiting // _SAMPLES_PER_RUN if waiting else 0
        for number, lease in enumerate(leases[:wanted]):
            if not lease.take():
                continue
            try:
                parent.app.send_task(
                    names.TASK_SCORE, args=(self._name, number), expires=_EXPIRES_S, retry=False
                )
            except BaseException:
                # No run will come: the next look may try again.
                with suppress(QueueUnavailableError):
                    lease.give_back()
                raise
        with translated():
            return WorkerActivity(
                waits=bool(waiting),
                busy=bool(state.active_requests),
                taken=state.all_total_count[0],
                runs=any(lease.runs() for lease in leases),
                answered=self._redis.zscore(names.ANSWERED, self._name),
                left=bool(self._redis.llen(names.CELERY_PREFIX + names.CELERY_QUEUE)),
            )

    def _leases(self, parent: Any) -> list[RunLease]:
        return [RunLease(self._redis, self._name, n) for n in range(parent.concurrency)]


class RunLease:
    """
    The right of one scoring run to work, as a key that expires by itself.

    The waker takes it before it wakes a run, the run begins and keeps it, and the waker deletes it
    to make the run stop. Raises QueueUnavailableError from every method, when Redis does not
    answer.
    """

    def __init__(self, client: redis.Redis, worker: str, number: int) -> None:
        self._redis: Any = client
        self._worker = worker
        self._key = names.slot(worker, number)

    def take(self) -> bool:
        """Take the lease if it is free."""
        with translated():
            return bool(self._redis.set(self._key, _WOKEN, nx=True, px=_WOKEN_MS))

    def begin(self, now_s: float) -> bool:
        """
        Begin to run under it, and note at *now_s*, in epoch seconds, that its wake-up was answered.

        False when it is no longer there, or another run has it: then do not run.
        """
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(self._key, _RUNNING, xx=True, get=True, px=_RUNNING_MS)
            pipe.zadd(names.ANSWERED, {self._worker: now_s})
            before, _ = pipe.execute()
        return bool(before == _WOKEN)

    def runs(self) -> bool:
        """Return whether a run has it."""
        with translated():
            return bool(self._redis.get(self._key) == _RUNNING)

    def keep(self) -> bool:
        """Keep the lease; False when it was taken away, which means: stop."""
        with translated():
            return bool(self._redis.pexpire(self._key, _RUNNING_MS))

    def give_back(self) -> None:
        """Free the lease."""
        with translated():
            self._redis.delete(self._key)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerActivity:
    """What a worker sees of itself at one moment, while Redis answers."""

    waits: bool  #: samples wait
    busy: bool  #: a process of this worker has a run, however slow
    taken: int  #: runs that its processes have begun, ever
    runs: bool  #: a run that this worker woke is at work, here or in another worker
    answered: float | None  #: when a run that it woke last began anywhere; any clock
    left: bool  #: messages lie in the broker


@dataclass(slots=True)
class StallWatch:
    """
    Decides when a worker has to be replaced, because it has made no progress for *after_s*.

    Two things show that. Nothing begins what this worker sends messages for. Or messages
    lie in the broker and none of its idle processes takes one, though others may: a worker
    that gets no messages beside some that do. A run at work is progress, and so is one that ends
    at once because the judge is unavailable.
    """

    after_s: float
    _unanswered_s: float = math.inf  #: since when, by a clock that only goes forward
    _untaken_s: float = math.inf
    _last: WorkerActivity | None = None

    def look(self, now: WorkerActivity, now_s: float) -> str | None:
        """Return why the worker has to be replaced, as a sentence; None while it has not."""
        before = self._last
        if before is None or not now.waits or now.busy:
            self.reset()
            self._last = now
            return None
        self._last = now
        unanswered = not now.runs and now.answered == before.answered
        untaken = now.left and now.taken == before.taken
        self._unanswered_s = min(self._unanswered_s, now_s) if unanswered else math.inf
        self._untaken_s = min(self._untaken_s, now_s) if untaken else math.inf
        if now_s - self._unanswered_s >= self.after_s:
            return f"samples wait, and no wake-up was answered for {self.after_s:g} s"
        if now_s - self._untaken_s >= self.after_s:
            return f"wake-ups wait, and no idle process took one for {self.after_s:g} s"
        return None

    def reset(self) -> None:
        """Start over, as when Redis was unreachable: that is not the fault of the worker."""
        self._unanswered_s, self._untaken_s, self._last = math.inf, math.inf, None
