"""Workers that ended themselves because they made no progress: how many, and the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from monitor.queue import names
from monitor.queue.consumer import read_hash, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """What is known of them; the last one is empty while there was none."""

    count: int = 0
    at_s: float = 0.0  #: when the last one ended, in epoch seconds
    worker: str = ""
    why: str = ""


def note_stall(client: redis.Redis, worker: str, why: str, *, now_s: float) -> None:
    """
    Count one.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer.
    """
    anything: Any = client
    with translated(), anything.pipeline(transaction=True) as pipe:
        pipe.hincrby(names.STALLS, "count", 1)
        pipe.hset(names.STALLS, mapping={"at_s": now_s, "worker": worker, "why": why})
        pipe.execute()


def read_stalls(client: redis.Redis) -> Stalls:
    """
    Read how many there were.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer.
    """
    found = read_hash(client, names.STALLS)
    return Stalls(
        count=int(found.get("count", 0)),
        at_s=float(found.get("at_s", 0.0)),
        worker=found.get("worker", ""),
        why=found.get("why", ""),
    )
