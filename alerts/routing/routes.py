"""Routes: an ordered list, of which the first that matches says who hears of an alert; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from alerts.routing.hours import Hours
from alerts.routing.matchers import Labels, Matcher
from monitor.models.alerting import Level


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
