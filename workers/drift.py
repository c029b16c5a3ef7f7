"""
Drift of every stream: what it is measured against, and what is found.

`References` reads what a stream is compared with, once for all streams of an app; `DriftWatch`
looks sequentially at the mean of the scores, and chunk by chunk at their shape.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from monitor.models import ROOT, StreamKey, Tally
from monitor.models.insight import DriftFinding
from monitor.models.status import segment_name
from monitor.rolling.attribution import locate_onset
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import (
    DOWN,
    HOUR_BUCKETS,
    LEAST_REFERENCE,
    Alarm,
    ScoreDetector,
    ScoreDriftState,
    ScoreReference,
    chunk_tests,
    has_course,
    moments,
    same_hours,
    score_reference,
    take_in,
    threshold,
)
from monitor.rolling.tallies import pass_counts
from monitor.rolling.verdicts import Began, well_spans
from monitor.settings import Settings
from monitor.stats.intervals import design_effect
from monitor.stats.multiplicity import e_detector_bh, stream_shares
from monitor.store.drift import bins_by_bucket, read_states
from monitor.store.query import Stream, active_streams, bucket_sums, series, window_tallies
from workers.evaluate import status_courses

TRAILING, SAME_HOUR = "trailing", "same_hour"
_HOUR_S, _DAY_S, _WEEK_S = 3600, 86_400, 7 * 86_400
#: The day before is left out as soon as what is older has so many scores.
_ENOUGH = 500
_KEPT_S = 35 * _DAY_S


class Reference(NamedTuple):
    """What a stream is compared with, and in words what that is."""

    described: str
    tally: Tally


@dataclass(slots=True)
class References:
    """
    Reads references, and remembers the sums of each stretch for one run.

    A trailing reference leaves out the last day, so that a slow fall does not pull it
    along, and the times at which the status was not well.
    """

    connection: Connection
    settings: Settings
    _sums: dict[tuple[str, int, int | None, str | None, bool], dict[int, Tally]] = field(
        default_factory=dict
    )
    _courses: Mapping[tuple[str, str, str], list[Began]] | None = None
    _pinned: dict[str, dict[StreamKey, Tally]] = field(default_factory=dict)

    def of(self, stream: Stream, window: ReferenceSpan, *, by_hour: bool = False) -> Reference:
        """
        Return the reference of a stream for what happened in *window*.

        Where scores have a pattern of the day, a trailing one is that of the same hours, unless
        they hold too few scores.
        """
        kind = self.settings.drift.drift_reference
        if kind.startswith("release:"):
            release = kind.removeprefix("release:")
            described = f"release {release}"
            if stream.key.segment != ROOT:
                return Reference(described, Tally())
            app = stream.key.app
            if app not in self._pinned:
                segment = segment_name("release", release)
                found = active_streams(self.connection, since_s=0, segment=segment)
                newest_s = max((item.last_bucket_s for item in found), default=0)
                tallies = window_tallies(
                    self.connection, from_s=max(0, newest_s - _KEPT_S), app=app, segment=segment
                )
                self._pinned[app] = {
                    item.key._replace(segment=ROOT): tallies.get(item.stream_id, Tally())
                    for item in found
                    if item.key.app == app
                }
            return Reference(described, self._pinned[app].get(stream.key, Tally()))
        described, spans = self._spans(stream, window)
        if by_hour and kind == TRAILING:
            alike = self._total(stream, same_hours(spans, window))
            if alike.n >= _ENOUGH:
                return Reference(f"the same hours of {described}", alike)
        return Reference(described, self._total(stream, spans))

    def goes_by_hour(self, stream: Stream, now_s: int) -> bool:
        """Return whether like hours are compared: by setting, or as the day has a course."""
        kind = self.settings.drift.drift_reference
        if kind != TRAILING:
            return kind == SAME_HOUR
        spans = self._well(stream, ReferenceSpan(now_s, now_s))
        if not spans:
            return False
        from_s = spans[0].from_s // _HOUR_S * _HOUR_S
        steps = series(self.connection, [stream.stream_id], from_s=from_s, step_s=_HOUR_S)
        return has_course({
            start_s: tally
            for start_s, tally in steps.get(stream.stream_id, {}).items()
            if any(span.from_s <= start_s < span.to_s for span in spans)
        })  # fmt: skip

    def segments(self, stream: Stream, window: ReferenceSpan) -> tuple[str, dict[int, Tally]]:
        """
        Sum each stream of the app over the reference, by stream id, without histograms.

        A release has no segments of its own; there the time before serves.
        """
        described, spans = self._spans(stream, window)
        found: dict[int, list[Tally]] = defaultdict(list)
        for span in spans:
            sums = self.sums(stream.key.app, *span, segment=None, histograms=False)
            for stream_id, tally in sums.items():
                found[stream_id].append(tally)
        return described, {key: Tally.total(parts) for key, parts in found.items()}

    def sums(
        self, app: str, from_s: int, to_s: int | None = None, *, segment: str | None = ROOT,
        histograms: bool = True,
    ) -> dict[int, Tally]:  # fmt: skip
        """Sum each stream of an app over [from_s, to_s), by stream id, once for all its metrics."""
        key = (app, from_s, to_s, segment, histograms)
        if key not in self._sums:
            self._sums[key] = window_tallies(
                self.connection, from_s=from_s, to_s=to_s, app=app, segment=segment,
                histograms=histograms,
            )  # fmt: skip
        return self._sums[key]

    def _spans(self, stream: Stream, window: ReferenceSpan) -> tuple[str, list[ReferenceSpan]]:
        kind = self.settings.drift.drift_reference
        if kind == SAME_HOUR:
            slack_s = 60 * self.settings.windows.bucket_s
            span = ReferenceSpan(window.from_s - _WEEK_S - slack_s, window.to_s - _WEEK_S + slack_s)
            return "the same time a week before", [span]
        if "/" in kind:
            days = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in kind.split("/"))
            span = ReferenceSpan(*(int(day.timestamp()) for day in days))
            return kind.replace("/", " to "), [span]
        spans = self._well(stream, window)
        n_days = round(sum(span.to_s - span.from_s for span in spans) / _DAY_S)
        return f"the {n_days} d before" if n_days > 1 else "the time before", spans

    def _well(self, stream: Stream, window: ReferenceSpan) -> list[ReferenceSpan]:
        if self._courses is None:
            since_s = window.from_s - self.settings.windows.reference_s - _WEEK_S
            self._courses = status_courses(
                self.connection, since_s, self.settings.windows.status_window_s
            )
        began = self._courses.get((*stream.key[:2], ROOT), [])
        gap_s = min(_DAY_S, self.settings.windows.reference_s // 7)
        for end_s in (window.from_s - gap_s, window.from_s):
            from_s = end_s - self.settings.windows.reference_s
            spans = well_spans(began, from_s=from_s, to_s=end_s)
            if self._total(stream, spans).n >= _ENOUGH:
                return spans
        # A stream that is hardly ever well is still compared with itself.
        end_s = window.from_s - gap_s
        whole = [ReferenceSpan(end_s - self.settings.windows.reference_s, end_s)]
        return whole if self._total(stream, whole).n >= _ENOUGH else spans

    def _total(self, stream: Stream, spans: Sequence[ReferenceSpan]) -> Tally:
        # Whole apps are asked about every time, their segments a few times a day.
        segment = ROOT if stream.key.segment == ROOT else None
        sums = (self.sums(stream.key.app, *span, segment=segment) for span in spans)
        return Tally.total([each[stream.stream_id] for each in sums if stream.stream_id in each])


#: Of the budget of false findings, the rest is for drift of the inputs.
SCORES_SHARE = 0.8
#: Two directions of the mean, two tests of the shape.
_TESTS = 4
_MONTH_S = 30 * 86_400
_SETTLE_BUCKETS = 2
_CHUNK_BUCKETS, _CHUNK_LEAST, _CHUNK_MOST = 60, 50, 24
_LOOK_BACK_BUCKETS = 48 * 60
#: Streams that fell behind together share so many buckets a look, so that none takes long.
_MOST_AT_ONCE = 100_000


class StreamPosition(NamedTuple):
    """A stream's state, and up to when it was read: from ``state.at_s`` on all is empty."""

    state: ScoreDriftState
    to_s: int


@dataclass(slots=True)
class DriftMemory:
    """Where the detectors stand, kept between looks for as long as one lease lasts."""

    looked: dict[int, StreamPosition] = field(default_factory=dict)
    chunked_to_s: int = 0  #: chunks that close by then were tested


class DriftRun(NamedTuple):
    """What a look at all streams gave: where they stand now, which moved, and what was found."""

    memory: DriftMemory
    changed: dict[int, ScoreDriftState]
    findings: list[DriftFinding]


class DriftWatch:
    """
    One look at all streams, within the transaction that reads them.

    A stream to which nothing came stays as it is: empty buckets are taken in with the next score,
    or before its reference is taken again.
    """

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        references: References,
        streams: Sequence[Stream],
        now_s: float,
        memory: DriftMemory,
    ) -> None:
        self._connection = connection
        self._references = references
        self._memory = memory
        self._streams = streams
        self._known: dict[StreamKey, tuple[float, bool]] = {}
        self._bucket_s = settings.windows.bucket_s
        self._chunk_s = _CHUNK_BUCKETS * settings.windows.bucket_s
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._settled_s = (int(now_s) // self._bucket_s - _SETTLE_BUCKETS) * self._bucket_s
        roots = sum(stream.key.segment == ROOT for stream in streams)
        self._segments = len(streams) - roots
        shares = stream_shares(roots, self._segments)
        budget = settings.drift.drift_budget * SCORES_SHARE / _TESTS
        self._root_budget, self._segment_budget = (share * budget for share in shares)

    def look(self) -> DriftRun:
        """Add what is new, and return what was found."""
        known = self._memory.looked
        unread = [each.stream_id for each in self._streams if each.stream_id not in known]
        stored = read_states(self._connection, unread)
        looked = {
            stream.stream_id: self._looked(stream.stream_id, stored.get(stream.stream_id))
            for stream in self._streams
        }
        # Read what streams have not taken in yet; those that stand at one place together.
        together: dict[int, list[int]] = defaultdict(list)
        for stream_id, before in looked.items():
            together[before.to_s].append(stream_id)
        news: dict[int, tuple[Mapping[int, Counter[int]], int]] = {}
        for at_s, stream_ids in together.items():
            most = max(1, _MOST_AT_ONCE // len(stream_ids)) * self._bucket_s
            to_s = min(self._settled_s, at_s + most)
            bins = bins_by_bucket(self._connection, stream_ids, from_s=at_s, to_s=to_s)
            news |= {key: (bins.get(key, {}), to_s) for key in stream_ids}
        findings: list[DriftFinding] = []
        states = {}
        for stream in self._streams:
            buckets, to_s = news[stream.stream_id]
            line = threshold(self._bucket_s, self._budget(stream))
            state, empty_to_s = looked[stream.stream_id]
            alarms: list[Alarm] = []
            is_due = self._settled_s - state.baseline_at_s >= self._bucket_s * state.refresh_buckets
            if is_due:
                state, alarms = take_in(
                    state, {}, to_s=empty_to_s, bucket_s=self._bucket_s, line=line
                )
                state = self._refreshed(stream, state)
            if is_due or (buckets and state.baseline.n >= LEAST_REFERENCE):
                state, more = take_in(state, buckets, to_s=to_s, bucket_s=self._bucket_s, line=line)
                alarms += more
            states[stream.stream_id] = state
            findings += [self._of_alarm(stream, alarm) for alarm in alarms]
        # Segments that fall together: each needs less evidence than one alone.
        segments = [stream for stream in self._streams if stream.key.segment != ROOT]
        levels = [states[stream.stream_id].down.level for stream in segments]
        budget = self._segment_budget * len(segments)
        looks = _MONTH_S / self._bucket_s
        for stream, is_listed in zip(
            segments, e_detector_bh(levels, looks=looks, budget=budget), strict=True
        ):
            state = states[stream.stream_id]
            if not is_listed or state.at_s < state.quiet_to_s[0]:
                continue
            alarm = Alarm(DOWN, state.at_s, state.began_s, state.down.level, state.baseline)
            quiet_s = state.at_s + 24 * self._chunk_s
            states[stream.stream_id] = replace(
                state, down=ScoreDetector(), quiet_to_s=(quiet_s, state.quiet_to_s[1])
            )
            findings.append(self._of_alarm(stream, alarm))
        chunked_to_s = self._settled_s // self._chunk_s * self._chunk_s
        if chunked_to_s > self._memory.chunked_to_s:
            findings += self._chunks(states, chunked_to_s)
        changed = {
            key: state
            for key, state in states.items()
            if key not in known or state is not known[key].state
        }
        now = {key: StreamPosition(state, news[key][1]) for key, state in states.items()}
        return DriftRun(DriftMemory(now, chunked_to_s), changed, findings)

    def _budget(self, stream: Stream) -> float:
        return self._root_budget if stream.key.segment == ROOT else self._segment_budget

    def _looked(self, stream_id: int, stored: Mapping[str, Any] | None) -> StreamPosition:
        """Return where a stream stands: as remembered, as stored, or at its beginning."""
        if stream_id in self._memory.looked:
            state, to_s = self._memory.looked[stream_id]
        elif stored is not None:
            state = ScoreDriftState.read(stored)
            to_s = state.at_s
        else:
            to_s = self._settled_s
            state = ScoreDriftState(
                at_s=to_s, began_s=to_s, baseline=ScoreReference(0.0, 0.0, 0), baseline_at_s=0,
                chunk_from_s=to_s // self._chunk_s * self._chunk_s,
            )  # fmt: skip
        oldest_s = self._settled_s - _LOOK_BACK_BUCKETS * self._bucket_s
        chunk_from_s = max(state.chunk_from_s, oldest_s // self._chunk_s * self._chunk_s)
        if state.at_s < oldest_s or state.chunk_from_s < chunk_from_s:
            at_s = max(state.at_s, oldest_s)
            state = replace(state, at_s=at_s, chunk_from_s=chunk_from_s)
        return StreamPosition(state, max(to_s, oldest_s))

    def _refreshed(self, stream: Stream, state: ScoreDriftState) -> ScoreDriftState:
        """Take the reference of a state again."""
        # Of the whole app: its sessions and its days are those of its segments.
        key = stream.key._replace(segment=ROOT)
        if key not in self._known:
            roots = [item for item in self._streams if item.key == key]
            by_hour = any(self._references.goes_by_hour(root, self._settled_s) for root in roots)
            effect = 1.0  # by how much sessions inflate the variance of the passes
            from_s = self._settled_s - _LOOK_BACK_BUCKETS * self._bucket_s
            for root in roots:
                to_s = root.last_bucket_s + self._bucket_s
                rows = bucket_sums(self._connection, root.stream_id, from_s=from_s, to_s=to_s)
                starts, passed, n = pass_counts(rows)
                effect = max(effect, design_effect(starts // self._bucket_s, passed, n).factor)
            self._known[key] = effect, by_hour
        effect, by_hour = self._known[key]
        window = ReferenceSpan(state.at_s, state.at_s + HOUR_BUCKETS * self._bucket_s)
        reference = self._references.of(stream, window, by_hour=by_hour).tally
        return replace(
            state, baseline=score_reference(reference), baseline_at_s=self._settled_s,
            design_effect=effect, by_hour=by_hour,
        )  # fmt: skip

    def _chunks(self, states: dict[int, ScoreDriftState], to_s: int) -> list[DriftFinding]:
        begins = {state.chunk_from_s for state in states.values()}
        sums = {
            from_s: window_tallies(self._connection, from_s=from_s, to_s=to_s, segment=None)
            for from_s in begins
            if from_s + self._chunk_s <= to_s
        }
        findings: list[DriftFinding] = []
        for stream in self._streams:
            state = states[stream.stream_id]
            from_s = state.chunk_from_s
            if from_s not in sums:
                continue
            chunk = sums[from_s].get(stream.stream_id, Tally())
            if chunk.n < _CHUNK_LEAST and to_s - from_s < _CHUNK_MOST * self._chunk_s:
                continue
            states[stream.stream_id] = replace(state, chunk_from_s=to_s)
            if chunk.n < _CHUNK_LEAST:
                continue
            span = ReferenceSpan(from_s, to_s)
            reference = self._references.of(stream, span, by_hour=state.by_hour).tally
            if reference.n < LEAST_REFERENCE:
                continue
            alpha = self._budget(stream) * (to_s - from_s) / _MONTH_S
            findings += [
                self._finding(
                    stream, test=found.test, from_s=from_s, mean_before=moments(reference).mean,
                    mean_after=moments(chunk).mean, n=chunk.n, p_value=found.p_value,
                )
                for found in chunk_tests(
                    reference, chunk, alpha=alpha, design_effect=state.design_effect
                )
                if found.worth_it and found.p_value <= alpha
            ]  # fmt: skip
        return findings

    def _of_alarm(self, stream: Stream, alarm: Alarm) -> DriftFinding:
        from_s = max(alarm.from_s, alarm.at_s - 24 * self._chunk_s)
        rows = bucket_sums(self._connection, stream.stream_id, from_s=from_s, to_s=alarm.at_s)
        onset = locate_onset(
            pass_counts(rows),
            reference=self._references.of(stream, ReferenceSpan(alarm.at_s, alarm.at_s)).tally,
        )
        since = Tally()
        if onset is not None:
            from_s = int(onset.at.timestamp())
            sums = series(
                self._connection, [stream.stream_id], from_s=from_s, to_s=alarm.at_s,
                step_s=self._bucket_s,
            )  # fmt: skip
            since = sum(sums.get(stream.stream_id, {}).values(), start=since)
        before, n = alarm.baseline.mean, since.n
        at = dict(zip(("onset", "onset_low", "onset_high"), onset or (), strict=False))
        return self._finding(
            stream, test=alarm.test, from_s=alarm.at_s, mean_before=before,
            mean_after=since.sum_x / n if n else before, n=n, level=alarm.level,
            threshold=threshold(self._bucket_s, self._budget(stream)), **at,
        )  # fmt: skip

    def _finding(self, stream: Stream, **found: Any) -> DriftFinding:
        app, metric, segment, _ = stream.key
        return DriftFinding(app=app, metric=metric, segment=segment, found_at=self._now, **found)
