"""Evaluate every app and metric: windows to verdicts, verdicts to alerts, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts.channels.registry import Recipient
from alerts.decide import decide
from alerts.evidence import AlertKey
from alerts.rules import lines_from, timers_from
from monitor.models import Status, Tally, Verdict
from monitor.rolling.policies import Lines
from monitor.rolling.verdicts import WindowData, judge_window
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.verdicts import StatusChange, read_verdicts, save_verdicts
from monitor.store.worst import worst_samples
from workers.reference import reference_tallies

#: A sample that has waited this long unscored makes its app's monitor blind.
_LATE_AFTER_S = 60.0
_NOT_WELL = frozenset({Status.WARNING, Status.CRITICAL})
_DONE = (Kind.SCORED, Kind.FAILED, Kind.SKIPPED)


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Judges all windows; keeps the sums of the reference for a while, as they move slowly."""

    store: Store
    settings: Settings
    lines: Lines
    recipients: Sequence[Recipient]
    _reference: dict[int, Tally] = field(default_factory=dict)
    _reference_until: datetime | None = None

    def run(
        self, lease: Lease, *, now: datetime, oldest_age_s: float | None = None
    ) -> list[StatusChange]:
        """Judge every key as of *now*; return the statuses that changed."""
        with self.store.read() as connection:
            before = read_verdicts(connection)
            verdicts = self._verdicts(connection, before, now, oldest_age_s)
            worst = self._worst(connection, verdicts, now)
        with self.store.write() as connection:
            fence(connection, lease)
            changes = save_verdicts(connection, verdicts, before)
            decide(
                connection,
                [v for v in verdicts if v.window_s == self.settings.status_window_s],
                now=now,
                timers=timers_from(self.settings),
                channels=self.recipients,
                worst=worst,
                lines=lines_from(self.settings),
                report_url=self.settings.report_url,
            )
        return changes

    def _verdicts(
        self,
        connection: Connection,
        before: Mapping[tuple[str, str, str, int], Verdict],
        now: datetime,
        oldest_age_s: float | None,
    ) -> list[Verdict]:
        now_s = int(now.timestamp())
        streams = active_streams(connection, since_s=now_s - self._longest_s())
        reference = self._reference_tallies(connection, now)
        waiting = self._waiting(connection, oldest_age_s)
        verdicts = []
        for window_s in sorted({self.settings.status_window_s, *self.settings.windows_s}):
            tallies = window_tallies(connection, from_s=self._window_start(now_s, window_s))
            for stream in streams:
                data = self._data(stream, window_s, tallies, reference, waiting)
                previous = before.get((*stream.key[:3], window_s))
                verdicts.append(
                    judge_window(
                        data,
                        policy_name=self.settings.status_policy,
                        lines=self.lines,
                        now=now,
                        previous=previous,
                    )
                )
        return verdicts

    def _data(
        self,
        stream: Stream,
        window_s: int,
        tallies: Mapping[int, Tally],
        reference: Mapping[int, Tally],
        waiting: Mapping[str, int],
    ) -> WindowData:
        return WindowData(
            stream=stream.key,
            window_s=window_s,
            current=tallies.get(stream.stream_id, Tally()),
            reference=reference.get(stream.stream_id, Tally()),
            n_total=stream.n_total,
            waiting=waiting.get(stream.key.app, 0),
        )

    def _window_start(self, now_s: int, window_s: int) -> int:
        """Start of the first bucket in the window: the current, partial bucket is its last."""
        width = self.settings.bucket_s
        return now_s // width * width - window_s + width

    def _reference_tallies(self, connection: Connection, now: datetime) -> dict[int, Tally]:
        if self._reference_until is None or now >= self._reference_until:
            end_s = self._window_start(int(now.timestamp()), self.settings.status_window_s)
            self._reference = reference_tallies(
                connection,
                from_s=end_s - self.settings.reference_s,
                to_s=end_s,
                status_window_s=self.settings.status_window_s,
            )
            fresh_s = min(60.0, self.settings.status_window_s / 20)
            self._reference_until = now + timedelta(seconds=fresh_s)
        return self._reference

    def _waiting(self, connection: Connection, oldest_age_s: float | None) -> dict[str, int]:
        if oldest_age_s is None or oldest_age_s < _LATE_AFTER_S:
            return {}
        totals = read_totals(connection)
        return {
            app: counts[Booking(Kind.SENT, "")]
            - sum(n for (kind, _), n in counts.items() if kind in _DONE)
            for app, counts in totals.items()
        }

    def _worst(
        self, connection: Connection, verdicts: Sequence[Verdict], now: datetime
    ) -> dict[AlertKey, tuple[str, ...]]:
        """Fetch the reasons of the worst samples, only for what is not well."""
        since = now - timedelta(seconds=self.settings.status_window_s)
        return {
            AlertKey(v.app, v.metric, v.segment, v.window_s): tuple(
                item.evaluation.explanation or ""
                for item in worst_samples(connection, app=v.app, metric=v.metric, since=since)
            )
            for v in verdicts
            if v.window_s == self.settings.status_window_s and v.status in _NOT_WELL
        }

    def _longest_s(self) -> int:
        return max(self.settings.status_window_s, *self.settings.windows_s) + (
            self.settings.reference_s
        )
