"""Watch the queue for the monitor's own blindness: nothing is scored, or nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import redis

from monitor.errors import QueueUnavailableError
from monitor.queue.consumer import Backlog, backlog
from monitor.report.words import duration

#: A sample that has waited this long, or a Redis away for this long, makes the monitor blind.
BLIND_AFTER_S = 300.0


@dataclass(slots=True)
class QueueWatch:
    """Looks at the queue, and remembers when it last could."""

    client: redis.Redis
    last: Backlog | None = None  #: what was found; None while Redis is away
    _answered_at: datetime | None = None

    def trouble(self, now: datetime) -> str | None:
        """Say in a sentence why statuses cannot be trusted now; None when they can."""
        if self._answered_at is None:
            self._answered_at = now
        try:
            found = backlog(self.client)
        except QueueUnavailableError:
            self.last = None
            away_s = (now - self._answered_at).total_seconds()
            return f"Redis is away for {duration(away_s)}" if away_s >= BLIND_AFTER_S else None
        self._answered_at, self.last = now, found
        # What was left for later is history: it waits for hands that news does not need.
        if found.news_age_s is None or found.news_age_s < BLIND_AFTER_S:
            return None
        return f"{found.waiting:,} samples wait, the oldest for {duration(found.news_age_s)}"
