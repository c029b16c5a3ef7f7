"""Slots: how many drains of one worker may run, and how they are told to stop."""

from __future__ import annotations

import redis

from monitor.queue import names
from monitor.queue.consumer import translated

_TTL_MS = 20_000


class Slot:
    """
    The right of one drain to run, as a key that expires by itself.

    The pump takes it before it wakes a drain, the drain keeps it, and the pump
    deletes it to make the drain stop.
    """

    def __init__(self, client: redis.Redis, worker: str, number: int) -> None:
        self._redis = client
        self._key = names.slot(worker, number)

    def take(self) -> bool:
        """Take the slot if it is free."""
        with translated():
            return bool(self._redis.set(self._key, "1", nx=True, px=_TTL_MS))

    def keep(self) -> bool:
        """Keep the slot; False when it was taken away, which means: stop."""
        with translated():
            return bool(self._redis.pexpire(self._key, _TTL_MS))

    def give_back(self) -> None:
        """Free the slot."""
        with translated():
            self._redis.delete(self._key)
