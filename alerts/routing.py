"""
Who is notified of an alert: labels and matchers, hours of the week, routes, silences; pure.

`RoutingConfig` holds all these, as the settings and the routes file have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import regex
import structlog

from alerts.conditions import MONITOR_PREFIX, ThresholdRule
from monitor.errors import SettingsError
from monitor.models.alerting import Severity
from monitor.models.status import Verdict

_log = structlog.get_logger("groundwatch.alerts")

Labels = Mapping[str, str]

_PATTERN_TIMEOUT_S = 0.05
#: Begins no repeat, so that `re` takes it as a letter; `regex` reads ``a{e}`` as "a, or nearly".
_LITERAL_BRACE = re.compile(r"(\\.)|\{(?!\d+(?:,\d*)?\}|,\d*\})", re.DOTALL)
_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
#: Labels that every alert has; others come from the routes file.
BUILT_IN = ("app", "metric", "segment", "window_s", "severity", "judge", "kind")


@dataclass(frozen=True)
class Matcher:
    """
    One condition on a label: ``=``, ``!=``, ``=~`` or ``!~``.

    A label that an alert does not have counts as empty. Patterns must match the whole
    value, as in Alertmanager. One that takes too long on a value does not hold for it: some, such
    as ``(a|aa)+x``, take 2**n steps.
    """

    name: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read a matcher such as ``app=~"support-.*"``; the quotes may be left out.

        Raise SettingsError if *text* is not a matcher.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise SettingsError(
                f"Invalid matcher {text!r}: expected app=NAME, app!=NAME, app=~PATTERN"
                " or app!~PATTERN"
            )
        quoted = _QUOTED.fullmatch(found[3])
        matcher = cls(found[1], found[2], quoted[1] if quoted else found[3])
        try:
            _ = matcher._pattern
        except (re.error, regex.error, ValueError, OverflowError, RecursionError) as error:
            raise SettingsError(f"Invalid pattern in {text!r}: {error}") from None
        return matcher

    def matches(self, labels: Labels) -> bool:
        """Return whether the condition holds for *labels*."""
        value = labels.get(self.name, "")
        if "~" not in self.operator:
            return (value == self.value) != self.operator.startswith("!")
        try:
            found = self._pattern.fullmatch(value, timeout=_PATTERN_TIMEOUT_S)
        except TimeoutError:
            _log.warning("alert_pattern_too_slow", matcher=str(self), value=value)
            return False
        return (found is not None) != self.operator.startswith("!")

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{self.value}"

    @cached_property
    def _pattern(self) -> regex.Pattern[str]:
        text = self.value if "~" in self.operator else ""
        re.compile(text)  # the syntax is that of `re`
        return regex.compile(_LITERAL_BRACE.sub(lambda m: m[1] or r"\{", text), regex.DOTALL)


def parse_all(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Parse several matchers."""
    return tuple(Matcher.parse(text) for text in texts)


def all_match(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Return whether every matcher holds; true without any."""
    return all(matcher.matches(labels) for matcher in matchers)


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

        Raise SettingsError if any part cannot be read; the message says which and what it should
        be.
        """
        try:
            found = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SettingsError(
                f"Invalid time zone {zone!r}: expected Europe/Stockholm or UTC"
            ) from None
        weekdays: set[int] = set()
        for word in days.replace(",", " ").split() if isinstance(days, str) else days:
            first, _, last = (part[:3] for part in word.strip().lower().partition("-"))
            if first not in DAYS or (last and last not in DAYS):
                raise SettingsError(f"Invalid day {word!r}: expected mon-fri or sat, sun")
            low, high = DAYS.index(first), DAYS.index(last or first)
            weekdays.update(day % 7 for day in range(low, high + 1 if high >= low else high + 8))
        return cls(
            begin=_time_of_day(begin),
            end=_time_of_day(end),
            zone=found,
            days=frozenset(weekdays) or _EVERY_DAY,
        )

    def cover(self, now: datetime) -> bool:
        """Return whether *now*, an aware time, falls within the hours."""
        return self.until(now) is not None

    def until(self, now: datetime) -> datetime | None:
        """Return when the hours that contain *now* end, in UTC; None outside of them."""
        today = now.astimezone(self.zone).date()
        for day in (today, today - timedelta(days=1)):
            last = day if self.end > self.begin else day + timedelta(days=1)
            begin = datetime.combine(day, self.begin, tzinfo=self.zone)
            # An hour that comes twice counts from its first beginning to its second end.
            end = datetime.combine(last, self.end.replace(fold=1), tzinfo=self.zone)
            if day.weekday() in self.days and begin.astimezone(UTC) <= now < end.astimezone(UTC):
                return end.astimezone(UTC)
        return None

    def __str__(self) -> str:
        names = (
            "every day" if self.days == _EVERY_DAY else " ".join(DAYS[d] for d in sorted(self.days))
        )
        return f"{names} {self.begin:%H:%M}-{self.end:%H:%M} {self.zone.key}"


def _time_of_day(text: str) -> time:
    try:
        hours, minutes = text.split(":")
        # Midnight at the end of a day, as people write it.
        return time(0) if text == "24:00" else time(int(hours), int(minutes))
    except (ValueError, AttributeError):
        raise SettingsError(f"Invalid time of day {text!r}: expected 08:30") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """
    The channels for alerts that all *matchers* match.

    Outside of *active_hours* a route does not match, and the next one is tried.
    """

    name: str
    channels: tuple[str, ...]
    matchers: tuple[Matcher, ...] = ()
    min_severity: Severity = Severity.WARNING
    active_hours: Hours | None = None
    fallback: str | None = None
    goes_on: bool = False  #: the routes after it are tried as well

    @property
    def is_default(self) -> bool:
        """Whether it takes everything at any time."""
        return not self.matchers and self.active_hours is None and self.min_severity == "warning"

    def refusal(self, labels: Labels, now: datetime) -> str | None:
        """Return why the route does not match; None when it does."""
        for matcher in self.matchers:
            if not matcher.matches(labels):
                value = labels.get(matcher.name, "")
                return f"{matcher} does not match: {matcher.name} is {value!r}"
        if self.min_severity is Severity.CRITICAL and labels.get("severity") != Severity.CRITICAL:
            return "it takes critical alerts only"
        if self.active_hours is not None and not self.active_hours.cover(now):
            return f"outside its active hours, {self.active_hours}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Silences the alerts that all *matchers* match, for a while."""

    silence_id: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    author: str
    comment: str

    def covers(self, labels: Labels, now: datetime) -> bool:
        """Return whether it silences such an alert now."""
        return self.starts_at <= now < self.ends_at and all_match(self.matchers, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A silence that recurs every week, from the routes file."""

    name: str
    matchers: tuple[Matcher, ...]
    hours: Hours

    @property
    def silence_id(self) -> str:
        """Its name in tables and messages."""
        return f"maintenance:{self.name}"[:64]

    @property
    def author(self) -> str:
        """Who set it."""
        return f"the maintenance window {self.name}"

    def covers(self, labels: Labels, now: datetime) -> bool:
        """Return whether it silences such an alert now."""
        return all_match(self.matchers, labels) and self.hours.cover(now)


#: What suppresses notifications, and changes nothing else.
SilenceRule = Silence | Maintenance


def silence_for(rules: Sequence[SilenceRule], labels: Labels, now: datetime) -> SilenceRule | None:
    """Return the first rule that silences such an alert now."""
    return next((rule for rule in rules if rule.covers(labels, now)), None)


@dataclass(frozen=True, slots=True)
class Recipient:
    """One address of a channel; ``address`` is empty when the channel has only one."""

    channel: str
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfig:
    """Routes, the addresses of each channel, maintenance windows, labels and rules."""

    routes: Sequence[Route]  #: in their order
    addresses: Mapping[str, tuple[str, ...]]  #: by channel
    maintenance: Sequence[Maintenance] = ()
    #: By app; a name may be a pattern such as ``support-*``, and later entries win.
    app_labels: Mapping[str, Labels] = field(default_factory=dict)
    group_wait_s: float = 0.0  #: a warning waits so long for others of its app
    rules: Sequence[ThresholdRule] = ()

    @classmethod
    def everyone(cls, recipients: Iterable[Recipient]) -> Self:
        """Make the configuration without routes: every recipient gets every alert."""
        addresses: dict[str, tuple[str, ...]] = {}
        for recipient in dict.fromkeys(recipients):
            known = addresses.get(recipient.channel, ())
            addresses[recipient.channel] = (*known, recipient.address)
        return cls(routes=[Route(name="default", channels=tuple(addresses))], addresses=addresses)

    def labels_of_app(self, app: str) -> dict[str, str]:
        """Return the labels that the routes file gives one app."""
        found: dict[str, str] = {}
        for pattern, labels in self.app_labels.items():
            if fnmatchcase(app, pattern):
                found |= labels
        return found

    def labels(self, verdict: Verdict, severity: Severity) -> dict[str, str]:
        """Return the labels of an alert about *verdict*; built-in names win."""
        return self.labels_of_app(verdict.app) | {
            "app": verdict.app,
            "metric": verdict.metric,
            "segment": verdict.segment,
            "window_s": str(verdict.window_s),
            "severity": severity.value,
            "judge": verdict.evaluator_version,
            "kind": "monitor" if verdict.metric.startswith(MONITOR_PREFIX) else "quality",
        }

    def explain(self, labels: Labels, now: datetime) -> Iterator[tuple[Route, str | None]]:
        """Yield the routes in turn, up to the deciding one, each with why it does not match."""
        for route in self.routes:
            refusal = route.refusal(labels, now)
            yield route, refusal
            if refusal is None and not route.goes_on:
                return

    def recipients(self, labels: Labels, now: datetime) -> dict[Recipient, str | None]:
        """Return everyone to notify of such an alert now, each with its fallback channel."""
        found: dict[Recipient, str | None] = {}
        for route, refusal in self.explain(labels, now):
            for channel in route.channels if refusal is None else ():
                fallback = route.fallback if route.fallback != channel else None
                for address in self.addresses.get(channel, ()):
                    found.setdefault(Recipient(channel, address), fallback)
        return found
