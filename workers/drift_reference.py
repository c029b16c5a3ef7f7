"""What drift is measured against, as the setting says: read once for all streams of an app."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection

from monitor.models import ROOT, Status, StreamKey, Tally, Verdict
from monitor.models.status import segment_name
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import Began, has_course, same_hours, well_spans
from monitor.rolling.tallies import pass_counts, window_stats
from monitor.settings import Settings
from monitor.stats.changepoint import locate_change
from monitor.stats.design import design_effect
from monitor.store.query import Stream, active_streams, bucket_sums, series, window_tallies
from monitor.store.verdicts import read_changes, read_verdicts

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
    _sums: dict[tuple[str, ReferenceSpan, str | None], dict[int, Tally]] = field(
        default_factory=dict
    )
    _courses: Mapping[tuple[str, str, str], list[Began]] | None = None
    _pinned: dict[str, dict[StreamKey, Tally]] = field(default_factory=dict)

    def of(self, stream: Stream, window: ReferenceSpan, *, by_hour: bool = False) -> Reference:
        """
        Give the reference of a stream for what happened in *window*.

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
        """Say whether like hours are compared: by setting, or as the day has a course."""
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
        found: dict[int, Tally] = {}
        for span in spans:
            sums = window_tallies(
                self.connection,
                from_s=span.from_s,
                to_s=span.to_s,
                app=stream.key.app,
                segment=None,
                histograms=False,
            )
            for stream_id, tally in sums.items():
                found[stream_id] = found.get(stream_id, Tally()) + tally
        return described, found

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
        parts = (self._read(stream.key.app, span, segment).get(stream.stream_id) for span in spans)
        return sum((part for part in parts if part is not None), start=Tally())

    def _read(self, app: str, span: ReferenceSpan, segment: str | None) -> dict[int, Tally]:
        key = (app, span, segment)
        if key not in self._sums:
            self._sums[key] = window_tallies(
                self.connection, from_s=span.from_s, to_s=span.to_s, app=app, segment=segment
            )
        return self._sums[key]


#: So strong must the evidence be before a time is given.
_EVIDENCE = 3.0


class DriftOnset(NamedTuple):
    """When a change began, and the range that holds it with 95 %."""

    at: datetime
    low: datetime
    high: datetime


def locate_onset(
    connection: Connection,
    stream: Stream,
    *,
    reference: Tally,
    from_s: int,
    to_s: int,
    effect: float = 1.0,
) -> DriftOnset | None:
    """Locate one change of the pass rate in [from_s, to_s); None without strong evidence."""
    rows = bucket_sums(connection, stream.stream_id, from_s=from_s, to_s=to_s)
    starts, passed, n = pass_counts(rows, design_effect=effect)
    old_passed, old_n = window_stats(reference).counts(effect)
    found = locate_change(passed, n, reference_passed=old_passed, reference_n=old_n)
    if found is None or found.evidence < _EVIDENCE:
        return None
    return DriftOnset(
        *(
            datetime.fromtimestamp(int(starts[k]), UTC)
            for k in (found.bucket, found.low, found.high)
        )
    )


def measure_design_effect(
    connection: Connection, stream: Stream, *, from_s: int, bucket_s: int
) -> float:
    """Measure by how much correlation within sessions inflates the variance of the passes."""
    to_s = stream.last_bucket_s + bucket_s
    rows = bucket_sums(connection, stream.stream_id, from_s=from_s, to_s=to_s)
    starts, passed, n = pass_counts(rows)
    return design_effect(starts // bucket_s, passed, n).factor


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
