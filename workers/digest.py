"""
Read from the store what a digest says, and make each digest once.

`DigestJob` is the scheduler's part; `read_digest` reads the digest of a period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from alerts.channels.base import Channel
from alerts.digest import enqueue_once, is_due, is_first, note_first, recipients_of_digests
from alerts.outbox import dead_letters_since
from alerts.queries import incidents_since, sent_since
from monitor.models import ROOT, Tally, Verdict
from monitor.report.build import make_ledger
from monitor.report.digest import (
    Cadence,
    Digest,
    DigestFacts,
    DigestPoint,
    DigestSeries,
    Period,
    Release,
    Schedule,
    build_digest,
    last_period,
)
from monitor.report.model import ReportedChange
from monitor.rolling.tallies import Pair, movements
from monitor.settings import Settings
from monitor.store.drift import read_states
from monitor.store.engine import Lease, Store, fence
from monitor.store.ledger import read_between
from monitor.store.query import Stream, active_streams, series
from monitor.store.verdicts import read_changes, read_release_marks
from workers.reports import rate_and_interval, report_change, verdicts_by_app

_HOUR_S = 3600
_MOST_POINTS = 28
_FEW_HOURS = 12


class DigestJob:
    """Makes each digest once; costs nothing between two of them."""

    def __init__(self, store: Store, settings: Settings, channels: Mapping[str, Channel]) -> None:
        self._store = store
        self._settings = settings
        self._recipients = recipients_of_digests(channels, settings.digest_schedule.digest_channels)
        zone = ZoneInfo(settings.digest_schedule.digest_timezone)
        self._schedule = Schedule(
            Cadence(settings.digest_schedule.digest), settings.digest_schedule.digest_hour, zone
        )
        self._done = ""

    def run(self, lease: Lease, *, now: datetime) -> int:
        """
        Make the digest of the period that ended last, once; return how many messages it made.

        The very first time it only notes where it begins: a digest about a time in which
        nothing was watched says nothing.
        """
        period = last_period(self._schedule, now)
        if period.name == self._done:
            return 0
        with self._store.read() as connection:
            due, first = is_due(connection, period), is_first(connection)
        count = 0
        if due:
            digest = None if first else read_digest(self._store, self._settings, period, now=now)
            with self._store.write() as connection:
                fence(connection, lease)
                if digest is None:
                    note_first(connection, period, now)
                else:
                    count = enqueue_once(connection, digest, self._recipients, now)
        self._done = period.name
        return count


def read_digest(store: Store, settings: Settings, period: Period, *, now: datetime) -> Digest:
    """
    Read everything that the digest of *period* says.

    Statuses and open incidents are as of *now*. Sums are of whole hours, so that in a zone
    whose hours begin at half past, up to half an hour counts to the period before; a
    period under half a day is summed more finely. One that ends *now* has the hour that has
    just begun, and so much less at its beginning.
    """
    with store.read() as connection:
        facts = _digest_facts(connection, settings, period, now)
    return build_digest(
        facts, period=period, now=now, zone=settings.digest_schedule.digest_timezone,
        warning_rate=settings.warning_rate, critical_rate=settings.critical_rate,
    )  # fmt: skip


def _digest_facts(
    connection: Connection, settings: Settings, period: Period, now: datetime
) -> DigestFacts:
    window_s, bucket_s = settings.windows.status_window_s, settings.windows.bucket_s
    verdicts = [
        verdict
        for found in verdicts_by_app(connection, settings, now, None).values()
        for verdict in found
        if verdict.window_s == window_s and verdict.segment == ROOT
    ]
    start_s, end_s = period.start.timestamp(), period.end.timestamp()
    before_s = 2 * start_s - end_s
    # By the hour, which the store keeps for weeks; a short period by its buckets.
    if end_s - start_s >= _FEW_HOURS * _HOUR_S:
        step_s = max(_HOUR_S, bucket_s)
    else:
        step_s = max(1, -(-int(end_s - start_s) // _MOST_POINTS // bucket_s)) * bucket_s
    streams = active_streams(connection, since_s=int(before_s))
    ids, from_s = [stream.stream_id for stream in streams], int(before_s) // step_s * step_s
    tallies = series(connection, ids, from_s=from_s, step_s=step_s)
    steps = {
        (stream.key.app, stream.key.metric): _Steps(stream, tallies.get(stream.stream_id, {}))
        for stream in streams
    }
    # A digest asked for by hand ends now: the hour that has begun is its newest.
    up_s = step_s - 1 if period.end == now else 0
    edges = [(int(edge) + up_s) // step_s * step_s for edge in (before_s, start_s, end_s)]
    before = {key: item.between(edges[0], edges[1]) for key, item in steps.items()}
    sums = {key: item.between(edges[1], edges[2]) for key, item in steps.items()}
    states = read_states(connection, [item.stream.stream_id for item in steps.values()])
    effects = {
        key: float(states.get(item.stream.stream_id, {}).get("design_effect", 1.0))
        for key, item in steps.items()
    }
    pairs = [Pair(*key, before[key], sums[key], effects[key]) for key in steps]
    ledgers = read_between(connection, start_s, end_s)
    known = {*ledgers, *(verdict.app for verdict in verdicts)}
    changes: dict[str, list[ReportedChange]] = {}
    for change in read_changes(connection, since=period.start):
        is_ours = change.window_s == window_s and change.segment == ROOT
        if is_ours and change.at < period.end:
            changes.setdefault(change.app, []).append(report_change(change))
    incidents = incidents_since(connection, period.start)
    return DigestFacts(
        verdicts=verdicts,
        changes=changes,
        releases=[
            Release(app=app, release=mark.release, at=mark.at)
            for app in sorted(known)
            for mark in read_release_marks(connection, app=app, since=period.start)
            if mark.at < period.end
        ],
        incidents=[item for item in incidents if item.opened_at < period.end],
        messages=sent_since(connection, period.start),
        dead_letters=dead_letters_since(connection, period.start),
        movements=movements(pairs, min_n=settings.min_n),
        # What has enough scores now and none before.
        new_series=[k for k in steps if sums[k].n >= settings.min_n and not before[k].n],
        ledgers={app: make_ledger(ledgers.get(app, {})) for app in known},
        cost_usd=sum(tally.cost_microusd for tally in sums.values()) / 1e6,
        cost_before_usd=sum(tally.cost_microusd for tally in before.values()) / 1e6,
        courses=[
            steps[key].course(verdict, sums[key], edges, step_s)
            for verdict in verdicts
            if (key := (verdict.app, verdict.metric)) in steps
        ],
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """The sums of one stream, by step, over the period and the one before it."""

    stream: Stream
    tallies: Mapping[int, Tally]

    def between(self, from_s: float, to_s: float) -> Tally:
        found = Tally()
        for start_s, tally in self.tallies.items():
            if from_s <= start_s < to_s:
                found += tally
        return found

    def course(
        self, verdict: Verdict, whole: Tally, edges: Sequence[int], step_s: int
    ) -> DigestSeries:
        """Draw the period in at most 28 steps, and sum it to one."""
        _, start_s, end_s = edges
        width_s = step_s * -(-(end_s - start_s) // step_s // _MOST_POINTS)
        points = [
            DigestPoint(**rate_and_interval(self.between(at_s, min(at_s + width_s, end_s))))
            for at_s in range(start_s, end_s, max(width_s, step_s))
        ]
        return DigestSeries(
            app=verdict.app, metric=verdict.metric, status=verdict.status, n=whole.n,
            points=points, level_verified=verdict.level_verified, **rate_and_interval(whole),
        )  # fmt: skip
