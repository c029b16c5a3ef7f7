"""Labels of an alert, and the matchers that pick alerts by them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple, Protocol, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from monitor.errors import SettingsError
from monitor.models.alerting import Level
from monitor.models.status import Verdict

Labels = Mapping[str, str]

#: The metrics that speak of the monitor itself all begin so; no evaluator may.
MONITOR_PREFIX = "monitor:"
_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
#: Labels that every alert has; others come from the routes file.
BUILT_IN = ("app", "metric", "segment", "window_s", "severity", "judge", "kind")


def labels_of(verdict: Verdict, level: Level, more: Labels | None = None) -> dict[str, str]:
    """Say what an alert about *verdict* is called by; built-in names win over *more*."""
    return dict(more or {}) | {
        "app": verdict.app,
        "metric": verdict.metric,
        "segment": verdict.segment,
        "window_s": str(verdict.window_s),
        "severity": level.value,
        "judge": verdict.evaluator_version,
        "kind": "monitor" if verdict.metric.startswith(MONITOR_PREFIX) else "quality",
    }


@dataclass(frozen=True)
class Matcher:
    """
    One condition on a label: ``=``, ``!=``, ``=~`` or ``!~``.

    A label that an alert does not have counts as empty. Patterns must match the whole
    value, as in Alertmanager.
    """

    name: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read a matcher such as ``app=~"support-.*"``; the quotes may be left out.

        Raises
        ------
        SettingsError
            If it is none; the message shows what one looks like.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise SettingsError(
                f"{text!r} is no matcher; write it as app=NAME, app!=NAME, app=~PATTERN"
                " or app!~PATTERN"
            )
        quoted = _QUOTED.fullmatch(found[3])
        matcher = cls(found[1], found[2], quoted[1] if quoted else found[3])
        try:
            _ = matcher._pattern
        except re.error as error:
            raise SettingsError(f"{text!r}: the pattern cannot be read: {error}") from None
        return matcher

    def matches(self, labels: Labels) -> bool:
        """Say whether the condition holds for these labels."""
        value = labels.get(self.name, "")
        found = (
            self._pattern.fullmatch(value) is not None
            if "~" in self.operator
            else value == self.value
        )
        return found != self.operator.startswith("!")

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{self.value}"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.value if "~" in self.operator else "", re.DOTALL)


def parse_all(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Read several matchers; all of them must hold."""
    return tuple(Matcher.parse(text) for text in texts)


def all_match(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Say whether every condition holds; no condition holds always."""
    return all(matcher.matches(labels) for matcher in matchers)


@dataclass(frozen=True)
class AppLabels:
    """Labels given to apps by name; a name may be a pattern such as ``support-*``."""

    by_app: Mapping[str, Labels] = field(default_factory=dict)

    def of(self, app: str) -> dict[str, str]:
        """Collect the labels of one app; later entries win."""
        found: dict[str, str] = {}
        for pattern, labels in self.by_app.items():
            if fnmatchcase(app, pattern):
                found |= labels
        return found


# --- hours ---
# Hours of the week in a time zone, right through the change to and from summer time; pure.


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


# --- routes ---
# Routes: an ordered list, of which the first that matches says who hears of an alert; pure.


class Target(NamedTuple):
    """A channel that is told, and the one that is told when it cannot be reached."""

    channel: str
    fallback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """
    Who hears of the alerts that all *matchers* hold for.

    Outside of *active_hours* a route does not match, and the next one is asked.
    """

    name: str
    channels: tuple[str, ...]
    matchers: tuple[Matcher, ...] = ()
    min_severity: Level = Level.WARNING
    active_hours: Hours | None = None
    fallback: str | None = None
    goes_on: bool = False  #: routes behind it are asked as well

    @property
    def is_default(self) -> bool:
        """Whether it takes everything at any time."""
        return not self.matchers and self.active_hours is None and self.min_severity == "warning"

    def refusal(self, labels: Labels, now: datetime) -> str | None:
        """Say why it does not match; None when it does."""
        for matcher in self.matchers:
            if not matcher.matches(labels):
                return (
                    f"{matcher} does not hold: {matcher.name} is {labels.get(matcher.name, '')!r}"
                )
        if self.min_severity is Level.CRITICAL and labels.get("severity") != Level.CRITICAL:
            return "it takes only what is critical"
        if self.active_hours is not None and not self.active_hours.cover(now):
            return f"it is outside of {self.active_hours}"
        return None


class Step(NamedTuple):
    """What one route said to an alert."""

    route: Route
    refusal: str | None  #: None when it matched


@dataclass(frozen=True, slots=True)
class Router:
    """The routes in their order."""

    routes: Sequence[Route]

    def targets(self, labels: Labels, now: datetime) -> list[Target]:
        """List who hears of such an alert now, each channel once."""
        found: dict[str, Target] = {}
        for route, refusal in self.explain(labels, now):
            if refusal is None:
                for channel in route.channels:
                    found.setdefault(channel, Target(channel, _other(route.fallback, channel)))
        return list(found.values())

    def explain(self, labels: Labels, now: datetime) -> Iterator[Step]:
        """Ask the routes in turn, and tell what each said, up to the one that decides."""
        for route in self.routes:
            refusal = route.refusal(labels, now)
            yield Step(route, refusal)
            if refusal is None and not route.goes_on:
                return


def to_everyone(channels: Iterable[str]) -> Router:
    """Make the router of somebody who has no routes: all channels hear of everything."""
    return Router([Route(name="default", channels=tuple(channels))])


def _other(fallback: str | None, channel: str) -> str | None:
    return fallback if fallback != channel else None


# --- silences ---
# Silences and maintenance windows: they hold messages back, and change nothing else; pure.


class SilenceRule(Protocol):
    """Something that holds messages back."""

    @property
    def hush_id(self) -> str:
        """Its name in tables and messages."""
        ...

    @property
    def author(self) -> str:
        """Who wanted it."""
        ...

    def covers(self, labels: Labels, now: datetime) -> bool:
        """Say whether it holds back messages about such an alert now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Quiet about what all *matchers* hold for, from one time to another; somebody wanted it."""

    hush_id: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    author: str
    comment: str

    def covers(self, labels: Labels, now: datetime) -> bool:
        """Say whether it holds back messages about such an alert now."""
        return self.starts_at <= now < self.ends_at and all_match(self.matchers, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Quiet that comes again every week, from the routes file."""

    name: str
    matchers: tuple[Matcher, ...]
    hours: Hours

    @property
    def hush_id(self) -> str:
        """Its name in tables and messages."""
        return f"maintenance:{self.name}"[:64]

    @property
    def author(self) -> str:
        """Who wanted it."""
        return f"the maintenance window {self.name}"

    def covers(self, labels: Labels, now: datetime) -> bool:
        """Say whether it holds back messages about such an alert now."""
        return all_match(self.matchers, labels) and self.hours.cover(now)


def hush_for(hushes: Sequence[SilenceRule], labels: Labels, now: datetime) -> SilenceRule | None:
    """Find the first that holds back messages about such an alert now."""
    return next((hush for hush in hushes if hush.covers(labels, now)), None)
