"""
The pump: workers wake drains, as many as they can run.

There is no beat in the path of the data, and nothing piles up in the broker while no
worker lives: a worker that sees samples waiting sends an empty message, which it or
another one takes.
"""

from __future__ import annotations

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
from monitor.queue.stalls import note_stall
from monitor.settings import Settings

_EVERY_S = 0.5
_PER_DRAIN = 50
_EXPIRES_S = 15
_FORGET_AFTER_S = 86_400
#: What a worker that makes no progress ends with, and how long it may take to.
STALLED = os.EX_SOFTWARE
_END_WITHIN_S = 30.0

log = structlog.get_logger("groundwatch.pump")


class Pump(bootsteps.StartStopStep):
    """A thread in the worker's main process."""

    # Not after the consumer: its start never returns. So it stops first, then we, then the pool.
    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._redis: Any = None
        # With the process id, because two workers of one host may have the same name.
        self._name = f"{parent.hostname}/{os.getpid()}"
        self._reachable = True

    def start(self, parent: Any) -> None:
        """Begin to look for work."""
        settings = Settings.from_env()
        self._redis = connect(settings.broker_url)
        self._watch = StallWatch(settings.stall_after_s)
        self._thread = threading.Thread(
            target=self._run, args=(parent,), name="groundwatch-pump", daemon=True
        )
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """Take the slots away, which makes running drains finish what they have in work."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
        try:
            with translated():
                self._redis.zrem(names.WORKERS, self._name)
                self._redis.zrem(names.HEARD, self._name)
            for slot in self._slots(parent):
                slot.give_back()
        except QueueUnavailableError as error:
            log.warning("pump.stop_failed", message=str(error))

    def _run(self, parent: Any) -> None:
        while True:
            try:
                self._wake(parent)
            except (QueueUnavailableError, OperationalError) as error:
                if self._reachable:
                    log.warning("queue.unreachable", message=str(error))
                self._reachable = False
                self._watch.reset()
            except Exception:
                # A mistake of ours must not leave a worker that lives and hears nothing.
                log.exception("pump.broken")
            else:
                if not self._reachable:
                    log.info("queue.reachable")
                self._reachable = True
            if self._stop.wait(_EVERY_S):
                return

    def _wake(self, parent: Any) -> None:
        with translated():
            self._alive(time.time())
            waiting = self._redis.xlen(names.SAMPLES)
        if waiting:
            wanted = 1 + waiting // _PER_DRAIN
            for number, slot in enumerate(self._slots(parent)[:wanted]):
                if slot.take():
                    self._send(parent, slot, number)
        why = self._watch.look(self._seen(parent, waiting), time.monotonic())
        if why is not None:
            self._end(why)

    def _send(self, parent: Any, slot: RunLease, number: int) -> None:
        try:
            parent.app.send_task(
                names.TASK_SCORE,
                args=(self._name, number),
                expires=_EXPIRES_S,
                retry=False,
            )
        except BaseException:
            # Nobody will come: the next look may try again.
            with suppress(QueueUnavailableError):
                slot.give_back()
            raise

    def _seen(self, parent: Any, waiting: int) -> WorkerActivity:
        with translated():
            return WorkerActivity(
                waits=bool(waiting),
                busy=bool(state.active_requests),
                taken=state.all_total_count[0],
                runs=any(slot.runs() for slot in self._slots(parent)),
                heard=self._redis.zscore(names.HEARD, self._name),
                left=bool(self._redis.llen(names.CELERY_PREFIX + names.CELERY_QUEUE)),
            )

    def _end(self, why: str) -> None:
        """End this worker, by Celery's own way where that still works."""
        log.critical("worker.stalled", why=why)
        with suppress(QueueUnavailableError):
            note_stall(self._redis, self._name, why, now_s=time.time())
        celery_state: Any = state
        celery_state.should_stop = STALLED
        last_resort = threading.Timer(_END_WITHIN_S, os._exit, (STALLED,))
        last_resort.daemon = True
        last_resort.start()
        self._stop.set()

    def _alive(self, now_s: float) -> None:
        """Say that we live, and forget those that have not for a day."""
        self._redis.zadd(names.WORKERS, {self._name: now_s})
        for key in (names.WORKERS, names.HEARD):
            self._redis.zremrangebyscore(key, "-inf", now_s - _FORGET_AFTER_S)

    def _slots(self, parent: Any) -> list[RunLease]:
        return [RunLease(self._redis, self._name, n) for n in range(parent.concurrency)]


# --- slots ---
# Slots: how many drains of one worker may run, and how they are told to stop.


#: A drain takes samples for so long, then ends once its judge has answered; what comes meanwhile
#: waits, so the longer the better. Told to stop, it stops at once. Between two drains Celery looks
#: at the memory of the process.
DRAIN_FOR_S = 120.0
#: Who is woken begins at once; after this long without, the wake-up was lost.
_WOKEN_MS = 5_000
#: A drain keeps its slot once a second; after this long without, it is dead or cut off.
_RUNNING_MS = 10_000
_WOKEN, _RUNNING = b"woken", b"running"


class RunLease:
    """
    The right of one drain to run, as a key that expires by itself.

    The pump takes it before it wakes a drain, the drain begins and keeps it, and the pump
    deletes it to make the drain stop.
    """

    def __init__(self, client: redis.Redis, worker: str, number: int) -> None:
        self._redis: Any = client
        self._worker = worker
        self._key = names.slot(worker, number)

    def take(self) -> bool:
        """Take the slot if it is free."""
        with translated():
            return bool(self._redis.set(self._key, _WOKEN, nx=True, px=_WOKEN_MS))

    def begin(self, now_s: float) -> bool:
        """
        Begin to run in it, and note at *now_s*, in epoch seconds, that the worker was heard.

        False when it is no longer there, or another drain runs in it: then do not run.
        """
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(self._key, _RUNNING, xx=True, get=True, px=_RUNNING_MS)
            pipe.zadd(names.HEARD, {self._worker: now_s})
            before, _ = pipe.execute()
        return bool(before == _WOKEN)

    def runs(self) -> bool:
        """Say whether a drain runs in it."""
        with translated():
            return bool(self._redis.get(self._key) == _RUNNING)

    def keep(self) -> bool:
        """Keep the slot; False when it was taken away, which means: stop."""
        with translated():
            return bool(self._redis.pexpire(self._key, _RUNNING_MS))

    def give_back(self) -> None:
        """Free the slot."""
        with translated():
            self._redis.delete(self._key)


# --- stall watch ---
# Watch a worker for deafness: samples wait, it is woken, and nothing begins.


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerActivity:
    """What a worker sees of itself at one moment, while Redis answers."""

    waits: bool  #: samples wait
    busy: bool  #: a process of this worker has a drain, however slow
    taken: int  #: drains that its processes have begun, ever
    runs: bool  #: a drain that this worker woke runs, here or in another worker
    heard: float | None  #: when a drain that it woke last began anywhere; any clock
    left: bool  #: wake-ups lie in the broker


@dataclass(slots=True)
class StallWatch:
    """
    Says when a worker is to be replaced, because it has made no progress for *after_s*.

    Two things show that. Nobody begins what this worker is woken for. Or wake-ups lie in
    the broker and none of its idle processes takes one, though others may: a worker that
    is deaf beside some that hear. A drain that runs is progress, and so is one that ends
    at once because the judge is away.
    """

    after_s: float
    _unheard_s: float | None = None  #: since when, by a clock that only goes forward
    _untaken_s: float | None = None
    _last: WorkerActivity | None = None

    def look(self, now: WorkerActivity, now_s: float) -> str | None:
        """Say in a sentence why the worker has to be replaced; None while it has not."""
        before, self._last = self._last, now
        if before is None or not now.waits or now.busy:
            self.reset()
            self._last = now
            return None
        unheard = not now.runs and now.heard == before.heard
        untaken = now.left and now.taken == before.taken
        self._unheard_s = _since(self._unheard_s, now_s) if unheard else None
        self._untaken_s = _since(self._untaken_s, now_s) if untaken else None
        if self._is_over(self._unheard_s, now_s):
            return f"samples wait, and no wake-up was heard for {self.after_s:g} s"
        if self._is_over(self._untaken_s, now_s):
            return f"wake-ups wait, and no idle process took one for {self.after_s:g} s"
        return None

    def reset(self) -> None:
        """Begin anew, as when Redis was away: that is no fault of the worker."""
        self._unheard_s = self._untaken_s = self._last = None

    def _is_over(self, since_s: float | None, now_s: float) -> bool:
        return since_s is not None and now_s - since_s >= self.after_s


def _since(before_s: float | None, now_s: float) -> float:
    return now_s if before_s is None else before_s
