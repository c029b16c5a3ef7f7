"""Bring the counters of the hooks from Redis into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import redis
import structlog

from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.store.engine import Store
from monitor.store.hooks import HookCounters, absorb
from monitor.store.lease import Lease, fence

#: Heartbeats this much older than the newest one seen are read again: clocks differ.
_OVERLAP_MS = 120_000
_KEEP_MS = 7 * 86_400_000
_PLAIN = frozenset({"seen", "sampled", "sent"})

log = structlog.get_logger("groundwatch.scheduler")


def collect_hooks(
    client: redis.Redis, store: Store, lease: Lease, *, bucket_s: int, since_ms: int
) -> int:
    """
    Absorb the counters of every hook heard of since *since_ms*; return the newest heartbeat.

    Counters are cumulative and absorbing is idempotent, so a missed or a repeated
    round loses and doubles nothing.
    """
    anything: Any = client
    with translated():
        recent = anything.zrangebyscore(
            names.HOOKS, since_ms - _OVERLAP_MS, "+inf", withscores=True
        )
        with anything.pipeline(transaction=False) as pipe:
            for hook_id, _ in recent:
                pipe.hgetall(names.hook(hook_id.decode()))
            hashes = pipe.execute()
        newest = max((int(score) for _, score in recent), default=since_ms)
        anything.zremrangebyscore(names.HOOKS, "-inf", newest - _KEEP_MS)
    found = [
        counters
        for (hook_id, _), values in zip(recent, hashes, strict=True)
        if (counters := read_counters(hook_id.decode(), values)) is not None
    ]
    if found:
        with store.write() as connection:
            fence(connection, lease)
            absorb(connection, found, bucket_s=bucket_s)
    return newest


def read_counters(hook_id: str, values: Mapping[bytes, bytes]) -> HookCounters | None:
    """Read the hash of one hook; None for a test's, and for what is not one of ours."""
    text = {key.decode(): value.decode("utf-8", "replace") for key, value in values.items()}
    if text.get("app") == names.DOCTOR_APP:
        return None
    try:
        return HookCounters(
            hook_id=hook_id,
            app=text["app"],
            host=text["host"][:255],
            pid=int(text["pid"]),
            heartbeat_at=datetime.fromtimestamp(int(text["heartbeat_at_ms"]) / 1000, UTC),
            counters={
                name: int(value)
                for name, value in text.items()
                if name in _PLAIN or name.startswith("dropped:")
            },
        )
    except (KeyError, ValueError, OverflowError) as error:
        if text:
            log.warning("hook.unreadable", hook_id=hook_id, error=type(error).__name__)
        return None
