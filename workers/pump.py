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
from typing import Any

import structlog
from celery import bootsteps
from celery.worker import state
from kombu.exceptions import OperationalError

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import connect, translated
from monitor.queue.stalls import note_stall
from monitor.settings import Settings
from workers.slots import Slot
from workers.stall_watch import Look, StallWatch

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

    def _send(self, parent: Any, slot: Slot, number: int) -> None:
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

    def _seen(self, parent: Any, waiting: int) -> Look:
        with translated():
            return Look(
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

    def _slots(self, parent: Any) -> list[Slot]:
        return [Slot(self._redis, self._name, n) for n in range(parent.concurrency)]
