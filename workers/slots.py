"""Slots: how many drains of one worker may run, and how they are told to stop."""

from __future__ import annotations

from typing import Any

import redis

from monitor.queue import names
from monitor.queue.consumer import translated

#: A drain takes samples for so long, then ends once its judge has answered; what comes meanwhile
#: waits, so the longer the better. Told to stop, it stops at once. Between two drains Celery looks
#: at the memory of the process.
DRAIN_FOR_S = 120.0
#: Who is woken begins at once; after this long without, the wake-up was lost.
_WOKEN_MS = 5_000
#: A drain keeps its slot once a second; after this long without, it is dead or cut off.
_RUNNING_MS = 10_000
_WOKEN, _RUNNING = b"woken", b"running"


class Slot:
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
