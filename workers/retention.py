"""Let go of what is older than the settings keep it; counted in the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import structlog

from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from monitor.store.retention import Ages, Retention

#: One run takes at most a few seconds; what is left is for the next one.
EVERY_S = 60.0
#: A calendar that jumps ahead by so much is believed only after so long.
_JUMP_S, _BELIEVED_S = 3600.0, 86_400.0

log = structlog.get_logger("groundwatch.scheduler")


def ages_from(settings: Settings) -> Ages:
    """Read how long things are kept."""
    return Ages(
        texts=settings.keep_texts_days,
        evaluations=settings.keep_evaluations_days,
        incidents=settings.keep_incidents_days,
        outbox=settings.keep_outbox_days,
        audit=settings.keep_audit_days,
        poison=settings.keep_poison_days,
    )


class Clocks(NamedTuple):
    """What two clocks say at one moment, in seconds: the calendar's, and one that never jumps."""

    calendar_s: float
    steady_s: float

    @classmethod
    def now(cls) -> Self:
        """Read both; the steady one goes on while the machine sleeps, where there is such a one."""
        steady = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return cls(time.time(), time.clock_gettime(steady))


@dataclass(slots=True)
class Keeper:
    """Runs the retention under the scheduler's lease; not by a calendar that has just jumped."""

    store: Store
    settings: Settings
    clocks: Callable[[], Clocks] = Clocks.now
    _trusted: Clocks | None = None
    _jumped_at: Clocks | None = None

    def run(self, lease: Lease) -> None:
        """Do one run, and say what it deleted."""
        now = self.clocks()
        if self._has_jumped(now):
            return
        guard = partial(fence, lease=lease)
        retention = Retention(store=self.store, ages=ages_from(self.settings), guard=guard)
        done = retention.run(now.calendar_s)
        if done:
            log.info("retention.deleted", **{name.replace(" ", "_"): n for name, n in done.items()})

    def _has_jumped(self, now: Clocks) -> bool:
        """Say whether the calendar went ahead by an hour or more, less than a day ago."""
        before = self._trusted = self._trusted or now
        ahead_s = now.calendar_s - before.calendar_s - (now.steady_s - before.steady_s)
        if ahead_s < _JUMP_S:
            self._jumped_at = None
            return False
        if self._jumped_at is None:
            self._jumped_at = now
            log.error("clock.jumped", ahead_s=round(ahead_s), nothing_deleted_for_s=_BELIEVED_S)
        if now.steady_s - self._jumped_at.steady_s < _BELIEVED_S:
            return True
        self._trusted, self._jumped_at = now, None
        return False
