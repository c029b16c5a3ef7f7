"""Read the sums of the reference: what each stream counted while all was well."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from sqlalchemy import Connection

from monitor.models import Tally, Verdict
from monitor.rolling.reference import Began, Span, well_spans
from monitor.store.query import Stream, active_streams, window_tallies
from monitor.store.verdicts import read_changes, read_verdicts

_Key = tuple[str, str, str]


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
    by_span: dict[Span, list[Stream]] = defaultdict(list)
    for stream in active_streams(connection, since_s=from_s):
        began = changes.get(stream.key[:3], [])
        spans = well_spans(began, from_s=from_s, to_s=to_s)
        if spans != [Span(from_s, to_s)]:
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
) -> dict[_Key, list[Began]]:
    """List how the status of each key went, the one that was there at *from_s* first."""
    found: dict[_Key, list[Began]] = {}
    for change in read_changes(connection, since=datetime.fromtimestamp(from_s, UTC)):
        if change.window_s == status_window_s:
            key = (change.app, change.metric, change.segment)
            at_first = [Began(from_s, change.before)] if change.before else []
            began = Began(change.at.timestamp(), change.after, _onset_s(change.verdict))
            found.setdefault(key, at_first).append(began)
    for verdict in read_verdicts(connection).values():
        if verdict.window_s == status_window_s:
            key = (verdict.app, verdict.metric, verdict.segment)
            began = Began(verdict.since.timestamp(), verdict.status, _onset_s(verdict))
            found.setdefault(key, [began])
    return found


def _onset_s(verdict: Verdict) -> float | None:
    """Give the earliest time at which the fall may have begun, if the policy located it."""
    onset = verdict.onset_earliest or verdict.onset
    return None if onset is None else onset.timestamp()
