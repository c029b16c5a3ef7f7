"""Read weekdays and times of day, so that 17:00 and 5 PM are the same."""

from __future__ import annotations

import re
from typing import NamedTuple

_DAY_MINUTES = 24 * 60
_NOON = 12
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ALL, _WEEK, _WEEKEND = frozenset(range(7)), frozenset(range(5)), frozenset({5, 6})
_SETS = {
    "weekday": _WEEK, "weekdays": _WEEK, "weekend": _WEEKEND, "weekends": _WEEKEND,
    "daily": _ALL, "every day": _ALL, "everyday": _ALL, "seven days": _ALL, "7 days": _ALL,
}  # fmt: skip
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_TIME = r"(?:\d{1,2}(?::\d{1,2})? ?(?:[ap]\.?m\b\.?|o'clock)|\d{1,2}:\d{1,2}|noon|midnight)"
TIME = re.compile(rf"(?<![\d:]){_TIME}", re.IGNORECASE)
_TOKEN = re.compile(
    rf"\b(?P<days>{_DAY})\b(?: ?(?:-|–|to|through|thru|until) ?(?P<last>{_DAY})\b)?"
    r"|\b(?P<set>weekdays?|weekends?|daily|every ?day|(?:seven|7) days)\b"
    rf"|(?<![\d:])(?P<from>{_TIME}|\d{{1,2}}) ?(?:-|–|to|until|till|and|through) ?(?P<to>{_TIME})"
    r"|\b(?P<closed>closed)\b",
    re.IGNORECASE,
)


class Opening(NamedTuple):
    """On these days (0 is Monday), from one minute of the day to another; None is closed."""

    days: frozenset[int]
    hours: tuple[int, int] | None


def openings(text: str) -> list[Opening]:
    """
    Read who is open when: every stretch of hours with the days that stand before it.

    Hours that stand before any day belong to the days that follow, or to every day.
    """
    found: list[Opening] = []
    days: set[int] = set()
    waiting: list[tuple[int, int] | None] = []
    fresh = False
    for match in _TOKEN.finditer(text):
        if match["days"] or match["set"]:
            if fresh:
                days = set()
            fresh = False
            days |= _days(match)
            found += [Opening(frozenset(days), hours) for hours in waiting]
            fresh, waiting = bool(waiting), []
        else:
            hours = None if match["closed"] else _hours(match["from"], match["to"])
            if match["closed"] is None and hours is None:
                continue
            if days:
                found.append(Opening(frozenset(days), hours))
                fresh = True
            else:
                waiting.append(hours)
    return found + [Opening(_ALL, hours) for hours in waiting if hours is not None]


def _days(match: re.Match[str]) -> frozenset[int]:
    if match["set"]:
        return _SETS[match["set"].lower()]
    first = _day(match["days"])
    if match["last"] is None:
        return frozenset({first})
    count = (_day(match["last"]) - first) % 7
    return frozenset((first + step) % 7 for step in range(count + 1))


def _day(word: str) -> int:
    return next(n for n, day in enumerate(_DAYS) if day.startswith(word.lower()[:3]))


def _hours(start: str, end: str) -> tuple[int, int] | None:
    """Read both times; a bare first number takes the half of the day from the second."""
    last = minutes_of_day(end)
    first = minutes_of_day(start)
    if start.isdigit() and re.search(r"[ap]\.?m", end, re.IGNORECASE):
        first = minutes_of_day(f"{start} {'p' if 'p' in end.lower() else 'a'}m")
    if first is None or last is None:
        return None
    return first % _DAY_MINUTES, last % _DAY_MINUTES


def minutes_of_day(text: str) -> int | None:
    """Read a time of day, in minutes since midnight; None where there is no such time."""
    lower = text.lower()
    if lower in {"noon", "midnight"}:
        return _NOON * 60 if lower == "noon" else 0
    numbers = [int(number) for number in re.findall(r"\d+", lower)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if hour > 24 or minute > 59:  # noqa: PLR2004 - no time of day
        return None
    if "p" in lower and hour < _NOON:
        hour += _NOON
    if "a" in lower and hour == _NOON:
        hour = 0
    return hour * 60 + minute
