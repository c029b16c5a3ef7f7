"""
Named rules that turn the figures of a window into a status, and which rule judges what.

A policy is a function; `POLICIES` is the list. To add one, write the function and name it there:
the setting ``GROUNDWATCH_STATUS_POLICY`` takes it by that name. The policies that collect evidence
from look to look are named in `EVIDENCE_POLICIES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models import Status
from monitor.rolling.windows import WindowStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The pass rates, in [0, 1], below which things are not well, and the size needed to say so."""

    warning_rate: float = 0.85
    critical_rate: float = 0.70
    min_n: int = 30


class PolicyFinding(NamedTuple):
    """A status and why."""

    status: Status
    reason: str


Policy = Callable[[WindowStats, Thresholds], PolicyFinding]


def point(window: WindowStats, lines: Thresholds) -> PolicyFinding:
    """
    Compare the plain pass rate with the lines, whatever the size of the window.

    The plain rule: unweighted, and insufficient only when empty.
    """
    if window.n == 0:
        return _nothing_scored(window)
    return _by_rate(window.passed / window.n, lines)


def point_min_n(window: WindowStats, lines: Thresholds) -> PolicyFinding:
    """Compare the weighted pass rate with the lines, once there are enough scores."""
    if window.pass_rate is None:
        return _nothing_scored(window)
    if window.n_effective < lines.min_n:
        return _too_few(window, lines)
    return _by_rate(window.pass_rate, lines)


def wilson(window: WindowStats, lines: Thresholds) -> PolicyFinding:
    """Call a rate low only when the whole 95 % interval lies below the line."""
    if window.interval is None:
        return _nothing_scored(window)
    if window.n_effective < lines.min_n:
        return _too_few(window, lines)
    return _by_rate(window.interval.high, lines, what="upper bound of the pass rate")


POLICIES: Mapping[str, Policy] = {"point": point, "point_min_n": point_min_n, "wilson": wilson}


def _by_rate(rate: float, lines: Thresholds, what: str = "pass rate") -> PolicyFinding:
    if rate < lines.critical_rate:
        return PolicyFinding(
            Status.CRITICAL, f"{what} {rate:.3f} is below the critical line {lines.critical_rate:g}"
        )
    if rate < lines.warning_rate:
        return PolicyFinding(
            Status.WARNING, f"{what} {rate:.3f} is below the warning line {lines.warning_rate:g}"
        )
    return PolicyFinding(
        Status.HEALTHY, f"{what} {rate:.3f} is at or above the warning line {lines.warning_rate:g}"
    )


def _too_few(window: WindowStats, lines: Thresholds) -> PolicyFinding:
    missing = max(1, round(lines.min_n - window.n_effective))
    return PolicyFinding(
        Status.INSUFFICIENT_DATA,
        f"{window.n} scores in the window, about {missing} more needed",
    )


def _nothing_scored(window: WindowStats) -> PolicyFinding:
    if window.skipped:
        return PolicyFinding(
            Status.INSUFFICIENT_DATA, f"nothing to judge: all {window.skipped} were skipped"
        )
    return PolicyFinding(Status.INSUFFICIENT_DATA, "no scores in the window")


_GROUP: Final = "groundwatch.policies"
_SETTING: Final = "GROUNDWATCH_STATUS_POLICIES"


@dataclass(frozen=True, slots=True)
class EvidencePolicy:
    """A policy that collects evidence from look to look instead of looking at a window."""

    use_reference: bool  #: also alarm on a fall from the stream's own reference


EVIDENCE_POLICIES: Final = {
    "anytime": EvidencePolicy(use_reference=True),
    "anytime_strict": EvidencePolicy(use_reference=False),
}


@cache
def find_policy(name: str) -> Policy | EvidencePolicy:
    """
    Find a policy: a built-in one, one of the entry points, or ``package.module:function``.

    Raises
    ------
    SettingsError
        If there is none of that name; the message lists those that exist.
    """
    built_in = EVIDENCE_POLICIES.get(name) or POLICIES.get(name)
    if built_in is not None:
        return built_in
    for entry in entry_points(group=_GROUP, name=name):
        return _a_function(name, _imported(name, entry.load))
    if ":" in name or "." in name:
        return _a_function(name, _imported(name, lambda: _by_dotted_name(name)))
    known = [*EVIDENCE_POLICIES, *POLICIES, *sorted(e.name for e in entry_points(group=_GROUP))]
    raise SettingsError(
        f"GROUNDWATCH_STATUS_POLICY: no policy {name!r}; there are {', '.join(known)},"
        " and package.module:function names one of your own"
    )


class PolicyRule(BaseModel):
    """Another policy for the apps and metrics that fit; what is not named fits all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str = Field(min_length=1)
    app: str | None = None
    metric: str | None = None

    def fits(self, app: str, metric: str) -> bool:
        """Say whether the rule speaks of this app and metric."""
        return self.app in (None, app) and self.metric in (None, metric)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """The policy of each app and metric: the first rule that fits, else the usual one."""

    usual: str = "anytime"
    rules: tuple[PolicyRule, ...] = ()

    @classmethod
    def parse(cls, usual: str, rules: str | None = None) -> PolicyChoice:
        """
        Read the settings, and find every policy that they name.

        Parameters
        ----------
        usual
            Name of the policy for all that no rule speaks of.
        rules
            JSON, such as ``[{"app": "shop", "metric": "relevance", "policy": "wilson"}]``.

        Raises
        ------
        SettingsError
            If the JSON is wrong or a policy does not exist.
        """
        choice = cls(usual, tuple(_parsed(rules)) if rules else ())
        for name in (usual, *(rule.policy for rule in choice.rules)):
            find_policy(name)
        return choice

    def of(self, app: str, metric: str) -> str:
        """Name the policy of an app and metric."""
        fitting = (rule.policy for rule in self.rules if rule.fits(app, metric))
        return next(fitting, self.usual)


def _parsed(rules: str) -> Sequence[PolicyRule]:
    try:
        return TypeAdapter(list[PolicyRule]).validate_json(rules)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise SettingsError(
            f"{_SETTING}: {where + ': ' if where else ''}{own_words(problem['msg'])};"
            ' write [{"app": "shop", "metric": "relevance", "policy": "wilson"}]'
        ) from None


def _imported(name: str, load: Any) -> Any:
    try:
        return load()
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: cannot import the policy {name!r}: {error}"
        ) from error


def _by_dotted_name(name: str) -> Any:
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _a_function(name: str, found: Any) -> Policy:
    if not callable(found):
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: {name!r} is no function of a window and lines"
        )
    policy: Policy = found
    return policy
