"""The segments of a metric as a table: share, rate, change, and what each adds to the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from monitor.models import ROOT, Tally
from monitor.rolling.attribution import Rate, SegmentChange, segment_changes
from monitor.rolling.reference import Span
from monitor.stats.intervals import wilson_interval
from monitor.store.query import Stream, active_streams, window_tallies
from workers.drift_reference import References

_MOST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One segment now and in the reference; rates in [0, 1], None where nothing was scored."""

    dimension: str
    value: str
    n: float
    share: float
    share_before: float
    rate: float | None
    low: float | None
    high: float | None
    rate_before: float | None
    adds: float | None  #: to the change of the whole, by its rate and its share

    @property
    def change(self) -> float | None:
        """How far its rate lies above that of the reference."""
        if self.rate is None or self.rate_before is None:
            return None
        return self.rate - self.rate_before


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTable:
    """The segments that are worth a line, and how many are not."""

    rows: Sequence[SegmentRow] = ()
    left_out: int = 0
    reference: str = ""  #: what they are compared with, in words


def read_segments(
    connection: Connection, references: References, stream: Stream, window: Span
) -> SegmentTable:
    """Read the segments of a stream over *window* and over its reference."""
    described, before = references.segments(stream, window)
    now = window_tallies(
        connection, from_s=window.from_s, app=stream.key.app, segment=None, histograms=False
    )
    mine = stream.key._replace(segment=ROOT)
    names = {
        found.stream_id: found.key.segment
        for found in active_streams(
            connection,
            since_s=window.from_s - references.settings.reference_s,
            segment=None,
            app=stream.key.app,
        )
        if found.key._replace(segment=ROOT) == mine and found.key.segment != ROOT
    }
    changes = segment_changes(
        _of(names, before), _of(names, now),
        root_before=before.get(stream.stream_id, Tally()),
        root_now=now.get(stream.stream_id, Tally()),
    )  # fmt: skip
    rows = [_row(change) for change in changes if change.now.n or change.before.n]
    return SegmentTable(rows=rows[:_MOST], left_out=len(rows[_MOST:]), reference=described)


def _of(names: Mapping[int, str], tallies: Mapping[int, Tally]) -> dict[str, Tally]:
    return {names[key]: tally for key, tally in tallies.items() if key in names}


def _row(change: SegmentChange) -> SegmentRow:
    dimension, _, value = change.segment.partition("=")
    low, high = _bounds(change.now)
    return SegmentRow(
        dimension=dimension, value=value, n=change.now.n, share=change.share_now,
        share_before=change.share_before, rate=change.now.rate if change.now.n else None,
        low=low, high=high, rate_before=change.before.rate if change.before.n else None,
        adds=None if change.part is None else change.part.rate + change.part.mix,
    )  # fmt: skip


def _bounds(rate: Rate) -> tuple[float | None, float | None]:
    return wilson_interval(rate.rate * rate.n, rate.n) if rate.n > 0 else (None, None)
