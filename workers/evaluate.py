"""
Evaluate every app and metric: windows to verdicts, verdicts to alerts, in one transaction.

Read from the top: `Evaluator.run` reads what was, judges every stream and window, and writes
verdicts, the evidence of each stream and the alerts that follow. `RequestErrors` judges requests of
the apps themselves, by the same evidence and within the same budget.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Table, case, func, select

from alerts.conditions import ERROR_RATE, SELF, fleet_verdict, verdicts_on
from alerts.decide import decide
from alerts.model import thresholds_from
from alerts.routing import Recipient, RoutingConfig
from alerts.state import timers_from
from monitor.format import plain_text
from monitor.models import ROOT, AppLevel, Status, StreamKey, Tally, Verdict
from monitor.models.status import FleetFall
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import History, ReferenceSpan
from monitor.rolling.evidence_state import EvidenceState, idle, learn_due_s, relearn
from monitor.rolling.fleet import AppNews
from monitor.rolling.level import VerifiedLevel, translated
from monitor.rolling.looks import Looks
from monitor.rolling.policies import (
    EvidencePolicy,
    PolicyChoice,
    Rules,
    Thresholds,
    budget_keys,
    find_policy,
    policies_of,
    rules_of,
    thresholds_of,
)
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import (
    Began,
    EvidenceFinding,
    WindowData,
    evidence_finding,
    judge_window,
    well_spans,
)
from monitor.settings import Settings
from monitor.store.engine import Lease, Store, fence
from monitor.store.ledger import Kind, read_between
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.samples import worst_samples
from monitor.store.tables import counts, totals
from monitor.store.verdicts import (
    PoolKey,
    StatusChange,
    VerdictKey,
    read_changes,
    read_verdicts,
    save_verdicts,
)
from workers.context import ErrorThrottle
from workers.level import LevelOf, Levels, PlainEvidence
from workers.stream_states import FleetPools, StreamStates

#: In buckets: what normal is learned from, and the past with which a process begins.
_HISTORY, _FIRST, _UNSETTLED = 9 * 1440, 1440, 60
#: Errors named beside an error rate.
_MOST_ERRORS = 3
#: Returns verdicts as alerts are to see them.
Hold = Callable[[Connection, Sequence[Verdict], datetime], list[Verdict]]


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Judges all windows; keeps the sums of the reference for a while, as they move slowly."""

    store: Store
    settings: Settings
    recipients: Sequence[Recipient] | RoutingConfig
    conditions: Callable[[datetime], Sequence[Verdict]] | None = None  #: about the monitor itself
    hold: Hold | None = None  #: None: alerts see every verdict as it is
    _thresholds: Thresholds = field(init=False)
    _policies: PolicyChoice = field(init=False)
    _states: StreamStates = field(init=False)
    _levels: Levels = field(init=False)
    _pools: FleetPools = field(default_factory=FleetPools)
    _errors: RequestErrors = field(init=False)
    _falls: list[FleetFall] = field(default_factory=list)
    _failing: ErrorThrottle = field(default_factory=ErrorThrottle)
    _reference: dict[int, Tally] = field(default_factory=dict)
    _reference_at: datetime | None = None
    _token: int | None = None
    _n_keys: int = 1  #: that share the budget of false alarms
    _open: bool = False  #: an evaluation has begun that was not committed

    def __post_init__(self) -> None:
        windows = self.settings.windows
        self._thresholds, self._policies = thresholds_of(self.settings), policies_of(self.settings)
        self._states = StreamStates(bucket_s=windows.bucket_s, news_s=windows.status_window_s)
        self._levels = Levels(thresholds=self._thresholds, bucket_s=windows.bucket_s)
        self._errors = RequestErrors(self._thresholds, windows.status_window_s)

    def run(
        self, lease: Lease, *, now: datetime, trouble: str | None = None, note: str | None = None
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
            self._states.begin(connection)
            self._errors.read(connection)
            verdicts = self._verdicts(connection, before, now, trouble=trouble, note=note)
            leading = [verdict for verdict in verdicts if verdict.window_s == status_window_s]
            if self.hold is not None:
                leading = self.hold(connection, leading, now)
            # Alerted, and shown beside the metrics: they are not among them.
            rules = rules_of(self.settings, keys=self._n_keys)
            leading += self._errors.verdicts(connection, rules, now, trouble=trouble)
        if self.conditions is not None:
            read, of_monitor = self.conditions, list[Verdict]()
            # That this cannot be read must cost no status and no alert.
            if error := self._failing.guard("conditions", lambda: of_monitor.extend(read(now))):
                kind, name = "monitor:store_unsafe", type(error).__name__
                why = f"how the monitor does cannot be read ({name}); see the scheduler's log"
                ill = {kind: why}
                of_monitor = verdicts_on(SELF, ill, [kind], window_s=status_window_s, now=now)
            leading += of_monitor
        leading.append(fleet_verdict(self._falls, window_s=status_window_s, now=now))
        with self.store.write() as connection:
            fence(connection, lease)
            changes = save_verdicts(connection, verdicts, before)
            self._states.save(connection, now=now)
            self._pools.save(connection, now=now)
            since = now - timedelta(seconds=status_window_s)

            def worst_of(**key: Any) -> list[str]:
                worst = worst_samples(connection, since=since, **key)
                return [text for item in worst if (text := item.evaluation.explanation)]

            decide(
                connection,
                leading,
                now=now,
                timers=timers_from(self.settings),
                channels=self.recipients,
                worst_of=worst_of,
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
        # The reference ends where the status window begins, so it is not another window's. It is
        # read again after a while, and when a clock was set back.
        fresh_s = min(60.0, status_window_s / 20)
        age_s = (now - self._reference_at).total_seconds() if self._reference_at else fresh_s
        if not 0 <= age_s < fresh_s:
            self._reference_at, end_s = now, self._window_start(now_s, status_window_s)
            self._reference = reference_tallies(
                connection, from_s=end_s - settings.reference_s, to_s=end_s,
                status_window_s=status_window_s,
            )  # fmt: skip
        reference = {status_window_s: self._reference}
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
                policy_name=self._policies.of(stream.key.app, stream.key.metric),
                thresholds=self._thresholds,
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
        keys = budget_keys((stream.key for stream in streams), shared)
        self._n_keys = keys + len(self._errors.apps)
        shown: dict[StreamKey, AppLevel | None] = {
            key: AppLevel(verified=False, needs="only the policy anytime uses labels")
            if isinstance(level, VerifiedLevel)
            else level
            for key, level in levels.items()
        }
        for stream in streams:
            policy = find_policy(self._policies.of(stream.key.app, stream.key.metric))
            level = levels[stream.key]
            if isinstance(policy, EvidencePolicy):
                rules = rules_of(
                    self.settings, keys=self._n_keys, use_reference=policy.use_reference
                )
                if isinstance(level, VerifiedLevel) and not level.lines:
                    rules = translated(rules, level.rates)
                alike[policy, rules].append(stream)
        found = {}
        for (policy, rules), group in alike.items():
            window_s = self.settings.windows.status_window_s
            asked = [(stream, before.get((*stream.key[:3], window_s))) for stream in group]
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
        rules = rules_of(self.settings, keys=self._n_keys)
        self._falls = self._pools.advance(connection, pooled, rules, now=now)
        return found, shown

    def _window_start(self, now_s: int, window_s: int) -> int:
        """Start of the first bucket in the window: the current, partial bucket is its last."""
        width = self.settings.windows.bucket_s
        return now_s // width * width - window_s + width


def reference_tallies(
    connection: Connection, *, from_s: int, to_s: int, status_window_s: int
) -> dict[int, Tally]:
    """
    Sum each stream over [from_s, to_s), the times of its own incidents left out.

    Streams without incidents cost one query for all; the others one for each of the
    few stretches between incidents.
    """
    tallies = window_tallies(connection, from_s=from_s, to_s=to_s)
    changes = status_courses(connection, from_s, status_window_s)
    by_span: dict[ReferenceSpan, list[Stream]] = defaultdict(list)
    for stream in active_streams(connection, since_s=from_s):
        began = changes.get(stream.key[:3], [])
        spans = well_spans(began, from_s=from_s, to_s=to_s)
        if spans != [ReferenceSpan(from_s, to_s)]:
            tallies[stream.stream_id] = Tally()
            for span in spans:
                by_span[span].append(stream)
    for span, streams in by_span.items():
        found = window_tallies(connection, from_s=span.from_s, to_s=span.to_s)
        for stream in streams:
            tallies[stream.stream_id] += found.get(stream.stream_id, Tally())
    return tallies


def status_courses(
    connection: Connection, from_s: int, status_window_s: int
) -> dict[tuple[str, str, str], list[Began]]:
    """List how the status of each key went, the one that was there at *from_s* first."""
    found: dict[tuple[str, str, str], list[Began]] = {}

    def began(at: datetime, status: Status, verdict: Verdict) -> Began:
        """Note also the earliest time at which the fall may have begun, if it was located."""
        onset = verdict.onset_earliest or verdict.onset
        return Began(at.timestamp(), status, onset.timestamp() if onset else None)

    for change in read_changes(connection, since=datetime.fromtimestamp(from_s, UTC)):
        if change.window_s == status_window_s:
            key = (change.app, change.metric, change.segment)
            at_first = [Began(from_s, change.before)] if change.before else []
            found.setdefault(key, at_first).append(began(change.at, change.after, change.verdict))
    for verdict in read_verdicts(connection).values():
        if verdict.window_s == status_window_s:
            key = (verdict.app, verdict.metric, verdict.segment)
            found.setdefault(key, [began(verdict.status_since, verdict.status, verdict)])
    return found


class RequestErrors:
    """
    Judges the requests of each app: one passes unless it failed, as the app's hooks count it.

    Nothing is stored but those counts: a process begins with the last day of them. Apps of which
    no request ever failed cost nothing, not even of the budget.
    """

    def __init__(self, thresholds: Thresholds, window_s: int) -> None:
        self._thresholds, self._window_s = thresholds, window_s
        self._known: dict[str, tuple[EvidenceState, int, int]] = {}
        self._before: dict[str, Verdict] = {}
        self.apps: dict[str, tuple[int, int]] = {}  #: all requests ever, and those that failed

    def read(self, connection: Connection) -> None:
        """Read how many requests there were of each app that had any that failed."""
        rows = connection.execute(
            select(totals.c.app, *_requests(totals))
            .where(_of_requests(totals))
            .group_by(totals.c.app)
        )
        self.apps = {app: (int(n), int(failed)) for app, n, failed in rows if failed}

    def verdicts(
        self, connection: Connection, rules: Rules, now: datetime, *, trouble: str | None
    ) -> list[Verdict]:
        """Take every app to *now*; its verdict names the errors seen most in the window."""
        now_s = now.timestamp()
        lately = read_between(connection, now_s - self._window_s) if self.apps else {}
        for app, (n, failed) in self.apps.items():
            state, seen, seen_failed = self._known.get(app) or (None, n, failed)
            if state is None or now_s >= learn_due_s(state, rules):
                from_s = now_s - _HISTORY * rules.bucket_s
                rows = connection.execute(
                    select(counts.c.start_s, *_requests(counts))
                    .where(counts.c.app == app, counts.c.start_s >= from_s, _of_requests(counts))
                    .group_by(counts.c.start_s)
                    .order_by(counts.c.start_s)
                ).all()
                start_s, came, bad = np.array(rows, dtype=np.float64).reshape(-1, 3).T
                good = np.maximum(came - bad, 0.0)
                bucket = (start_s // rules.bucket_s).astype(np.int64)
                history = History(bucket, came, came, came, good, good, good)
                if state is not None:
                    # Not from the last hour: what begins now would look like what is usual.
                    settled_s = now_s - _UNSETTLED * rules.bucket_s
                    state = relearn(state, history.at(start_s < settled_s), settled_s, rules)
                    state = state.but(learned_s=now_s)
                else:  # the last day again, by what was learned before it
                    day_s = now_s - _FIRST * rules.bucket_s
                    state = EvidenceState.fresh(min([now_s, *start_s]))
                    if day_s >= learn_due_s(state, rules):
                        state = relearn(state, history.at(start_s < day_s), day_s, rules)
                    history = history.at(start_s >= day_s)
                    end_s = np.minimum(now_s, (history.bucket + 1) * rules.bucket_s - 0.001)
                    looks = Looks(end_s, history.n, history.n, history.sum_wy)
                    state, _ = advance(state, looks, rules)
            if n > seen:
                passed = max(0, n - seen - (failed - seen_failed))
                look = np.array([[now_s, n - seen, n - seen, passed]], dtype=np.float64).T
                state, _ = advance(state, Looks(*look), rules)
            state, _ = idle(state, now_s, rules)
            self._known[app] = state, n, failed
            counted = lately.get(app, Counter())
            errors = Counter({b.reason: k for b, k in counted.items() if b.kind is Kind.ERRORED})
            named = ", ".join(
                f"{plain_text(name, 60)} {k:,}" for name, k in errors.most_common(_MOST_ERRORS)
            )
            requests = sum(k for b, k in counted.items() if b.kind in {Kind.SEEN, Kind.UNSEEN})
            good_n = max(0, requests - errors.total())
            window = Tally(
                n=requests, passed=good_n, sum_w=requests, sum_w2=requests, sum_wy=good_n,
                sum_w2y=good_n, sum_w2yy=good_n,
                histogram=Counter({0: requests - good_n, 100: good_n}),
            )  # fmt: skip
            self._before[app] = judge_window(
                WindowData(
                    stream=StreamKey(app, ERROR_RATE, ROOT, ""), window_s=self._window_s,
                    current=window, reference=Tally(), n_total=n, trouble=trouble,
                    note=f"errors: {named}" if named else None,
                ),
                policy_name="anytime", thresholds=self._thresholds, now=now,
                previous=self._before.get(app),
                evidence=evidence_finding(state, window_stats(window), rules),
            )  # fmt: skip
        return [self._before[app] for app in self.apps]


def _of_requests(table: Table) -> ColumnElement[bool]:
    return table.c.kind.in_((Kind.SEEN, Kind.UNSEEN, Kind.ERRORED))


def _requests(table: Table) -> Sequence[ColumnElement[Any]]:
    """Return the sums of requests that came, and of those that failed."""
    failed = table.c.kind == Kind.ERRORED
    came, bad = case((failed, 0), else_=table.c.count), case((failed, table.c.count), else_=0)
    return func.sum(came), func.sum(bad)
