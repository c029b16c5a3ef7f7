"""Read from the store what a digest says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from alerts.channels.base import Channel
from alerts.ledger import dead_letters_since, incidents_since, sent_since
from alerts.periodic import enqueue_once, is_due, is_first, note_first, recipients_of_digests
from monitor.models import ROOT, Tally, Verdict
from monitor.report.build import make_ledger
from monitor.report.digest import CoursePoint, Digest, DigestFacts, Release, build_digest
from monitor.report.model import Change
from monitor.report.periods import Cadence, Period, Schedule, last_period
from monitor.rolling.movers import Pair, movements
from monitor.rolling.windows import window_stats
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.insights import read_marks, read_states
from monitor.store.lease import Lease, fence
from monitor.store.ledger import read_between
from monitor.store.query import Stream, active_streams, series
from monitor.store.verdicts import read_changes
from workers.facts import plain_counts, told_change, verdicts_by_app

_HOUR_S = 3600
_MOST_POINTS = 28
_FEW_HOURS = 12

Key = tuple[str, str]


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


def read_digest(store: Store, settings: Settings, period: Period, *, now: datetime) -> Digest:
    """
    Read everything that the digest of *period* says.

    Statuses and open incidents are as of *now*. Sums are of whole hours, so that in a zone
    whose hours begin at half past, up to half an hour counts to the period before; a
    period under half a day is summed more finely. One that ends *now* has the hour that has
    just begun, and so much less at its beginning.
    """
    with store.read() as connection:
        facts = _facts(connection, settings, period, now)
    return build_digest(
        facts,
        period=period,
        now=now,
        zone=settings.digest_timezone,
        warning_rate=settings.warning_rate,
        critical_rate=settings.critical_rate,
    )


def _facts(
    connection: Connection, settings: Settings, period: Period, now: datetime
) -> DigestFacts:
    verdicts = _leading(connection, settings, now)
    start_s, end_s = period.start.timestamp(), period.end.timestamp()
    before_s = 2 * start_s - end_s
    step_s = _step_s(end_s - start_s, settings.bucket_s)
    steps = _steps(connection, int(before_s), step_s)
    # What is asked for by hand ends now: the hour that has begun is its newest, and not left out.
    up_s = step_s - 1 if period.end == now else 0
    edges = [(int(edge) + up_s) // step_s * step_s for edge in (before_s, start_s, end_s)]
    ledgers = read_between(connection, start_s, end_s)
    known = {*ledgers, *(verdict.app for verdict in verdicts)}
    incidents = incidents_since(connection, period.start)
    sums = {key: item.between(edges[1], edges[2]) for key, item in steps.items()}
    return DigestFacts(
        verdicts=verdicts,
        changes=_changes(connection, settings, period),
        releases=_releases(connection, known, period),
        incidents=[item for item in incidents if item.opened_at < period.end],
        messages=sent_since(connection, period.start),
        dead_letters=dead_letters_since(connection, period.start),
        movements=movements(_pairs(connection, steps, edges), min_n=settings.min_n),
        new_series=_new(steps, edges, settings.min_n),
        ledgers={app: make_ledger(plain_counts(ledgers.get(app))) for app in known},
        cost_usd=_cost_usd(sums.values()),
        cost_before_usd=_cost_usd(item.between(edges[0], edges[1]) for item in steps.values()),
        courses={key: _course(item, sums[key], edges, step_s) for key, item in steps.items()},
    )


def _step_s(window_s: float, bucket_s: int) -> int:
    """Sum by the hour, which the store keeps for weeks; a short period by its buckets."""
    if window_s >= _FEW_HOURS * _HOUR_S:
        return max(_HOUR_S, bucket_s)
    return max(1, -(-int(window_s) // _MOST_POINTS // bucket_s)) * bucket_s


def _leading(connection: Connection, settings: Settings, now: datetime) -> list[Verdict]:
    return [
        verdict
        for found in verdicts_by_app(connection, settings, now, None).values()
        for verdict in found
        if verdict.window_s == settings.status_window_s and verdict.segment == ROOT
    ]


def _steps(connection: Connection, from_s: int, step_s: int) -> dict[Key, _Steps]:
    streams = active_streams(connection, since_s=from_s)
    found = series(
        connection,
        [stream.stream_id for stream in streams],
        from_s=from_s // step_s * step_s,
        step_s=step_s,
    )
    return {
        (stream.key.app, stream.key.metric): _Steps(stream, found.get(stream.stream_id, {}))
        for stream in streams
    }


def _pairs(connection: Connection, steps: Mapping[Key, _Steps], edges: Sequence[int]) -> list[Pair]:
    states = read_states(connection, [item.stream.stream_id for item in steps.values()])
    return [
        Pair(
            app,
            metric,
            item.between(edges[0], edges[1]),
            item.between(edges[1], edges[2]),
            float(states.get(item.stream.stream_id, {}).get("design_effect", 1.0)),
        )
        for (app, metric), item in steps.items()
    ]


def _new(steps: Mapping[Key, _Steps], edges: Sequence[int], min_n: int) -> list[Key]:
    """List what has enough scores now and none before."""
    return [
        key
        for key, item in steps.items()
        if item.between(edges[1], edges[2]).n >= min_n and not item.between(edges[0], edges[1]).n
    ]


def _changes(connection: Connection, settings: Settings, period: Period) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in read_changes(connection, since=period.start):
        ours = change.window_s == settings.status_window_s and change.segment == ROOT
        if ours and change.at < period.end:
            found.setdefault(change.app, []).append(told_change(change))
    return found


def _releases(connection: Connection, apps: set[str], period: Period) -> list[Release]:
    return [
        Release(app=app, release=mark.release, at=mark.at)
        for app in sorted(apps)
        for mark in read_marks(connection, app=app, since=period.start)
        if mark.at < period.end
    ]


def _cost_usd(sums: Iterable[Tally]) -> float:
    return sum(tally.cost_microusd for tally in sums) / 1e6


def _course(
    item: _Steps, whole: Tally, edges: Sequence[int], step_s: int
) -> tuple[CoursePoint, list[CoursePoint], int]:
    """Draw the period in at most 28 steps, and sum it to one."""
    _, start_s, end_s = edges
    width_s = step_s * -(-(end_s - start_s) // step_s // _MOST_POINTS)
    points = [
        _point(item.between(at_s, min(at_s + width_s, end_s)))
        for at_s in range(start_s, end_s, max(width_s, step_s))
    ]
    return _point(whole), points, whole.n


def _point(tally: Tally) -> CoursePoint:
    found = window_stats(tally)
    if found.pass_rate is None or found.interval is None:
        return CoursePoint()
    return CoursePoint(rate=found.pass_rate, low=found.interval.low, high=found.interval.high)


# --- digest job ---
# The scheduler's part in the digest: look whether one is due, read it, and put it on its way.


class DigestJob:
    """Makes each digest once; costs nothing between two of them."""

    def __init__(self, store: Store, settings: Settings, channels: Mapping[str, Channel]) -> None:
        self._store = store
        self._settings = settings
        self._recipients = recipients_of_digests(channels, settings.digest_channels)
        zone = ZoneInfo(settings.digest_timezone)
        self._schedule = Schedule(Cadence(settings.digest), settings.digest_hour, zone)
        self._done = ""

    def run(self, lease: Lease, *, now: datetime) -> int:
        """
        Make the digest of the period that ended last, if nobody has; say how many messages.

        The very first time it only notes where it begins: a digest about a time in which
        nothing was watched tells nothing.
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
