"""Hours of the week in a time zone, right through the change to and from summer time; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from monitor.errors import SettingsError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EVERY_DAY = frozenset(range(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """
    From one clock time to another on some days of the week, in one time zone.

    The clock on the wall counts: 02:00 to 04:00 lasts one hour on the night when the
    clock leaps from 02:00 to 03:00, and three on the night when it is turned back. An
    end that is not after the beginning is on the next day; the day is the one on
    which it begins.
    """

    begin: time
    end: time
    zone: ZoneInfo
    days: frozenset[int] = _EVERY_DAY  #: Monday is 0

    @classmethod
    def parse(cls, begin: str, end: str, zone: str, days: str | Iterable[str] = ()) -> Self:
        """
        Read hours such as ``"22:00", "06:00", "Europe/Stockholm", "mon-fri"``.

        Raises
        ------
        SettingsError
            If any part cannot be read; the message says which and what it should be.
        """
        return cls(begin=_clock(begin), end=_clock(end), zone=_zone(zone), days=_days(days))

    def cover(self, now: datetime) -> bool:
        """Say whether *now*, an aware time, falls within the hours."""
        return self.until(now) is not None

    def until(self, now: datetime) -> datetime | None:
        """Say when the hours end that *now* falls within, in UTC; None outside of them."""
        today = now.astimezone(self.zone).date()
        for day in (today, today - timedelta(days=1)):
            begin, end = self._span(day)
            if day.weekday() in self.days and begin <= now < end:
                return end
        return None

    def _span(self, day: date) -> tuple[datetime, datetime]:
        """Give begin and end of the hours that begin on *day*, in UTC."""
        last = day if self.end > self.begin else day + timedelta(days=1)
        begin = datetime.combine(day, self.begin, tzinfo=self.zone)
        # Of an hour that comes twice the hours begin in the first and end after the second.
        end = datetime.combine(last, self.end.replace(fold=1), tzinfo=self.zone)
        return begin.astimezone(UTC), end.astimezone(UTC)

    def __str__(self) -> str:
        names = (
            "every day" if self.days == _EVERY_DAY else " ".join(DAYS[d] for d in sorted(self.days))
        )
        return f"{names} {self.begin:%H:%M}-{self.end:%H:%M} {self.zone.key}"


def _clock(text: str) -> time:
    try:
        hours, minutes = text.split(":")
        # Midnight at the end of a day, as people write it.
        return time(0) if text == "24:00" else time(int(hours), int(minutes))
    except (ValueError, AttributeError):
        raise SettingsError(f"{text!r} is no time of day; write it as 08:30") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(
            f"{name!r} is no time zone; write it as Europe/Stockholm or UTC"
        ) from None


def _days(given: str | Iterable[str]) -> frozenset[int]:
    words = given.replace(",", " ").split() if isinstance(given, str) else list(given)
    if not words:
        return _EVERY_DAY
    found: set[int] = set()
    for word in words:
        first, _, last = word.strip().lower().partition("-")
        begin, end = _day(first), _day(last or first)
        found.update(day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))
    return frozenset(found)


def _day(name: str) -> int:
    if name[:3] not in DAYS:
        raise SettingsError(f"{name!r} is no day; write days as mon-fri or sat, sun")
    return DAYS.index(name[:3])
