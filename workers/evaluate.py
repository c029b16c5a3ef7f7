"""
Evaluate every app and metric: windows to verdicts, verdicts to alerts, in one transaction.

Read from the top: `Evaluator.run` reads what was, judges every stream and window, and writes
verdicts, the evidence of each stream and the alerts that follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts.conditions import SELF, fleet_verdict, verdicts_on
from alerts.decide import decide
from alerts.model import AlertKey, thresholds_from
from alerts.routing import Recipient, RoutingConfig
from alerts.state import timers_from
from monitor.models import AppLevel, StreamKey, Tally, Verdict
from monitor.models.status import FleetFall
from monitor.rolling.fleet import AppNews, budget_keys
from monitor.rolling.level import VerifiedLevel, translated
from monitor.rolling.policies import (
    EvidencePolicy,
    PolicyChoice,
    Rules,
    Thresholds,
    find_policy,
    stream_budget,
)
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import EvidenceFinding, WindowData, evidence_finding, judge_window
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import Lease, fence
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.samples import worst_samples
from monitor.store.verdicts import PoolKey, StatusChange, VerdictKey, read_verdicts, save_verdicts
from workers.drift_reference import reference_tallies
from workers.fleet import FleetPools
from workers.jobs import ErrorThrottle
from workers.level import LevelOf, Levels, PlainEvidence
from workers.stream_states import StreamStates, StreamToJudge

#: Returns verdicts as alerts are to see them.
Hold = Callable[[Connection, Sequence[Verdict], datetime], list[Verdict]]


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Judges all windows; keeps the sums of the reference for a while, as they move slowly."""

    store: Store
    settings: Settings
    thresholds: Thresholds
    recipients: Sequence[Recipient] | RoutingConfig
    policies: PolicyChoice
    conditions: Callable[[datetime], Sequence[Verdict]] | None = None  #: about the monitor itself
    hold: Hold | None = None  #: None: alerts see every verdict as it is
    _states: StreamStates = field(init=False)
    _levels: Levels = field(init=False)
    _pools: FleetPools = field(default_factory=FleetPools)
    _falls: list[FleetFall] = field(default_factory=list)
    _failing: ErrorThrottle = field(default_factory=ErrorThrottle)
    _reference: dict[int, Tally] = field(default_factory=dict)
    _reference_at: datetime | None = None
    _token: int | None = None
    _open: bool = False  #: an evaluation has begun that was not committed

    def __post_init__(self) -> None:
        windows = self.settings.windows
        self._states = StreamStates(bucket_s=windows.bucket_s, news_s=windows.status_window_s)
        self._levels = Levels(thresholds=self.thresholds, bucket_s=windows.bucket_s)

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
        status_window_s = self.settings.windows.status_window_s
        with self.store.read() as connection:
            before = read_verdicts(connection)
            if self._token != lease.token or self._open:  # another process may have written since
                self._states.read(connection)
                self._pools.read(connection)
            self._token, self._open = lease.token, True
            self._states.begin()
            verdicts = self._verdicts(connection, before, now, trouble=trouble, note=note)
            leading = [verdict for verdict in verdicts if verdict.window_s == status_window_s]
            if self.hold is not None:
                leading = self.hold(connection, leading, now)
        leading += self._of_monitor(now)
        leading.append(fleet_verdict(self._falls, window_s=status_window_s, now=now))
        with self.store.write() as connection:
            fence(connection, lease)
            changes = save_verdicts(connection, verdicts, before)
            self._states.save(connection, now=now)
            self._pools.save(connection, now=now)
            since = now - timedelta(seconds=status_window_s)
            decide(
                connection,
                leading,
                now=now,
                timers=timers_from(self.settings),
                channels=self.recipients,
                worst=WorstReasons(connection, leading, since),
                thresholds=thresholds_from(self.settings),
                report_url=self.settings.report_url,
            )
        self._open = False
        return changes

    def _verdicts(
        self,
        connection: Connection,
        before: Mapping[VerdictKey, Verdict],
        now: datetime,
        *,
        trouble: str | None,
        note: str | None,
    ) -> list[Verdict]:
        """Judge every window of every stream; only the status window is based on evidence."""
        settings, now_s = self.settings.windows, int(now.timestamp())
        status_window_s = settings.status_window_s
        lengths_s = sorted({status_window_s, *settings.windows_s})
        streams = active_streams(
            connection,
            since_s=now_s - lengths_s[-1] - settings.reference_s,
            current_since_s=self._window_start(now_s, status_window_s),
        )
        windows = {
            window_s: window_tallies(connection, from_s=self._window_start(now_s, window_s))
            for window_s in lengths_s
        }
        # The reference ends where the status window begins, so it is not another window's.
        reference = {status_window_s: self._reference_tallies(connection, now)}
        levels = self._levels.read(connection, streams, now)
        evidence, shown = self._evidence(
            connection, streams, windows[status_window_s], levels, before, now
        )
        return [
            judge_window(
                WindowData(
                    stream=stream.key,
                    window_s=window_s,
                    current=tallies.get(stream.stream_id, Tally()),
                    reference=reference.get(window_s, {}).get(stream.stream_id, Tally()),
                    n_total=stream.n_total,
                    trouble=trouble,
                    note=note,
                ),
                policy_name=self.policies.of(stream.key.app, stream.key.metric),
                thresholds=self.thresholds,
                now=now,
                previous=before.get((*stream.key[:3], window_s)),
                evidence=evidence.get(stream.key),
                level=shown.get(stream.key),
            )
            for window_s, tallies in windows.items()
            for stream in streams
        ]

    def _evidence(
        self,
        connection: Connection,
        streams: Sequence[Stream],
        windows: Mapping[int, Tally],
        levels: Mapping[StreamKey, LevelOf],
        before: Mapping[VerdictKey, Verdict],
        now: datetime,
    ) -> tuple[dict[StreamKey, EvidenceFinding], dict[StreamKey, AppLevel | None]]:
        """
        Take every stream whose policy collects evidence to *now*; return what it comes to.

        Also what is known of each stream's level. Only such policies can be translated to levels.
        """
        alike: dict[tuple[EvidencePolicy, Rules], list[Stream]] = defaultdict(list)
        pooled: dict[PoolKey, list[AppNews]] = {}
        shared = self._pools.shared(connection, now)
        n_keys = budget_keys((stream.key for stream in streams), shared)
        shown: dict[StreamKey, AppLevel | None] = {
            key: AppLevel(verified=False, needs="only the policy anytime goes by labels")
            if isinstance(level, VerifiedLevel)
            else level
            for key, level in levels.items()
        }
        for stream in streams:
            policy = find_policy(self.policies.of(stream.key.app, stream.key.metric))
            level = levels[stream.key]
            if isinstance(policy, EvidencePolicy):
                rules = self._rules(policy, n_keys)
                if isinstance(level, VerifiedLevel) and level.level_bin is None:
                    rules = translated(rules, level.rates)
                alike[policy, rules].append(stream)
        found = {}
        for (policy, rules), group in alike.items():
            window_s = self.settings.windows.status_window_s
            asked = [
                StreamToJudge(stream, before.get((*stream.key[:3], window_s))) for stream in group
            ]
            advanced = self._states.advance(connection, asked, rules, now=now)
            for stream, (before_looks, looks, state) in zip(group, advanced, strict=True):
                key, level = stream.key, levels[stream.key]
                window = window_stats(windows.get(stream.stream_id, Tally()))
                found[key] = evidence_finding(state, window, rules)
                if isinstance(level, VerifiedLevel):
                    plain = PlainEvidence(found[key], window, rules, state)
                    found[key], shown[key] = self._levels.apply(
                        connection, stream, level, plain, now
                    )
                if policy.use_reference:
                    pool = pooled.setdefault((key.metric, key.evaluator_version), [])
                    pool.append(AppNews(key.app, before_looks, looks))
        rules = self._rules(EvidencePolicy(use_reference=True), n_keys)
        self._falls = self._pools.advance(connection, pooled, rules, now=now)
        return found, shown

    def _rules(self, policy: EvidencePolicy, n_keys: int) -> Rules:
        return Rules(
            warning_rate=self.thresholds.warning_rate,
            critical_rate=self.thresholds.critical_rate,
            min_n=self.thresholds.min_n,
            bucket_s=self.settings.windows.bucket_s,
            false_alarms_per_month=stream_budget(
                self.settings.false_alarms_per_month, roots=n_keys
            ),
            use_reference=policy.use_reference,
        )

    def _of_monitor(self, now: datetime) -> Sequence[Verdict]:
        """Say how the monitor does; that this cannot be read must cost no status and no alert."""
        found: list[Verdict] = []
        conditions = self.conditions
        if conditions is None:
            return found
        error = self._failing.guard("conditions", lambda: found.extend(conditions(now)))
        if error is None:
            return found
        kind = "monitor:store_unsafe"
        why = (
            f"how the monitor does cannot be read ({type(error).__name__}); see the scheduler's log"
        )
        window_s = self.settings.windows.status_window_s
        return verdicts_on(SELF, {kind: why}, [kind], window_s=window_s, now=now)

    def _window_start(self, now_s: int, window_s: int) -> int:
        """Start of the first bucket in the window: the current, partial bucket is its last."""
        width = self.settings.windows.bucket_s
        return now_s // width * width - window_s + width

    def _reference_tallies(self, connection: Connection, now: datetime) -> dict[int, Tally]:
        # Not in the past either: a clock that was set back must not keep an old reference.
        status_window_s = self.settings.windows.status_window_s
        fresh_s = min(60.0, status_window_s / 20)
        age_s = (now - self._reference_at).total_seconds() if self._reference_at else fresh_s
        if not 0 <= age_s < fresh_s:
            end_s = self._window_start(int(now.timestamp()), status_window_s)
            self._reference_at = now
            self._reference = reference_tallies(
                connection,
                from_s=end_s - self.settings.windows.reference_s,
                to_s=end_s,
                status_window_s=status_window_s,
            )
        return self._reference


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
        worst = worst_samples(
            self._connection, app=key.app, metric=key.metric, since=self._since,
            evaluator_version=self._versions[key],
        )  # fmt: skip
        return tuple(item.evaluation.explanation for item in worst if item.evaluation.explanation)

    def __iter__(self) -> Iterator[AlertKey]:
        """Go over the keys."""
        return iter(self._versions)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._versions)
