"""Evaluate every app and metric: windows to verdicts, verdicts to alerts, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts.channels.registry import Recipient
from alerts.decide import decide
from alerts.evidence import AlertKey
from alerts.rules import lines_from, timers_from
from monitor.models import Tally, Verdict
from monitor.rolling.policies import Lines
from monitor.rolling.verdicts import WindowData, judge_window
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.verdicts import StatusChange, read_verdicts, save_verdicts
from monitor.store.worst import worst_explanations
from workers.reference import reference_tallies


class WorstReasons(Mapping[AlertKey, tuple[str, ...]]):
    """What the scorer said of the worst samples of a key, read only when it is asked for."""

    def __init__(
        self, connection: Connection, verdicts: Sequence[Verdict], since: datetime
    ) -> None:
        self._connection = connection
        self._versions = {
            AlertKey(v.app, v.metric, v.segment, v.window_s): v.evaluator_version for v in verdicts
        }
        self._since = since

    def __getitem__(self, key: AlertKey) -> tuple[str, ...]:
        """Read the explanations, the worst first."""
        return worst_explanations(
            self._connection,
            app=key.app,
            metric=key.metric,
            evaluator_version=self._versions[key],
            since=self._since,
        )

    def __iter__(self) -> Iterator[AlertKey]:
        """Go over the keys."""
        return iter(self._versions)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._versions)


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Judges all windows; keeps the sums of the reference for a while, as they move slowly."""

    store: Store
    settings: Settings
    lines: Lines
    recipients: Sequence[Recipient]
    _reference: dict[int, Tally] = field(default_factory=dict)
    _reference_at: datetime | None = None

    def run(
        self,
        lease: Lease,
        *,
        now: datetime,
        trouble: str | None = None,
        note: str | None = None,
    ) -> list[StatusChange]:
        """
        Judge every key as of *now*; return the statuses that changed.

        *trouble* says why statuses cannot be trusted at all now, which makes all blind;
        *note* is what people must know beside them.
        """
        with self.store.read() as connection:
            before = read_verdicts(connection)
            verdicts = self._verdicts(connection, before, now, (trouble, note))
        with self.store.write() as connection:
            fence(connection, lease)
            changes = save_verdicts(connection, verdicts, before)
            leading = [v for v in verdicts if v.window_s == self.settings.status_window_s]
            decide(
                connection,
                leading,
                now=now,
                timers=timers_from(self.settings),
                channels=self.recipients,
                worst=WorstReasons(connection, leading, now - self._status_window),
                lines=lines_from(self.settings),
                report_url=self.settings.report_url,
            )
        return changes

    def _verdicts(
        self,
        connection: Connection,
        before: Mapping[tuple[str, str, str, int], Verdict],
        now: datetime,
        remarks: tuple[str | None, str | None],
    ) -> list[Verdict]:
        now_s = int(now.timestamp())
        streams = active_streams(
            connection,
            since_s=now_s - self._longest_s(),
            current_since_s=self._window_start(now_s, self.settings.status_window_s),
        )
        reference = self._reference_tallies(connection, now)
        verdicts = []
        for window_s in sorted({self.settings.status_window_s, *self.settings.windows_s}):
            tallies = window_tallies(connection, from_s=self._window_start(now_s, window_s))
            for stream in streams:
                data = self._data(stream, window_s, tallies, reference, remarks)
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
        remarks: tuple[str | None, str | None],
    ) -> WindowData:
        return WindowData(
            stream=stream.key,
            window_s=window_s,
            current=tallies.get(stream.stream_id, Tally()),
            # The reference ends where the status window begins, so it is no other window's.
            reference=reference.get(stream.stream_id, Tally())
            if window_s == self.settings.status_window_s
            else Tally(),
            n_total=stream.n_total,
            trouble=remarks[0],
            note=remarks[1],
        )

    def _window_start(self, now_s: int, window_s: int) -> int:
        """Start of the first bucket in the window: the current, partial bucket is its last."""
        width = self.settings.bucket_s
        return now_s // width * width - window_s + width

    def _reference_tallies(self, connection: Connection, now: datetime) -> dict[int, Tally]:
        # Not in the past either: a clock that was set back must not keep an old reference.
        fresh_s = min(60.0, self.settings.status_window_s / 20)
        age_s = (now - self._reference_at).total_seconds() if self._reference_at else fresh_s
        if not 0 <= age_s < fresh_s:
            end_s = self._window_start(int(now.timestamp()), self.settings.status_window_s)
            self._reference_at = now
            self._reference = reference_tallies(
                connection,
                from_s=end_s - self.settings.reference_s,
                to_s=end_s,
                status_window_s=self.settings.status_window_s,
            )
        return self._reference

    @property
    def _status_window(self) -> timedelta:
        return timedelta(seconds=self.settings.status_window_s)

    def _longest_s(self) -> int:
        return max(self.settings.status_window_s, *self.settings.windows_s) + (
            self.settings.reference_s
        )
