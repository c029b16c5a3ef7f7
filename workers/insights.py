"""
Keep what explains a status up to date: roll-ups, drift, segments, deploys, inputs.

`Explainer.run` goes over all apps; `StatusExplanation` explains one metric of one app: its window
against the reference, its segments, its deploys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from monitor.models import ROOT, Status, Tally, Verdict
from monitor.models.insight import AppInsight, Attribution, Deploy, DriftFinding, Insight
from monitor.rolling.attribution import Mark, explain_change, judge_deploy, locate_onset
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import compare_inputs
from monitor.rolling.tallies import FEATURES, PassCounts, figures_of, pass_counts, trend_of
from monitor.settings import Settings
from monitor.store.drift import (
    first_seen,
    forget_findings,
    read_findings,
    save_findings,
    save_states,
    version_since,
)
from monitor.store.engine import Lease, Store, fence
from monitor.store.query import (
    BUCKETS,
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    Stream,
    active_streams,
    bucket_sums,
    series,
    window_tallies,
)
from monitor.store.rollup import compact_inputs, read_inputs, roll_up
from monitor.store.verdicts import read_release_marks, read_verdicts, save_insights
from workers.drift import SCORES_SHARE, DriftMemory, DriftRun, DriftWatch, References

_MONTH_S = 30 * 86_400
#: Streams that counted nothing for so many buckets are skipped.
_ACTIVE_BUCKETS = 48 * 60
_INPUT_BUCKETS = 60
#: The explanation of a stream is made again after this part of the status window, or when so many
#: scores came, as a share of those in the window.
_KEPT_PARTS, _FEW = 6, 0.05
_NOT_WELL = frozenset({Status.WARNING, Status.CRITICAL})
_MOST_DEPLOYS, _MOST_CATEGORIES = 3, 50
#: Trend and figures are over a day of buckets of a minute; the change is sought in two.
_DAY_BUCKETS, _STEP_BUCKETS = 1440, 60


class _Kept(NamedTuple):
    """An explanation, and what it was made of."""

    news: object
    n_total: int
    insight: Insight


@dataclass(slots=True, kw_only=True)
class Explainer:
    """Explains every app and metric, about once a minute, under the scheduler's lease."""

    store: Store
    settings: Settings
    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)
    _drift: DriftMemory = field(default_factory=DriftMemory)
    _kept_inputs: dict[str, tuple[object, AppInsight]] = field(default_factory=dict)
    #: By app: up to when, and what it was asked before, by feature.
    _references: dict[str, tuple[int, dict[str, Counter[int]]]] = field(default_factory=dict)
    _compacted_hour: int = 0
    _token: int | None = None  #: of the lease under which it was remembered

    @property
    def every_s(self) -> float:
        """How often to run: once a bucket, and not much more often than statuses change."""
        return max(float(self.settings.windows.bucket_s), 10 * self.settings.evaluate_every_s)

    @property
    def _kept_for(self) -> timedelta:
        return timedelta(seconds=self.settings.windows.status_window_s / _KEPT_PARTS)

    @property
    def keep_s(self) -> dict[str, float]:
        """How long each level of the sums is kept."""
        settings = self.settings
        days = {
            BUCKETS.name: settings.retention.keep_buckets_days,
            HOURS.name: settings.retention.keep_hours_days,
            DAYS.name: settings.retention.keep_days_days,
        }
        return {name: value * DAY_S for name, value in days.items()}

    def run(self, lease: Lease, *, now: datetime) -> list[DriftFinding]:
        """
        Explain everything as of *now*; return the drift that was found.

        Safe to repeat: what was taken in is remembered, and a finding has a key.
        """
        now_s = int(now.timestamp())
        guard = partial(fence, lease=lease)
        settle_s = self.settings.windows.settle_s
        roll_up(self.store, now_s=now_s, settle_s=settle_s, keep_s=self.keep_s, guard=guard)
        with self.store.read() as connection:
            since_s = now_s - _ACTIVE_BUCKETS * self.settings.windows.bucket_s
            streams = active_streams(
                connection, since_s=since_s, current_since_s=since_s, segment=None
            )
            references = References(connection, self.settings)
            # Another process may have written since.
            memory = self._drift if self._token == lease.token else DriftMemory()
            self._token = None
            watched = DriftWatch(
                connection, self.settings, references, streams, now_s, memory
            ).look()
            insights = self._insights(connection, references, streams, watched, now)
            apps = sorted({stream.key.app for stream in streams})
            # The union over all looks of a month, apps and features: no false move beyond the
            # budget.
            looks = _MONTH_S / self.every_s * max(1, len(apps)) * len(FEATURES)
            alpha = self.settings.drift.drift_budget * (1 - SCORES_SHARE) / looks
            counted = Counter[str]()
            for stream in streams:
                counted[stream.key.app] += stream.n_total
            of_apps = [
                self._inputs(connection, app, counted[app], alpha=alpha, now=now) for app in apps
            ]
        with self.store.write() as connection:
            guard(connection)
            save_states(connection, {key: each.stored() for key, each in watched.changed.items()})
            save_findings(connection, watched.findings)
            forget_findings(connection, now)
            save_insights(connection, insights, of_apps)
        self._drift, self._token = watched.memory, lease.token
        if now_s // HOUR_S != self._compacted_hour:
            compact_inputs(self.store, apps, now_s=now_s, guard=guard)
            self._compacted_hour = now_s // HOUR_S
        return watched.findings

    def _inputs(
        self, connection: Connection, app: str, counted: int, *, alpha: float, now: datetime
    ) -> AppInsight:
        """Compare what an app was asked lately with what it was asked before."""
        news, (before_news, kept) = (counted, alpha), self._kept_inputs.get(app, (None, None))
        if kept is not None and news == before_news and now - kept.made_at < self._kept_for:
            return kept.model_copy(update={"made_at": now})
        windows, now_s = self.settings.windows, int(now.timestamp())
        start_s = now_s - max(windows.status_window_s, _INPUT_BUCKETS * windows.bucket_s)
        # The reference ends with a whole hour: so it is read once an hour.
        end_s = start_s // HOUR_S * HOUR_S
        read_to_s, before = self._references.get(app, (0, {}))
        if read_to_s != end_s:
            from_s = end_s - windows.reference_s
            before = read_inputs(connection, app, from_s=from_s, to_s=end_s)
            self._references[app] = end_s, before
        after = read_inputs(connection, app, from_s=start_s)
        found = AppInsight(app=app, made_at=now, inputs=compare_inputs(before, after, alpha=alpha))
        self._kept_inputs[app] = news, found
        return found

    def _insights(
        self,
        connection: Connection,
        references: References,
        streams: Sequence[Stream],
        watched: DriftRun,
        now: datetime,
    ) -> list[Insight]:
        explanation = StatusExplanation(
            connection=connection,
            settings=self.settings,
            references=references,
            names={stream.stream_id: stream for stream in streams},
            now_s=int(now.timestamp()),
            effects={
                key: looked.state.design_effect for key, looked in watched.memory.looked.items()
            },
        )
        verdicts = read_verdicts(connection)
        lately = read_findings(connection, since=now - timedelta(seconds=DAY_S))
        recent, marks = [*lately, *watched.findings], read_release_marks(connection)
        found = []
        for stream in streams:
            if stream.key.segment != ROOT:
                continue
            app, metric = stream.key[:2]
            verdict = verdicts.get((*stream.key[:3], self.settings.windows.status_window_s))
            mine = [item for item in recent if (item.app, item.metric) == (app, metric)]
            # Where next to nothing new came, what was found a few minutes ago still holds.
            news = (stream.stream_id, verdict and verdict.status, mine, marks)
            most = stream.n_total - _FEW * (verdict.window_n if verdict else 0)
            kept = self._kept.get((app, metric))
            if (
                kept is None or kept.news != news or kept.n_total < most
                or not now - kept.insight.made_at < self._kept_for
            ):  # fmt: skip
                insight = explanation.insight(stream, verdict, mine)
                kept = self._kept[app, metric] = _Kept(news, stream.n_total, insight)
            found.append(kept.insight.model_copy(update={"made_at": now}))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusExplanation:
    """What is at hand to explain an app with, read once for all its metrics."""

    connection: Connection
    settings: Settings
    references: References
    names: Mapping[int, Stream]  #: every stream by its id, segments as well
    now_s: int
    effects: Mapping[int, float]  #: the design effect of each stream, by its id
    _known_marks: dict[str, list[Mark]] = field(default_factory=dict)

    def insight(
        self, stream: Stream, verdict: Verdict | None, findings: Sequence[DriftFinding]
    ) -> Insight:
        """Explain one stream of a whole app."""
        width_s = self.settings.windows.bucket_s
        start_s = self.now_s // width_s * width_s - self.settings.windows.status_window_s + width_s
        window = ReferenceSpan(start_s, self.now_s)
        day_s = _DAY_BUCKETS * width_s
        # From a whole hour on: a day is then a few hours rather than a thousand buckets.
        step_s = _STEP_BUCKETS * width_s
        day_from_s = (self.now_s - day_s) // step_s * step_s
        steps = series(self.connection, [stream.stream_id], from_s=day_from_s, step_s=step_s)
        began_s = version_since(self.connection, stream.stream_id)
        is_off = verdict is not None and verdict.status in _NOT_WELL
        app = stream.key.app
        if app not in self._known_marks:
            self._known_marks[app] = self._marks(app)
        marks = self._known_marks[app][-_MOST_DEPLOYS:]
        # The buckets of two days, and those around each deploy.
        oldest_s = min((int(mark.at_s) for mark in marks), default=self.now_s)
        from_s = min(self.now_s - 2 * day_s, oldest_s // width_s * width_s - day_s)
        rows = bucket_sums(self.connection, stream.stream_id, from_s=from_s, to_s=self.now_s + 1)
        course = pass_counts(rows, design_effect=self.effects[stream.stream_id])
        found = self._segments(stream, self._with_segments(stream, day_from_s))
        largest = sorted(found, key=lambda name: (-found[name].n, name))[:_MOST_CATEGORIES]
        categories = {name: found[name] for name in largest}
        of_day = self.references.sums(stream.key.app, day_from_s).get(stream.stream_id, Tally())
        return Insight(
            app=stream.key.app,
            metric=stream.key.metric,
            made_at=datetime.fromtimestamp(self.now_s, UTC),
            evaluator_version=stream.key.evaluator_version,
            version_since=None if began_s is None else datetime.fromtimestamp(began_s, UTC),
            findings=findings,
            attribution=self._attribution(stream, window, course) if is_off or findings else None,
            trend=trend_of(steps.get(stream.stream_id, {})),
            figures=figures_of(of_day, categories),
            deploys=self._deploys(stream, marks, course),
        )

    def _with_segments(self, stream: Stream, from_s: int) -> dict[int, Tally]:
        return self.references.sums(stream.key.app, from_s, segment=None, histograms=False)

    def _segments(self, stream: Stream, tallies: Mapping[int, Tally]) -> dict[str, Tally]:
        """Keep the segments of this metric and evaluator version, by name."""
        mine = stream.key._replace(segment=ROOT)
        return {
            self.names[stream_id].key.segment: tally
            for stream_id, tally in tallies.items()
            if stream_id in self.names
            and self.names[stream_id].key._replace(segment=ROOT) == mine
            and self.names[stream_id].key.segment != ROOT
        }

    def _attribution(
        self, stream: Stream, window: ReferenceSpan, course: PassCounts
    ) -> Attribution | None:
        described, before = self.references.segments(stream, window)
        root_before = before.get(stream.stream_id, Tally())
        effect = self.effects[stream.stream_id]
        from_s = self.now_s - 2 * _DAY_BUCKETS * self.settings.windows.bucket_s
        recent = course.within(from_s, self.now_s + 1)
        onset = locate_onset(recent, reference=root_before, effect=effect)
        since_s = int(onset.at.timestamp()) if onset is not None else window.from_s
        after = self._with_segments(stream, since_s)
        found = explain_change(
            self._segments(stream, before),
            self._segments(stream, after),
            root_before=root_before,
            root_after=after.get(stream.stream_id, Tally()),
            design_effect=effect,
        )
        if found is None:
            return None
        change = found.after.rate - found.before.rate
        half = 1.96 * (found.before.variance + found.after.variance) ** 0.5
        bounds = {} if onset is None else {"since_low": onset.low, "since_high": onset.high}
        names = ("mix", "named", "considered", "mix_shift", "simpson")
        return Attribution(
            since=datetime.fromtimestamp(since_s, UTC), reference=described,
            rate_before=found.before.rate, n_before=found.before.n,
            rate_after=found.after.rate, n_after=found.after.n,
            change=change, low=max(-1.0, change - half), high=min(1.0, change + half),
            **bounds, **{name: getattr(found, name) for name in names},
        )  # fmt: skip

    def _deploys(self, stream: Stream, marks: Sequence[Mark], course: PassCounts) -> list[Deploy]:
        app = stream.key.app
        ends = [*(mark.at_s for mark in marks[1:]), float(self.now_s + 1)]
        width_s = self.settings.windows.bucket_s
        side_s, effect, found = _DAY_BUCKETS * width_s, self.effects[stream.stream_id], []
        for mark, end_s in zip(marks, ends, strict=False):
            at_s = int(mark.at_s) // width_s * width_s
            last_s = min(int(end_s), at_s + side_s)
            before, after = (
                self.references.sums(app, *span, histograms=False).get(stream.stream_id, Tally())
                for span in ((at_s - side_s, at_s), (at_s, last_s))
            )
            around = course.within(at_s - side_s, last_s)
            found.append(judge_deploy(mark, before, after, around=around, design_effect=effect))
        return found

    def _marks(self, app: str) -> list[Mark]:
        """List the recorded deploys, and those that only the samples' tag shows."""
        since_s = self.now_s - 7 * _DAY_BUCKETS * self.settings.windows.bucket_s
        since = datetime.fromtimestamp(since_s, UTC)
        marks = [
            Mark(mark.release, mark.at.timestamp(), "mark", mark.note)
            for mark in read_release_marks(self.connection, app=app, since=since)
            if mark.at.timestamp() <= self.now_s
        ]
        names = {mark.release for mark in marks}
        seen = first_seen(self.connection, app, "release", since_s=since_s)
        oldest_s = min(seen.values(), default=0)
        for release, first_s in seen.items():
            if release in names:
                continue
            if first_s <= oldest_s:  # the first that was ever seen is no deploy: nothing was before
                before = window_tallies(
                    self.connection, from_s=first_s - DAY_S, to_s=first_s, app=app, segment=ROOT
                )
                if not any(tally.n for tally in before.values()):
                    continue
            marks.append(Mark(release, first_s, "tag"))
        return sorted(marks, key=lambda mark: mark.at_s)
