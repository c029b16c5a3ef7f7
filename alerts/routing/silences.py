"""Silences and maintenance windows: they hold messages back, and change nothing else; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from alerts.routing.hours import Hours
from alerts.routing.matchers import Labels, Matcher, all_match


class Hush(Protocol):
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


def hush_for(hushes: Sequence[Hush], labels: Labels, now: datetime) -> Hush | None:
    """Find the first that holds back messages about such an alert now."""
    return next((hush for hush in hushes if hush.covers(labels, now)), None)
