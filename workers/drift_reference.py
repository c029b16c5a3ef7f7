"""What drift is measured against, as the setting says: read once for all streams of an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection

from monitor.models import ROOT, StreamKey, Tally
from monitor.models.tally import segment_name
from monitor.rolling.day_course import has_course, same_hours
from monitor.rolling.reference import Began, Span, well_spans
from monitor.settings import Settings
from monitor.store.query import Stream, active_streams, series, window_tallies
from workers.reference import status_courses

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
    _sums: dict[tuple[str, Span, str | None], dict[int, Tally]] = field(default_factory=dict)
    _courses: Mapping[tuple[str, str, str], list[Began]] | None = None
    _pinned: dict[str, dict[StreamKey, Tally]] = field(default_factory=dict)

    def of(self, stream: Stream, window: Span, *, by_hour: bool = False) -> Reference:
        """
        Give the reference of a stream for what happened in *window*.

        Where scores have a course of the day, a trailing one is that of the same hours, unless
        they hold too few scores.
        """
        kind = self.settings.drift_reference
        if kind.startswith("release:"):
            return self._of_release(stream, kind.removeprefix("release:"))
        described, spans = self._spans(stream, window)
        if by_hour and kind == TRAILING:
            alike = self._total(stream, same_hours(spans, window))
            if alike.n >= _ENOUGH:
                return Reference(f"the same hours of {described}", alike)
        return Reference(described, self._total(stream, spans))

    def goes_by_hour(self, stream: Stream, now_s: int) -> bool:
        """Say whether like hours are compared: by setting, or as the day has a course."""
        kind = self.settings.drift_reference
        if kind != TRAILING:
            return kind == SAME_HOUR
        spans = self._well(stream, Span(now_s, now_s))
        steps = (
            series(
                self.connection, [stream.stream_id], from_s=_hour(spans[0].from_s), step_s=_HOUR_S
            )
            if spans
            else {}
        )
        hours = steps.get(stream.stream_id, {})
        well = {
            start_s: tally
            for start_s, tally in hours.items()
            if any(span.from_s <= start_s < span.to_s for span in spans)
        }
        return has_course(well)

    def segments(self, stream: Stream, window: Span) -> tuple[str, dict[int, Tally]]:
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

    def _spans(self, stream: Stream, window: Span) -> tuple[str, list[Span]]:
        kind = self.settings.drift_reference
        if kind == SAME_HOUR:
            slack_s = 60 * self.settings.bucket_s
            span = Span(window.from_s - _WEEK_S - slack_s, window.to_s - _WEEK_S + slack_s)
            return "the same time a week before", [span]
        if "/" in kind:
            return kind.replace("/", " to "), [_days(kind)]
        spans = self._well(stream, window)
        days = round(sum(span.to_s - span.from_s for span in spans) / _DAY_S)
        return f"the {days} d before" if days > 1 else "the time before", spans

    def _well(self, stream: Stream, window: Span) -> list[Span]:
        if self._courses is None:
            since_s = window.from_s - self.settings.reference_s - _WEEK_S
            self._courses = status_courses(self.connection, since_s, self.settings.status_window_s)
        began = self._courses.get((*stream.key[:2], ROOT), [])
        gap_s = min(_DAY_S, self.settings.reference_s // 7)
        for end_s in (window.from_s - gap_s, window.from_s):
            from_s = end_s - self.settings.reference_s
            spans = well_spans(began, from_s=from_s, to_s=end_s)
            if self._total(stream, spans).n >= _ENOUGH:
                break
        return spans

    def _total(self, stream: Stream, spans: Sequence[Span]) -> Tally:
        # Whole apps are asked about every time, their segments a few times a day.
        segment = ROOT if stream.key.segment == ROOT else None
        parts = (self._read(stream.key.app, span, segment).get(stream.stream_id) for span in spans)
        return sum((part for part in parts if part is not None), start=Tally())

    def _read(self, app: str, span: Span, segment: str | None) -> dict[int, Tally]:
        key = (app, span, segment)
        if key not in self._sums:
            self._sums[key] = window_tallies(
                self.connection, from_s=span.from_s, to_s=span.to_s, app=app, segment=segment
            )
        return self._sums[key]

    def _of_release(self, stream: Stream, release: str) -> Reference:
        described = f"release {release}"
        if stream.key.segment != ROOT:
            return Reference(described, Tally())
        app = stream.key.app
        if app not in self._pinned:
            segment = segment_name("release", release)
            found = active_streams(self.connection, since_s=0, segment=segment)
            tallies = window_tallies(
                self.connection, from_s=_oldest_s(found), app=app, segment=segment
            )
            self._pinned[app] = {
                item.key._replace(segment=ROOT): tallies.get(item.stream_id, Tally())
                for item in found
                if item.key.app == app
            }
        return Reference(described, self._pinned[app].get(stream.key, Tally()))


def _oldest_s(streams: Sequence[Stream]) -> int:
    return max(0, max((stream.last_bucket_s for stream in streams), default=0) - _KEPT_S)


def _hour(at_s: int) -> int:
    return at_s // _HOUR_S * _HOUR_S


def _days(text: str) -> Span:
    first, last = (
        int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) for day in text.split("/")
    )
    return Span(first, last)
