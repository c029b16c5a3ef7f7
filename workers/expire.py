"""
Keep the queue useful while nobody scores: let go of what is too old, and make room.

Hooks drop what is new when the queue is full. So that it does not fill with what nobody
needs any more, the oldest samples give way once they have waited for minutes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import redis
import structlog

from monitor.errors import RecordError
from monitor.queue import names
from monitor.queue.consumer import Consumer, Entry, translated
from monitor.queue.newest_first import NewestFirst
from monitor.queue.wire import decode
from monitor.store.engine import Store
from monitor.store.lease import Lease
from monitor.store.write import Result
from workers.pipeline import TOO_OLD, Dead, Rules, commit, expired

EVERY_S = 10.0
NO_ROOM = "no_room"
#: A queue as full as this is emptied down to the second share; hooks stop at 1.
_FULL, _ROOM = 0.9, 0.8
_AT_ONCE = 250
_BUDGET_S = 3.0
_MEGABYTE = 1_000_000

log = structlog.get_logger("groundwatch.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may wait in Redis, as hooks have it too."""

    samples: int
    megabytes: int


@dataclass(slots=True, kw_only=True)
class Expirer:
    """Expires samples: each is stored as expired, without its texts, and only then removed."""

    client: redis.Redis
    store: Store
    rules: Rules
    name: str
    limits: Limits

    def run(self, _: Lease) -> int:
        """Do one round; return how many entries it took out of the queue."""
        end_s, done = time.monotonic() + _BUDGET_S, 0
        if not self._waiting():
            return 0
        consumer, oldest = Consumer(self.client, self.name), NewestFirst(self.client, self.name)
        consumer.ensure_group()
        now_s = consumer.now_s()
        if self.rules.expire_after_s:
            before_s = now_s - self.rules.expire_after_s
            while time.monotonic() < end_s:
                if not (n := self._expire(consumer, oldest, _AT_ONCE, before_s, TOO_OLD)):
                    break
                done += n
        excess = self._excess()
        while excess > 0 and time.monotonic() < end_s:
            count = min(_AT_ONCE, excess)
            n = self._expire(consumer, oldest, count, now_s - self.rules.behind_after_s, NO_ROOM)
            if not n:
                break
            done, excess = done + n, excess - n
        if done:
            log.warning("samples.expired", count=done)
        return done

    def _expire(
        self, consumer: Consumer, oldest: NewestFirst, count: int, before_s: float, reason: str
    ) -> int:
        entries = oldest.take_oldest(count, before_s=before_s)
        if entries:
            now = datetime.fromtimestamp(consumer.now_s(), UTC)
            results = [self._ended(entry, reason, now) for entry in entries]
            commit(self.store, results, self.rules, now=now)
            consumer.acknowledge([entry.entry_id for entry in entries])
        return len(entries)

    def _ended(self, entry: Entry, reason: str, now: datetime) -> Result | Dead:
        try:
            return expired(decode(entry.fields), self.rules, now=now, reason=reason)
        except RecordError as error:
            return Dead.unreadable(entry, error)

    def _waiting(self) -> int:
        anything: Any = self.client
        with translated():
            return int(anything.xlen(names.SAMPLES))

    def _excess(self) -> int:
        """Count the entries that must go for the queue to be below its limits again."""
        anything: Any = self.client
        waiting = self._waiting()
        with translated():
            size = int(anything.memory_usage(names.SAMPLES, samples=5) or 0)
        share = max(waiting / self.limits.samples, size / (self.limits.megabytes * _MEGABYTE))
        return 0 if share < _FULL else waiting - int(waiting * _ROOM / share)
