"""Who holds the scheduler's lease, and for how long: renewed while its jobs get on."""

from __future__ import annotations

import time

import structlog

from monitor.store.engine import Store
from monitor.store.lease import Lease, acquire, new_owner, release

TTL_S = 15.0
RENEW_EVERY_S = 1.0
#: A job that takes longer hangs: another scheduler may take over.
LONGEST_JOB_S = 600.0

log = structlog.get_logger("groundwatch.scheduler")


class LeaseHolder:
    """
    Takes the scheduler's lease and keeps it, on a thread of its own.

    Jobs read and compute before the one transaction that the lease fences, and may take
    longer than the lease lasts; renewed beside them, it does not change hands meanwhile. A
    job that began longer than ``LONGEST_JOB_S`` ago hangs, and the lease is let go.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = new_owner()
        self._began_s: float | None = None
        self.lease: Lease | None = None  #: None while another scheduler has it

    def renew(self) -> None:
        """Take the lease or keep it; call it every ``RENEW_EVERY_S``."""
        began_s = self._began_s
        if began_s is not None and time.monotonic() - began_s > LONGEST_JOB_S:
            self.lease = None
            return
        before = self.lease
        try:
            self.lease = acquire(self._store, "scheduler", self._owner, ttl_s=TTL_S)
        except BaseException:
            self.lease = None
            raise
        if self.lease is not None and before is None:
            log.info("lease.taken", owner=self._owner, token=self.lease.token)

    def begin(self) -> None:
        """Note that a job begins."""
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Note that no job is under way."""
        self._began_s = None

    def release(self) -> None:
        """Give the lease back, so that nobody has to wait for it to expire."""
        if self.lease is not None:
            release(self._store, self.lease)
            self.lease = None
