"""Evaluate every app and metric: windows to verdicts, verdicts to alerts, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts.conditions import SELF, verdicts_on
from alerts.decide import decide
from alerts.evidence import AlertKey, thresholds_from, timers_from
from alerts.routing import Recipient, RoutingConfig
from monitor.models import StreamKey, Tally, Verdict
from monitor.rolling.baseline import Rules, stream_budget
from monitor.rolling.policies import EvidencePolicy, PolicyChoice, Thresholds, find_policy
from monitor.rolling.verdicts import Standing, WindowData, judge_window, standing_of
from monitor.rolling.windows import window_stats
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.samples import worst_explanations
from monitor.store.verdicts import StatusChange, read_verdicts, save_verdicts
from workers.drift_reference import reference_tallies
from workers.jobs import ErrorThrottle
from workers.standings import Asked, Standings


def no_conditions(_now: datetime) -> Sequence[Verdict]:
    """Say nothing about the monitor itself."""
    return ()


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
    lines: Thresholds
    recipients: Sequence[Recipient] | RoutingConfig
    policies: PolicyChoice
    conditions: Callable[[datetime], Sequence[Verdict]] = no_conditions
    _standings: Standings = field(init=False)
    _failing: ErrorThrottle = field(default_factory=ErrorThrottle)
    _reference: dict[int, Tally] = field(default_factory=dict)
    _reference_at: datetime | None = None

    def __post_init__(self) -> None:
        self._standings = Standings(
            bucket_s=self.settings.windows.bucket_s, news_s=self.settings.windows.status_window_s
        )

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
        standings = self._standings
        with self.store.read() as connection:
            before = read_verdicts(connection)
            standings.begin(connection, lease)
            verdicts = self._verdicts(connection, standings, before, now, (trouble, note))
        of_monitor = self._of_monitor(now)
        with self.store.write() as connection:
            fence(connection, lease)
            changes = save_verdicts(connection, verdicts, before)
            standings.save(connection, now=now)
            leading = [v for v in verdicts if v.window_s == self.settings.windows.status_window_s]
            leading += of_monitor
            decide(
                connection,
                leading,
                now=now,
                timers=timers_from(self.settings),
                channels=self.recipients,
                worst=WorstReasons(
                    connection,
                    leading,
                    now - timedelta(seconds=self.settings.windows.status_window_s),
                ),
                thresholds=thresholds_from(self.settings),
                report_url=self.settings.report_url,
            )
        standings.committed()
        return changes

    def _of_monitor(self, now: datetime) -> Sequence[Verdict]:
        """Say how the monitor does; that this cannot be read must cost no status and no alert."""
        found: list[Verdict] = []
        error = self._failing.guard("conditions", lambda: found.extend(self.conditions(now)))
        if error is None:
            return found
        kind = "monitor:store_unsafe"
        why = (
            f"how the monitor does cannot be read ({type(error).__name__}); see the scheduler's log"
        )
        window_s = self.settings.windows.status_window_s
        return verdicts_on(SELF, {kind: why}, [kind], window_s=window_s, now=now)

    def _verdicts(
        self,
        connection: Connection,
        standings: Standings,
        before: Mapping[tuple[str, str, str, int], Verdict],
        now: datetime,
        remarks: tuple[str | None, str | None],
    ) -> list[Verdict]:
        now_s = int(now.timestamp())
        status_window_s = self.settings.windows.status_window_s
        longer_s = self.settings.windows.windows_s
        streams = active_streams(
            connection,
            since_s=now_s - max(status_window_s, *longer_s) - self.settings.windows.reference_s,
            current_since_s=self._window_start(now_s, self.settings.windows.status_window_s),
        )
        reference = self._reference_tallies(connection, now)
        windows = {
            window_s: window_tallies(connection, from_s=self._window_start(now_s, window_s))
            for window_s in sorted(
                {self.settings.windows.status_window_s, *self.settings.windows.windows_s}
            )
        }
        leading = windows[self.settings.windows.status_window_s]
        previous = {
            stream.key: before.get((*stream.key[:3], self.settings.windows.status_window_s))
            for stream in streams
        }
        asked = [Asked(stream, previous[stream.key]) for stream in streams]
        found = self._found(connection, standings, asked, leading, now)
        return [
            judge_window(
                self._data(stream, window_s, tallies, reference, remarks),
                policy_name=self.policies.of(stream.key.app, stream.key.metric),
                lines=self.lines,
                now=now,
                previous=before.get((*stream.key[:3], window_s)),
                standing=found[stream.key],
            )
            for window_s, tallies in windows.items()
            for stream in streams
        ]

    def _found(
        self,
        connection: Connection,
        standings: Standings,
        asked: Sequence[Asked],
        leading: Mapping[int, Tally],
        now: datetime,
    ) -> dict[StreamKey, Standing | None]:
        """Say how each stream stands; None where its policy does without evidence."""
        found: dict[StreamKey, Standing | None] = {one.stream.key: None for one in asked}
        alike: dict[Rules, list[Asked]] = defaultdict(list)
        for one in asked:
            rules = self._rules(one.stream, len(asked))
            if rules is not None:
                alike[rules].append(one)
        for rules, ones in alike.items():
            memories = standings.look_all(connection, ones, rules, now=now)
            for one, memory in zip(ones, memories, strict=True):
                window = window_stats(leading.get(one.stream.stream_id, Tally()))
                found[one.stream.key] = standing_of(memory, window, rules)
        return found

    def _rules(self, stream: Stream, n_streams: int) -> Rules | None:
        policy = find_policy(self.policies.of(stream.key.app, stream.key.metric))
        if not isinstance(policy, EvidencePolicy):
            return None
        settings = self.settings
        return Rules(
            warning_rate=self.lines.warning_rate,
            critical_rate=self.lines.critical_rate,
            min_n=self.lines.min_n,
            bucket_s=settings.windows.bucket_s,
            false_alarms_per_month=stream_budget(settings.false_alarms_per_month, roots=n_streams),
            use_reference=policy.use_reference,
        )

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
            if window_s == self.settings.windows.status_window_s
            else Tally(),
            n_total=stream.n_total,
            trouble=remarks[0],
            note=remarks[1],
        )

    def _window_start(self, now_s: int, window_s: int) -> int:
        """Start of the first bucket in the window: the current, partial bucket is its last."""
        width = self.settings.windows.bucket_s
        return now_s // width * width - window_s + width

    def _reference_tallies(self, connection: Connection, now: datetime) -> dict[int, Tally]:
        # Not in the past either: a clock that was set back must not keep an old reference.
        fresh_s = min(60.0, self.settings.windows.status_window_s / 20)
        age_s = (now - self._reference_at).total_seconds() if self._reference_at else fresh_s
        if not 0 <= age_s < fresh_s:
            end_s = self._window_start(int(now.timestamp()), self.settings.windows.status_window_s)
            self._reference_at = now
            self._reference = reference_tallies(
                connection,
                from_s=end_s - self.settings.windows.reference_s,
                to_s=end_s,
                status_window_s=self.settings.windows.status_window_s,
            )
        return self._reference
