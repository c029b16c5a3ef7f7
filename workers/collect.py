"""Bring the counters of the hooks from Redis into the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import redis
import structlog

from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.queue.producer import COUNTERS_KEPT_S
from monitor.store.engine import Store
from monitor.store.hooks import HookCounters, absorb
from monitor.store.lease import Lease, database_now, fence

_MOST_CHARS, _MOST_HOST_CHARS = 200, 255
_MOST_PID, _MOST_COUNT = 2**31 - 1, 2**62
_PLAIN = frozenset({"seen", "sampled", "sent"})

log = structlog.get_logger("groundwatch.scheduler")


@dataclass(slots=True)
class Collector:
    """
    Absorbs the counters of hooks that were heard of since the last round.

    Which those are is told by a changed heartbeat, not by its age: clocks of hosts
    differ. Counters are cumulative and absorbing is idempotent, so a missed or a
    repeated round loses and doubles nothing.
    """

    client: redis.Redis
    store: Store
    bucket_s: int
    _heartbeats: dict[str, float] = field(default_factory=dict)

    def _heard(self, counters: HookCounters, now: datetime) -> HookCounters:
        """Say when a hook was alive: just now, if it has changed since we looked last."""
        is_known = counters.hook_id in self._heartbeats
        return replace(counters, heard_at=now if is_known else min(now, counters.heartbeat_at))

    def run(self, lease: Lease) -> int:
        """Do one round; return how many hooks had news."""
        anything: Any = self.client
        with translated():
            index = anything.zrange(names.HOOKS, 0, -1, withscores=True)
            told = {hook_id.decode("utf-8", "replace"): score for hook_id, score in index}
            # Also who has been silent for so long that there may be nothing left of it to read.
            silent_ms = (time.time() - COUNTERS_KEPT_S) * 1000
            changed = {h for h, score in told.items() if self._heartbeats.get(h) != score}
            asked = [h for h, score in told.items() if h in changed or score < silent_ms]
            with anything.pipeline(transaction=False) as pipe:
                for hook_id in asked:
                    pipe.hgetall(names.hook(hook_id))
                hashes = dict(zip(asked, pipe.execute(), strict=True))
            # The hash of a hook that is gone expires by itself; its name is all that is left.
            gone = [hook_id for hook_id, values in hashes.items() if not values]
            if gone:
                anything.zrem(names.HOOKS, *gone)
        found = [
            read_counters(h, values) for h, values in hashes.items() if values and h in changed
        ]
        news = [counters for counters in found if counters is not None]
        if news:
            with self.store.write() as connection:
                fence(connection, lease)
                now = database_now(connection)
                heard = [self._heard(counters, now) for counters in news]
                absorb(connection, heard, bucket_s=self.bucket_s)
        self._heartbeats = told
        return len(news)


def read_counters(hook_id: str, values: Mapping[bytes, bytes]) -> HookCounters | None:
    """Read the hash of one hook; None for a test's, and for what is not one of ours."""
    text = {_text(name): _text(value) for name, value in values.items()}
    if text.get("app") == names.DOCTOR_APP:
        return None
    try:
        return HookCounters(
            hook_id=hook_id.replace("\0", "")[:64],
            app=text["app"][:_MOST_CHARS],
            host=text["host"][:_MOST_HOST_CHARS],
            pid=min(max(int(text["pid"]), 0), _MOST_PID),
            heartbeat_at=datetime.fromtimestamp(int(text["heartbeat_at_ms"]) / 1000, UTC),
            counters={
                name[:100]: min(int(value), _MOST_COUNT)
                for name, value in text.items()
                if name in _PLAIN or name.startswith("dropped:")
            },
        )
    except (KeyError, ValueError, OverflowError, OSError) as error:
        if text:
            log.warning("hook.unreadable", hook_id=hook_id, error=type(error).__name__)
        return None


def _text(raw: bytes) -> str:
    """Read a text that any program may have written; no database takes all of them."""
    return raw.decode("utf-8", "replace").replace("\0", "")
