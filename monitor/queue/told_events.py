"""How many OpenTelemetry events about evaluations all workers together sent, lost and dropped."""

from __future__ import annotations

from collections.abc import Mapping

import redis

from monitor.queue import names
from monitor.queue.consumer import read_hash, translated


def add_events(client: redis.Redis, news: Mapping[str, int]) -> None:
    """
    Add what one worker has counted since it last told.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer.
    """
    with translated(), client.pipeline(transaction=True) as pipe:
        for what, n in news.items():
            pipe.hincrby(names.EVENTS, what, n)
        pipe.execute()


def read_events(client: redis.Redis) -> dict[str, int]:
    """
    Read what all workers counted, ever: sent, failed, dropped; empty where none is told.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer.
    """
    return {what: int(n) for what, n in read_hash(client, names.EVENTS).items()}
