"""The judge is away: one worker hears it, all leave it alone until it may be back."""

from __future__ import annotations

from typing import Any, NamedTuple

import redis

from monitor.errors import JudgeAwayError
from monitor.queue import names
from monitor.queue.consumer import translated

#: Nobody said when it is back: ask again after a minute. At most an hour, whatever was said.
_UNKNOWN_S, _LONGEST_S = 60.0, 3600.0
_LONGEST_REASON = 300


class Away(NamedTuple):
    """Why the judge answers nobody, and for how long it is left alone."""

    reason: str
    for_s: float


class Absence:
    """The note that a judge's endpoint answers nobody; it ends by itself."""

    def __init__(self, client: redis.Redis, endpoint: str) -> None:
        self._redis: Any = client
        self._key = names.judge_away(endpoint)

    def note(self, error: JudgeAwayError) -> bool:
        """Tell everybody; False when they know already."""
        for_s = _UNKNOWN_S if error.retry_after_s is None else max(error.retry_after_s, 1.0)
        ends_ms = round(min(for_s, _LONGEST_S) * 1000)
        with translated():
            return bool(
                self._redis.set(self._key, str(error)[:_LONGEST_REASON], px=ends_ms, nx=True)
            )

    def look(self) -> Away | None:
        """Say whether it is away now."""
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.get(self._key)
            pipe.pttl(self._key)
            reason, left_ms = pipe.execute()
        if reason is None:
            return None
        return Away(reason.decode("utf-8", "replace"), max(left_ms, 0) / 1000)

    def over(self) -> None:
        """Tell everybody that it has answered."""
        with translated():
            self._redis.delete(self._key)
