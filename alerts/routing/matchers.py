"""Labels of an alert, and the matchers that pick alerts by them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Self

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
