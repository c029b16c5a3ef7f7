"""The workers' side of the stream: take, keep alive, acknowledge; nothing is lost in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the stream, as taken; ``deliveries`` counts how often it was handed out."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits in the stream."""

    waiting: int  #: entries in the stream, those in work included
    oldest_age_s: float | None  #: age of the oldest entry; None when empty
    lost: int  #: entries that were trimmed away before anybody took them, ever


def connect(url: str) -> redis.Redis:
    """Make a client for workers; replies in the one shape this module reads."""
    try:
        return redis.Redis.from_url(
            url,
            protocol=2,
            socket_timeout=10,
            socket_connect_timeout=5,
            socket_keepalive=True,
            health_check_interval=15,
        )
    except ValueError as error:
        raise QueueUnavailableError(
            f"GROUNDWATCH_REDIS_URL: {error}; it should be redis://host:6379/0 or rediss://..."
        ) from None


def masked(url: str) -> str:
    """Give an address without its password, for people and logs."""
    parts = urlsplit(url)
    where = parts.hostname or parts.path
    return f"{parts.scheme}://{where}{f':{parts.port}' if parts.port else ''}"


class Consumer:
    """
    One reader of the consumer group.

    Raises
    ------
    QueueUnavailableError
        From every method, when Redis does not answer.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._redis: Any = client
        self.name = name

    def ensure_group(self) -> None:
        """Create the stream and its group where they are missing."""
        with translated():
            try:
                self._redis.xgroup_create(names.SAMPLES, names.GROUP, id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def take(self, count: int, *, block_ms: int | None = None) -> list[Entry]:
        """Take up to *count* new entries; they are pending from this moment on."""
        with translated():
            reply = self._retry_without_group(
                lambda: self._redis.xreadgroup(
                    names.GROUP, self.name, {names.SAMPLES: ">"}, count=count, block=block_ms
                )
            )
        return [_entry(item) for _, items in reply or () for item in items]

    def take_abandoned(self, *, idle_ms: int) -> Entry | None:
        """
        Take over one entry whose worker has been silent for *idle_ms*.

        One at a time: the entry that killed its worker would otherwise count
        against those that were only near it.
        """
        with translated():
            found = self._retry_without_group(
                lambda: self._redis.xpending_range(
                    names.SAMPLES, names.GROUP, min="-", max="+", count=1, idle=idle_ms
                )
            )
            if not found:
                return None
            entry_id, deliveries = found[0]["message_id"], found[0]["times_delivered"]
            claimed = self._redis.xclaim(names.SAMPLES, names.GROUP, self.name, idle_ms, [entry_id])
            if claimed and claimed[0][1]:
                return _entry(claimed[0], deliveries=deliveries + 1)
            # Trimmed while it was pending: there is nothing left to score.
            self._redis.xack(names.SAMPLES, names.GROUP, entry_id)
        return None

    def keep(self, entry_ids: Sequence[str]) -> None:
        """Tell the others that these entries are still being worked on."""
        if not entry_ids:
            return
        with translated():
            self._redis.xclaim(
                names.SAMPLES, names.GROUP, self.name, 0, list(entry_ids), justid=True
            )

    def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Remove entries that are stored; call it after the commit."""
        if not entry_ids:
            return
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(names.SAMPLES, names.GROUP, *entry_ids)
            pipe.xdel(names.SAMPLES, *entry_ids)
            pipe.incrby(names.ACKNOWLEDGED, len(entry_ids))
            _, deleted, _ = pipe.execute()
            if deleted < len(entry_ids):
                # Somebody else had taken them over and was faster: counted once only.
                self._redis.decrby(names.ACKNOWLEDGED, len(entry_ids) - deleted)

    def leave(self) -> None:
        """Forget this consumer, unless entries are still pending under its name."""
        with translated():
            pending = self._redis.xpending_range(
                names.SAMPLES, names.GROUP, min="-", max="+", count=1, consumername=self.name
            )
            if not pending:
                self._redis.xgroup_delconsumer(names.SAMPLES, names.GROUP, self.name)

    def _retry_without_group(self, call: Any) -> Any:
        """Make the group again where Redis came back empty."""
        try:
            return call()
        except redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self.ensure_group()
            return call()


def backlog(client: redis.Redis, *, now_s: float) -> Backlog:
    """Measure the stream: how much waits, how old it is, what was lost."""
    anything: Any = client
    with translated(), anything.pipeline(transaction=True) as pipe:
        pipe.exists(names.SAMPLES)
        pipe.get(names.ACKNOWLEDGED)
        pipe.xlen(names.SAMPLES)
        pipe.xrange(names.SAMPLES, count=1)
        exists, acknowledged, waiting, first = pipe.execute()
        added = anything.xinfo_stream(names.SAMPLES).get("entries-added", 0) if exists else 0
    age = now_s - int(first[0][0].split(b"-")[0]) / 1000 if first else None
    lost = int(added) - int(acknowledged or 0) - int(waiting)
    return Backlog(waiting=waiting, oldest_age_s=age, lost=max(0, lost))


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the client into ours, at the one place where they can come up."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        raise QueueUnavailableError(
            f"Redis does not answer ({type(error).__name__}); start it or set GROUNDWATCH_REDIS_URL"
        ) from error
    except redis.RedisError as error:
        raise QueueUnavailableError(f"Redis refuses: {error}") from error


def _entry(item: tuple[bytes, Mapping[bytes, bytes]], deliveries: int = 1) -> Entry:
    return Entry(item[0].decode(), item[1], deliveries)


def live_workers(client: redis.Redis, *, now_s: float, within_s: float = 10.0) -> list[str]:
    """List the workers that were alive within the last *within_s* seconds."""
    anything: Any = client
    with translated():
        found = anything.zrangebyscore(names.WORKERS, now_s - within_s, "+inf")
    return [name.decode() for name in found]
