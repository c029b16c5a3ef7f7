"""The scheduler's part in the digest: look whether one is due, read it, and put it on its way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from alerts.channels.base import Channel
from alerts.periodic import enqueue_once, is_due, is_first, note_first, recipients_of_digests
from monitor.report.periods import Cadence, Schedule, last_period
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from workers.digest_facts import read_digest


class DigestJob:
    """Makes each digest once; costs nothing between two of them."""

    def __init__(self, store: Store, settings: Settings, channels: Mapping[str, Channel]) -> None:
        self._store = store
        self._settings = settings
        self._recipients = recipients_of_digests(channels, settings.digest_channels)
        zone = ZoneInfo(settings.digest_timezone)
        self._schedule = Schedule(Cadence(settings.digest), settings.digest_hour, zone)
        self._done = ""

    def run(self, lease: Lease, *, now: datetime) -> int:
        """
        Make the digest of the period that ended last, if nobody has; say how many messages.

        The very first time it only notes where it begins: a digest about a time in which
        nothing was watched tells nothing.
        """
        period = last_period(self._schedule, now)
        if period.name == self._done:
            return 0
        with self._store.read() as connection:
            due, first = is_due(connection, period), is_first(connection)
        count = 0
        if due:
            digest = None if first else read_digest(self._store, self._settings, period, now=now)
            with self._store.write() as connection:
                fence(connection, lease)
                if digest is None:
                    note_first(connection, period, now)
                else:
                    count = enqueue_once(connection, digest, self._recipients, now)
        self._done = period.name
        return count
