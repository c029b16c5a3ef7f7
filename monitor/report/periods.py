"""When a digest is due, and what it is about: pure, with the time as an argument."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo


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
    """What a digest is about: [start, end), and a name that no other period has."""

    name: str
    start: datetime
    end: datetime


_DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7}


def last_period(schedule: Schedule, now: datetime) -> Period:
    """
    Give the period that ended last, at or before *now* (aware).

    It ends at the hour that the clock on the wall shows: a day on which clocks change is
    23 or 25 hours long. Where that hour comes twice the first one counts; where it is left
    out, the moment at which the clocks leap. So each date has one end, and ends never go back.
    """
    last = now.astimezone(schedule.zone).date() + timedelta(days=1)
    if schedule.cadence is Cadence.WEEKLY:
        last += timedelta(days=-last.weekday() % 7)
    step = timedelta(days=_DAYS[schedule.cadence])
    while (end := _moment(schedule, last)) > now:
        last -= step
    before = last - step
    while (start := _moment(schedule, before)) >= end:
        before -= step  # a date that a zone left out altogether
    return Period(f"{schedule.cadence}-{last:%Y-%m-%d}", start, end)


def window_before(now: datetime, window_s: int) -> Period:
    """Give the period of *window_s* seconds up to *now*, for who asks by hand."""
    return Period("asked", now - timedelta(seconds=window_s), now)


def _moment(schedule: Schedule, day: date) -> datetime:
    return datetime.combine(day, time(schedule.hour), schedule.zone).astimezone(UTC)
