"""What Redis holds at one moment: the counters of all hooks and the samples that wait."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import translated

#: A new hook that reports meanwhile makes us look again, so often.
_TRIES = 5
_LONGEST_ID = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All of it as of one transaction."""

    hooks: Mapping[str, Mapping[bytes, bytes]]  #: the counters of each hook
    waiting: int  #: entries in the stream, those in work included; a test's are left out
    sample_ids: tuple[str | None, ...] | None  #: of each; None where they were too many to read
    lost: int  #: entries that were trimmed away before anybody took them, ever


def take_census(client: redis.Redis, *, most_read: int) -> Census:
    """
    Read it; the ids of what waits only while there are no more than *most_read* entries.

    Raises
    ------
    QueueUnavailableError
        If Redis does not answer, or hooks come up faster than they can be read.
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
                for hook_id in listed:
                    pipe.hgetall(names.hook(hook_id.decode("utf-8", "replace")))
                now, waiting, acknowledged, info, entries, *hashes = pipe.execute(
                    raise_on_error=False
                )
            if isinstance(waiting, redis.RedisError):
                raise waiting
            if set(now) <= set(listed):
                return _census(listed, hashes, waiting, acknowledged, info, entries)
            listed = now
    raise QueueUnavailableError("hooks come up faster than their counters can be read; try again")


def _census(
    hook_ids: list[bytes],
    hashes: list[dict[bytes, bytes]],
    waiting: int,
    acknowledged: bytes | None,
    info: Any,
    entries: list[tuple[bytes, dict[bytes, bytes]]],
) -> Census:
    # There is no stream before the first sample.
    added = 0 if isinstance(info, redis.ResponseError) else int(info.get("entries-added", 0))
    counted = [fields for _, fields in entries if not _is_test(fields)]
    whole = len(entries) == waiting
    return Census(
        hooks={
            hook_id.decode("utf-8", "replace"): values
            for hook_id, values in zip(hook_ids, hashes, strict=True)
            if values
        },
        waiting=len(counted) if whole else waiting,
        sample_ids=tuple(sample_id_of(fields) for fields in counted) if whole else None,
        lost=max(0, added - int(acknowledged or 0) - waiting),
    )


def _is_test(fields: Mapping[bytes, bytes]) -> bool:
    return fields.get(names.FIELD_APP.encode()) == names.DOCTOR_APP.encode()


def sample_id_of(fields: Mapping[bytes, bytes]) -> str | None:
    """Find the id of a sample, even where the rest of its entry cannot be read; else None."""
    try:
        found = json.loads(fields[names.FIELD_BODY.encode()])["sample_id"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    usable = isinstance(found, str) and 0 < len(found) <= _LONGEST_ID
    return found.encode("utf-8", "replace").decode().replace("\0", "\ufffd") if usable else None
