"""What the servers that play the outside world share: waiting until something arrived."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Waiting:
    """A server whose messages can be waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopping = threading.Event()

    def _wait(self, arrived: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(arrived, timeout_s):
                raise TimeoutError(f"not enough messages after {timeout_s} s")
