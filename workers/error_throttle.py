"""Run what is tried again anyway, and say of failures what is news, not each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from monitor.errors import GroundwatchError

_SAY_AGAIN_S = 600.0

log = structlog.get_logger("groundwatch.scheduler")


class _Failure(NamedTuple):
    kind: tuple[str, str]  #: of exception, and its code
    said_s: float


class ErrorThrottle:
    """
    What fails now, by name; safe for threads that run different names.

    A failure is logged when it begins, when another one takes its place, and every ten
    minutes as long as it lasts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}

    def guard(self, name: str, work: Callable[[], object]) -> Exception | None:
        """Run *work*; give the exception that ended it, if any."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the schedule
            self._note(name, error)
            return error
        if self._failures.pop(name, None):
            log.info("job_recovered", job=name)
        return None

    def _note(self, name: str, error: Exception) -> None:
        code = error.code if isinstance(error, GroundwatchError) else ""
        kind, known, now_s = (type(error).__name__, code), self._failures.get(name), self._clock()
        if known and known.kind == kind and now_s - known.said_s < _SAY_AGAIN_S:
            return
        self._failures[name] = _Failure(kind, now_s)
        if isinstance(error, GroundwatchError):
            log.error("job_failed", job=name, code=code, message=str(error))
        else:
            log.error("job_broken", job=name, exc_info=error)
