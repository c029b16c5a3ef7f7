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
from typing import Any

import structlog
from celery import bootsteps
from kombu.exceptions import OperationalError

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import connect, translated
from monitor.settings import Settings
from workers.slots import Slot

_EVERY_S = 0.5
_PER_DRAIN = 50
_EXPIRES_S = 15
_FORGET_AFTER_S = 86_400

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
        self._redis = connect(Settings.from_env().broker_url)
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
        if not waiting:
            return
        wanted = 1 + waiting // _PER_DRAIN
        for number, slot in enumerate(self._slots(parent)[:wanted]):
            if slot.take():
                parent.app.send_task(
                    names.TASK_SCORE,
                    args=(self._name, number),
                    expires=_EXPIRES_S,
                    retry=False,
                )

    def _alive(self, now_s: float) -> None:
        """Say that we live, and forget those that have not for a day."""
        self._redis.zadd(names.WORKERS, {self._name: now_s})
        self._redis.zremrangebyscore(names.WORKERS, "-inf", now_s - _FORGET_AFTER_S)

    def _slots(self, parent: Any) -> list[Slot]:
        return [Slot(self._redis, self._name, n) for n in range(parent.concurrency)]
