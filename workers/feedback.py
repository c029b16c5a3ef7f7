"""Move what users said from Redis into the store: stored first, and only then removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from pydantic import ValidationError

from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.store.engine import Store
from monitor.store.feedback import Feedback, save_feedback
from monitor.store.lease import Lease, database_now, fence
from monitor.store.ledger import Entry, Kind, book

_AT_ONCE, _MOST_ROUNDS = 500, 20

log = structlog.get_logger("groundwatch.scheduler")


@dataclass(slots=True)
class FeedbackCollector:
    """
    Takes feedback out of its stream, under the scheduler's lease.

    Killed between the commit and the removal, the next round reads the same entries again, and
    storing them again changes nothing.
    """

    client: redis.Redis
    store: Store
    bucket_s: int

    def run(self, lease: Lease) -> int:
        """Do one round; return how many were new."""
        anything: Any = self.client
        new = 0
        for _ in range(_MOST_ROUNDS):
            with translated():
                entries = anything.xrange(names.FEEDBACK, count=_AT_ONCE)
            if not entries:
                break
            read = [_read(fields) for _, fields in entries]
            found = [item for item in read if isinstance(item, Feedback)]
            unreadable = len(read) - len(found)
            with self.store.write() as connection:
                fence(connection, lease)
                now = database_now(connection)
                new += save_feedback(
                    connection, found, source="hook", now=now, bucket_s=self.bucket_s
                )
                if unreadable:
                    start_s = int(now.timestamp()) // self.bucket_s * self.bucket_s
                    apps = [item for item in read if isinstance(item, str)]
                    book(connection, [
                        Entry(app, start_s, Kind.FEEDBACK_STORED, "unreadable", 1) for app in apps
                    ])  # fmt: skip
                    log.warning("feedback_unreadable", count=unreadable)
            with translated(), anything.pipeline(transaction=True) as pipe:
                pipe.xdel(names.FEEDBACK, *(entry_id for entry_id, _ in entries))
                pipe.incrby(names.FEEDBACK_STORED, len(entries))
                pipe.execute()
            if len(entries) < _AT_ONCE:
                break
        return new


def _read(fields: Mapping[bytes, bytes]) -> Feedback | str:
    """Return the feedback of an entry; the name of its app where it cannot be read."""
    try:
        return Feedback.model_validate(json.loads(fields[names.FIELD_BODY.encode()]))
    except (KeyError, ValueError, RecursionError, ValidationError):
        raw = fields.get(names.FIELD_APP.encode(), b"unknown")
        return raw.decode("utf-8", "replace").replace("\0", "\ufffd")[:200] or "unknown"
