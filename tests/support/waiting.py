"""Waiting for what other threads and processes do, on however busy a machine."""

import time
from collections.abc import Callable

PATIENCE_S = 100.0  #: only what never happens takes so long


def wait_until(happened: Callable[[], object], *, every_s: float = 0.02) -> None:
    """Return as soon as something has happened; fail when it does not."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(every_s)


#: For programs of tests in which it is not the claim how long an exit waits for a busy machine.
PATIENT_EXIT = """
import monitor.hook.sender as sender
sender._LOADED_WITHIN_S = sender._ONCE_LOADED_S = 60.0
"""
