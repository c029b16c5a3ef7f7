"""Explain one app and metric: its window against the reference, its segments, its deploys."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Connection

from monitor.models import ROOT, Status, Tally, Verdict
from monitor.models.insight import Attribution, Deploy, DriftFinding, Insight, Trend
from monitor.rolling.attribution import Mark, Step, explain_change, judge_deploy
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import compare
from monitor.rolling.figures import figures_of, trend_of
from monitor.settings import Settings
from monitor.store.insights import first_seen, read_marks, version_since
from monitor.store.query import Stream, series, window_tallies
from workers.drift_reference import References, locate_onset

_DAY_S = 86_400
_NOT_WELL = frozenset({Status.WARNING, Status.CRITICAL})
_MOST_DEPLOYS, _MOST_CATEGORIES = 3, 50
#: Trend and figures are over a day of buckets of a minute; the change is sought in two.
_DAY_BUCKETS, _STEP_BUCKETS = 1440, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusExplanation:
    """What is at hand to explain an app with, read once for all its metrics."""

    connection: Connection
    settings: Settings
    references: References
    names: Mapping[int, Stream]  #: every stream by its id, segments as well
    now_s: int
    effects: Mapping[int, float]  #: the design effect of each stream, by its id
    by_hour: Container[int]  #: ids of the streams whose scores have a course of the day
    _sums: dict[tuple[str, int, str | None], dict[int, Tally]] = field(default_factory=dict)
    _known_marks: dict[str, list[Mark]] = field(default_factory=dict)

    def insight(
        self, stream: Stream, verdict: Verdict | None, findings: Sequence[DriftFinding]
    ) -> Insight:
        """Explain one stream of a whole app."""
        width_s = self.settings.windows.bucket_s
        start_s = self.now_s // width_s * width_s - self.settings.windows.status_window_s + width_s
        window = ReferenceSpan(start_s, self.now_s)
        current = self._whole(stream, start_s)
        by_hour = stream.stream_id in self.by_hour
        reference = self.references.of(stream, window, by_hour=by_hour)
        comparison = compare(
            reference.tally,
            current,
            described=reference.described,
            min_n=self.settings.min_n,
            design_effect=self.effects[stream.stream_id],
        )
        day_s = _DAY_BUCKETS * width_s
        # From a whole hour on: a day is then a few hours rather than a thousand buckets.
        day_from_s = (self.now_s - day_s) // (60 * width_s) * 60 * width_s
        began_s = version_since(self.connection, stream.stream_id)
        is_off = verdict is not None and verdict.status in _NOT_WELL
        found = self._segments(stream, self._read(stream, day_from_s, None))
        largest = sorted(found, key=lambda name: (-found[name].n, name))[:_MOST_CATEGORIES]
        categories = {name: found[name] for name in largest}
        return Insight(
            app=stream.key.app,
            metric=stream.key.metric,
            made_at=datetime.fromtimestamp(self.now_s, UTC),
            evaluator_version=stream.key.evaluator_version,
            version_since=None if began_s is None else datetime.fromtimestamp(began_s, UTC),
            comparison=comparison,
            findings=findings,
            attribution=self._attribution(stream, window) if is_off or findings else None,
            trend=self._trend(stream, day_s),
            figures=figures_of(self._whole(stream, day_from_s), categories),
            deploys=self._deploys(stream),
        )

    def _whole(self, stream: Stream, from_s: int) -> Tally:
        return self._read(stream, from_s, ROOT).get(stream.stream_id, Tally())

    def _read(self, stream: Stream, from_s: int, segment: str | None) -> dict[int, Tally]:
        """Sum the app's streams since then, once for all its metrics; histograms of the whole."""
        key = (stream.key.app, from_s, segment)
        if key not in self._sums:
            self._sums[key] = window_tallies(
                self.connection,
                from_s=from_s,
                app=stream.key.app,
                segment=segment,
                histograms=segment == ROOT,
            )
        return self._sums[key]

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

    def _trend(self, stream: Stream, day_s: int) -> Trend | None:
        step_s = _STEP_BUCKETS * self.settings.windows.bucket_s
        from_s = (self.now_s - day_s) // step_s * step_s
        found = series(self.connection, [stream.stream_id], from_s=from_s, step_s=step_s)
        return trend_of(found.get(stream.stream_id, {}))

    def _attribution(self, stream: Stream, window: ReferenceSpan) -> Attribution | None:
        described, before = self.references.segments(stream, window)
        root_before = before.get(stream.stream_id, Tally())
        onset = locate_onset(
            self.connection,
            stream,
            reference=root_before,
            from_s=self.now_s - 2 * _DAY_BUCKETS * self.settings.windows.bucket_s,
            to_s=self.now_s + 1,
            bucket_s=self.settings.windows.bucket_s,
            effect=self.effects[stream.stream_id],
        )
        since_s = int(onset.at.timestamp()) if onset is not None else window.from_s
        after = self._read(stream, since_s, None)
        found = explain_change(
            self._segments(stream, before),
            self._segments(stream, after),
            root_before=root_before,
            root_after=after.get(stream.stream_id, Tally()),
            design_effect=self.effects[stream.stream_id],
        )
        if found is None:
            return None
        change = found.after.rate - found.before.rate
        half = 1.96 * (found.before.variance + found.after.variance) ** 0.5
        return Attribution(
            since=datetime.fromtimestamp(since_s, UTC),
            since_low=onset.low if onset is not None else None,
            since_high=onset.high if onset is not None else None,
            reference=described,
            rate_before=found.before.rate,
            rate_after=found.after.rate,
            n_before=found.before.n,
            n_after=found.after.n,
            change=change,
            low=max(-1.0, change - half),
            high=min(1.0, change + half),
            mix=found.mix,
            named=found.named,
            considered=found.considered,
            mix_shift=found.mix_shift,
            simpson=found.simpson,
        )

    def _deploys(self, stream: Stream) -> list[Deploy]:
        since_s = self.now_s - 7 * _DAY_BUCKETS * self.settings.windows.bucket_s
        app = stream.key.app
        if app not in self._known_marks:
            self._known_marks[app] = self._marks(app, since_s)
        marks = self._known_marks[app][-_MOST_DEPLOYS:]
        ends = [*(mark.at_s for mark in marks[1:]), float(self.now_s + 1)]
        return [self._deploy(stream, mark, end_s) for mark, end_s in zip(marks, ends, strict=False)]

    def _deploy(self, stream: Stream, mark: Mark, end_s: float) -> Deploy:
        width_s, side_s = (
            self.settings.windows.bucket_s,
            _DAY_BUCKETS * self.settings.windows.bucket_s,
        )
        at_s = int(mark.at_s) // width_s * width_s
        last_s = min(int(end_s), at_s + side_s)
        around = series(
            self.connection, [stream.stream_id], from_s=at_s - side_s, step_s=width_s
        ).get(stream.stream_id, {})
        steps = [Step(start_s, around[start_s]) for start_s in sorted(around) if start_s < last_s]
        sides = (
            [step.tally for step in steps if (step.start_s >= at_s) is is_after]
            for is_after in (False, True)
        )
        before, after = (sum(side, start=Tally()) for side in sides)
        effect = self.effects[stream.stream_id]
        return judge_deploy(mark, before, after, around=steps, design_effect=effect)

    def _marks(self, app: str, since_s: int) -> list[Mark]:
        """List the deploys that were told, and those that only the samples' tag shows."""
        since = datetime.fromtimestamp(since_s, UTC)
        told = [
            Mark(mark.release, mark.at.timestamp(), "mark", mark.note)
            for mark in read_marks(self.connection, app=app, since=since)
            if mark.at.timestamp() <= self.now_s
        ]
        names = {mark.release for mark in told}
        seen = first_seen(self.connection, app, "release", since_s=since_s)
        oldest_s = min(seen.values(), default=0)
        told += [
            Mark(release, first_s, "tag")
            for release, first_s in seen.items()
            # The first release that was ever seen is no deploy: nothing was before it.
            if release not in names and (first_s > oldest_s or self._had_before(app, first_s))
        ]
        return sorted(told, key=lambda mark: mark.at_s)

    def _had_before(self, app: str, at_s: int) -> bool:
        tallies = window_tallies(
            self.connection, from_s=at_s - _DAY_S, to_s=at_s, app=app, segment=ROOT
        )
        return any(tally.n for tally in tallies.values())
