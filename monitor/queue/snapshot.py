"""
What Redis holds at one moment: counters of hooks, what waits, stalled workers, sent events.

Every function raises `QueueUnavailableError` if Redis does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from ..errors import QueueUnavailableError
from . import names
from .consumer import read_hash, translated

#: A new hook that reports meanwhile makes us read again, so often.
_TRIES = 5
_LONGEST_ID = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The counters of all hooks and the samples that wait, as of one transaction."""

    hooks: Mapping[str, Mapping[bytes, bytes]]  #: the counters of each hook
    waiting: int  #: entries in the stream, those in work included; a test's are left out
    sample_ids: tuple[str | None, ...] | None  #: of each; None where they were too many to read
    lost: int  #: entries that were trimmed away before anybody took them, ever
    feedback: int  #: what users said that waits to be stored


def take_snapshot(client: redis.Redis, *, most_read: int) -> QueueSnapshot:
    """
    Read the queue; the ids of what waits only while there are no more than *most_read* entries.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer, or new hooks appear faster than they can be read.
    """
    anything: Any = client
    with translated():
        listed: list[bytes] = []
        for _ in range(_TRIES):
            reading = anything.xlen(names.SAMPLES) <= most_read
            with anything.pipeline(transaction=True) as pipe:
                pipe.zrange(names.HOOKS, 0, -1)
                pipe.xlen(names.SAMPLES)
                pipe.get(names.ACKNOWLEDGED)
                pipe.xinfo_stream(names.SAMPLES)
                pipe.xrange(names.SAMPLES, count=most_read if reading else 1)
                pipe.xlen(names.FEEDBACK)
                for hook_id in listed:
                    pipe.hgetall(names.hook(hook_id.decode("utf-8", "replace")))
                now, waiting, acknowledged, info, entries, feedback, *hashes = pipe.execute(
                    raise_on_error=False
                )
            if isinstance(waiting, redis.RedisError):
                raise waiting
            if set(now) <= set(listed):
                break
            listed = now
        else:
            raise QueueUnavailableError("New hooks appeared while reading the counters; try again")
    # There is no stream before the first sample.
    added = 0 if isinstance(info, redis.ResponseError) else int(info["entries-added"])
    is_test = (names.FIELD_APP.encode(), names.DOCTOR_APP.encode())
    counted = [fields for _, fields in entries if is_test not in fields.items()]
    whole = len(entries) == waiting
    return QueueSnapshot(
        hooks={
            hook_id.decode("utf-8", "replace"): values
            for hook_id, values in zip(listed, hashes, strict=True)
            if values
        },
        waiting=len(counted) if whole else waiting,
        sample_ids=tuple(sample_id_of(fields) for fields in counted) if whole else None,
        lost=max(0, added - int(acknowledged or 0) - waiting),
        feedback=int(feedback),
    )


def sample_id_of(fields: Mapping[bytes, bytes]) -> str | None:
    """Return the id of a sample, even where the rest of its entry cannot be read; else None."""
    try:
        found = json.loads(fields[names.FIELD_BODY.encode()])["sample_id"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    usable = isinstance(found, str) and 0 < len(found) <= _LONGEST_ID
    return found.encode("utf-8", "replace").decode().replace("\0", "\ufffd") if usable else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Workers that ended themselves for lack of progress: how many, and the last one."""

    count: int = 0
    at_s: float = 0.0  #: when the last one ended, in epoch seconds
    worker: str = ""
    why: str = ""


def note_stall(client: redis.Redis, worker: str, why: str, *, now_s: float) -> None:
    """Count a worker that ended itself."""
    anything: Any = client
    with translated(), anything.pipeline(transaction=True) as pipe:
        pipe.hincrby(names.STALLS, "count", 1)
        pipe.hset(names.STALLS, mapping={"at_s": now_s, "worker": worker, "why": why})
        pipe.execute()


def read_stalls(client: redis.Redis) -> Stalls:
    """Read how many workers ended themselves."""
    found: dict[str, Any] = read_hash(client, names.STALLS)
    numbers = {"count": int(found.get("count", 0)), "at_s": float(found.get("at_s", 0))}
    return Stalls(**found | numbers)


def add_events(client: redis.Redis, news: Mapping[str, int]) -> None:
    """Add the OpenTelemetry events of evaluations that one worker counted since its last call."""
    with translated(), client.pipeline(transaction=True) as pipe:
        for what, n in news.items():
            pipe.hincrby(names.EVENTS, what, n)
        pipe.execute()


def read_events(client: redis.Redis) -> dict[str, int]:
    """Read what all workers counted, ever: sent, failed, dropped; empty where there was none."""
    return {what: int(n) for what, n in read_hash(client, names.EVENTS).items()}
