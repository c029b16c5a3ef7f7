"""Digests: when one is due, and what it says of a day or a week, as values; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, Field

from monitor.models import Alert, Incident, Status, Verdict
from monitor.models.alerting import Severity
from monitor.models.status import Movement
from monitor.report.model import SEVERITY, Ledger, ReportedChange, ReportValue, worst_status

_MOST_SERIES = 6
_SHORT, _NEVER = timedelta(minutes=10), datetime.max.replace(tzinfo=UTC)
_MOST_LISTED = 8
#: Below this share of samples evaluated, a digest asks for a look.
LOW_COVERAGE = 0.9


class Cadence(StrEnum):
    """How often a digest comes."""

    DAILY = "daily"
    WEEKLY = "weekly"  #: on Mondays


class Schedule(NamedTuple):
    """At *hour* o'clock of *zone*, every day or every Monday."""

    cadence: Cadence
    hour: int
    zone: ZoneInfo


class Period(NamedTuple):
    """The time [start, end) that a digest covers, and its unique name."""

    name: str
    start: datetime
    end: datetime


def last_period(schedule: Schedule, now: datetime) -> Period:
    """
    Return the period that ended last, at or before *now* (aware).

    It ends at the hour that the clock on the wall shows: a day on which clocks change is
    23 or 25 hours long. Where that hour comes twice the first one counts; where it is left
    out, the moment at which the clocks leap. So each date has one end, and ends never go back.
    """
    last, step = now.astimezone(schedule.zone).date() + timedelta(days=1), timedelta(days=1)
    if schedule.cadence is Cadence.WEEKLY:
        last, step = last + timedelta(days=-last.weekday() % 7), timedelta(weeks=1)
    while (end := _period_end(schedule, last)) > now:
        last -= step
    before = last - step
    while (start := _period_end(schedule, before)) >= end:
        before -= step  # a date that a zone left out altogether
    return Period(f"{schedule.cadence}-{last:%Y-%m-%d}", start, end)


def window_before(now: datetime, window_s: int) -> Period:
    """Return the period of *window_s* seconds up to *now*, for a digest made on request."""
    return Period("requested", now - timedelta(seconds=window_s), now)


def _period_end(schedule: Schedule, day: date) -> datetime:
    return datetime.combine(day, time(schedule.hour), schedule.zone).astimezone(UTC)


class DigestPoint(ReportValue):
    """The pass rate of one step with its 90 % interval; a step without scores has none."""

    rate: float | None = None
    low: float | None = None
    high: float | None = None


class DigestSeries(ReportValue):
    """One app and metric: how it stands, and its pass rate over the period."""

    app: str
    metric: str
    status: Status
    rate: float | None
    low: float | None
    high: float | None
    n: int
    points: Sequence[DigestPoint]
    level_verified: bool = True


class StatusMove(ReportValue):
    """A status that is another one now than before, or that changed in between."""

    app: str
    metric: str
    before: Status | None
    after: Status
    changes: int
    at: AwareDatetime


class Release(ReportValue):
    """A release that went out."""

    app: str
    release: str
    at: AwareDatetime


class Episode(ReportValue):
    """One incident: how bad it was, and how long it went on within its whole life."""

    incident_id: str
    app: str
    metric: str
    level: Severity
    opened_at: AwareDatetime
    lasted_s: float
    is_open: bool


class NoisyKey(ReportValue):
    """An app and metric that alerted more than once."""

    app: str
    metric: str
    incidents: int
    short: int = Field(description="Those of them that were over within ten minutes.")
    messages: int


class Coverage(ReportValue):
    """Where the interactions of one app went in the period."""

    app: str
    seen: int
    sampled: int
    scored: int
    skipped: int
    failed: int
    dropped: int
    over_budget: int = Field(0, description="Those skipped because a budget was reached.")

    @property
    def share(self) -> float | None:
        """The share of samples that was evaluated; None if there was no sample."""
        if not self.sampled:
            return None
        return min(1.0, (self.scored + self.skipped - self.over_budget) / self.sampled)


class Digest(ReportValue):
    """The content of one digest."""

    schema_version: Literal[1] = 1
    name: str
    start: AwareDatetime
    end: AwareDatetime
    made_at: AwareDatetime
    zone: str
    statuses: Mapping[str, Status]
    moves: Sequence[StatusMove] = ()
    releases: Sequence[Release] = ()
    new_series: Sequence[tuple[str, str]] = ()
    episodes: Sequence[Episode] = ()
    more_episodes: int = 0
    movers: Sequence[Movement] = Field((), description="The certain ones, the largest first.")
    compared: int = 0
    noisiest: Sequence[NoisyKey] = ()
    messages: int = Field(0, description="Alert messages that were sent.")
    dead_letters: int = 0
    coverage: Sequence[Coverage] = ()
    cost_usd: float = 0.0
    cost_before_usd: float = 0.0
    courses: Sequence[DigestSeries] = ()
    warning_rate: float = Field(ge=0.0, le=1.0)
    critical_rate: float = Field(ge=0.0, le=1.0)

    @property
    def status(self) -> Status:
        """The worst status of all apps."""
        return worst_status(list(self.statuses.values()))

    @property
    def window_s(self) -> float:
        """How long the period was, in seconds."""
        return (self.end - self.start).total_seconds()

    @property
    def low_coverage(self) -> list[Coverage]:
        """Apps of which fewer samples were evaluated than should be."""
        return [c for c in self.coverage if c.share is not None and c.share < LOW_COVERAGE]

    @property
    def nothing_to_do(self) -> bool:
        """Whether nothing needs attention."""
        return not (
            self.status not in {Status.HEALTHY, Status.INSUFFICIENT_DATA}
            or any(episode.is_open for episode in self.episodes)
            or any(item.difference < 0 for item in self.movers)
            or self.low_coverage
            or self.dead_letters
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestFacts:
    """What the store knows of a period; mappings are by app unless said otherwise."""

    verdicts: Sequence[Verdict]  #: of the status window, one a metric
    changes: Mapping[str, Sequence[ReportedChange]] = field(default_factory=dict)  #: oldest first
    releases: Sequence[Release] = ()
    incidents: Sequence[Incident] = ()  #: open at any time in the period
    messages: Mapping[str, int] = field(default_factory=dict)  #: sent, by group of incidents
    dead_letters: int = 0
    movements: Sequence[Movement] = ()
    new_series: Sequence[tuple[str, str]] = ()
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)
    cost_usd: float = 0.0
    cost_before_usd: float = 0.0
    courses: Sequence[DigestSeries] = ()


def build_digest(
    facts: DigestFacts,
    *,
    period: Period,
    now: datetime,
    zone: str,
    warning_rate: float,
    critical_rate: float,
) -> Digest:
    """
    Return a digest: the worst and the largest first, and no list longer than a page.

    Statuses and open incidents are as of *now*; its times are those of the time zone *zone*, and
    its charts have thresholds at *warning_rate* and *critical_rate*.
    """
    incidents = [item for item in facts.incidents if not item.is_drill]
    episodes = [
        Episode(
            incident_id=item.incident_id, app=item.app, metric=", ".join(item.metrics),
            level=item.peak_level, opened_at=item.opened_at, is_open=item.is_open,
            lasted_s=max(0.0, ((item.resolved_at or now) - item.opened_at).total_seconds()),
        )
        for item in incidents
    ]  # fmt: skip
    episodes.sort(
        key=lambda e: (not e.is_open, e.level is not Severity.CRITICAL, -e.lasted_s, e.app)
    )
    by_key: dict[tuple[str, str], list[Alert]] = {}
    for alert in (each for item in incidents for each in item.alerts or (item,)):
        by_key.setdefault((alert.app, alert.metric), []).append(alert)
    noisy = [
        NoisyKey(
            app=app, metric=metric, incidents=len(items),
            short=sum((i.resolved_at or _NEVER) - i.opened_at < _SHORT for i in items),
            messages=sum(facts.messages.get(item.incident_id, 0) for item in items),
        )
        for (app, metric), items in by_key.items()
        if len(items) > 1
    ]  # fmt: skip
    noisy.sort(key=lambda key: (-key.incidents, key.app, key.metric))
    # Where the status of each metric began and where it is now, without steps between.
    changed: dict[tuple[str, str], list[ReportedChange]] = {}
    for app, items in facts.changes.items():
        for item in items:
            changed.setdefault((app, item.metric), []).append(item)
    moves = [
        StatusMove(
            app=app, metric=metric, before=items[0].before, after=items[-1].after,
            changes=len(items), at=items[-1].at,
        )
        for (app, metric), items in changed.items()
    ]  # fmt: skip
    moves.sort(key=lambda move: (SEVERITY.index(move.after), move.app, move.metric))
    statuses: dict[str, list[Status]] = {app: [] for app in facts.ledgers}
    for verdict in facts.verdicts:
        statuses.setdefault(verdict.app, []).append(verdict.status)
    return Digest(
        **period._asdict(),
        made_at=now,
        zone=zone,
        statuses={app: worst_status(found) for app, found in sorted(statuses.items())},
        moves=moves[:_MOST_LISTED],
        releases=sorted(facts.releases, key=lambda item: item.at)[-_MOST_LISTED:],
        new_series=sorted(facts.new_series)[:_MOST_LISTED],
        episodes=episodes[:_MOST_LISTED],
        more_episodes=max(0, len(incidents) - _MOST_LISTED),
        movers=[item for item in facts.movements if item.certain][:_MOST_LISTED],
        compared=len(facts.movements),
        noisiest=noisy[:3],
        messages=sum(facts.messages.values()),
        dead_letters=facts.dead_letters,
        coverage=[
            Coverage(
                app=app,
                seen=ledger.seen,
                sampled=ledger.sampled,
                scored=ledger.scored,
                over_budget=ledger.skipped.get("budget_reached", 0),
                **{
                    kind: sum(getattr(ledger, kind).values())
                    for kind in ("skipped", "failed", "dropped")
                },
            )
            for app, ledger in sorted(facts.ledgers.items())
        ],
        cost_usd=facts.cost_usd,
        cost_before_usd=facts.cost_before_usd,
        courses=sorted(
            facts.courses, key=lambda c: (SEVERITY.index(c.status), c.rate or 0.0, c.app)
        )[:_MOST_SERIES],
        warning_rate=warning_rate,
        critical_rate=critical_rate,
    )
