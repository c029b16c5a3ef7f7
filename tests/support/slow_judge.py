"""A judge that takes its time."""

from __future__ import annotations

import threading
import time
from typing import Any

from support.judge_server import JudgeServer


class SlowJudge(JudgeServer):
    """A judge on loopback that answers after a while, and counts the requests in flight."""

    def __init__(self, takes_s: float, **server: Any) -> None:
        super().__init__(**server)
        self._takes_s = takes_s
        self._in_flight = 0
        self._lock = threading.Lock()
        self.most_in_flight = 0

    def take(self, request: dict[str, Any]) -> str:
        """Wait, as a model would think, and answer."""
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        time.sleep(self._takes_s)
        with self._lock:
            self._in_flight -= 1
        return super().take(request)
