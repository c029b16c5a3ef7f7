"""
The policies: thresholds, the budget of false alarms, and which rule judges what.

A policy that compares the figures of a window is a function; `POLICIES` is the list. To add one,
write the function and name it there: the setting ``GROUNDWATCH_STATUS_POLICY`` takes it by that
name. The policies that collect evidence from look to look are named in `EVIDENCE_POLICIES`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models import Status
from monitor.rolling.tallies import WindowStats

_DAY_S: Final = 86_400
_MONTH_S: Final = 30 * _DAY_S
#: Part of a stream's budget that pays for alarms about a fall from its own reference.
FALL_SHARE: Final = 0.85
#: One stream never gets more than this part of the project's budget, however few there are.
_MOST_OF_PROJECT: Final = 0.1
#: Streams of segments together get this part, when there are any.
_SEGMENTS_SHARE: Final = 0.5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    What a stream is judged by.

    ``false_alarms_per_month`` is the budget of this one stream: the mean number of false alarms
    in 30 days, above 0. Rates are in [0, 1]; ``bucket_s`` is the width of a bucket in seconds.
    ``use_reference`` switches the evidence of a fall from the stream's own reference.
    """

    warning_rate: float = 0.85
    critical_rate: float = 0.70
    min_n: int = 30
    bucket_s: int = 60
    false_alarms_per_month: float = 0.1
    use_reference: bool = True

    def log_threshold(self, share: float = 1.0) -> float:
        """Give the log evidence, counted in buckets, that *share* of the budget pays for."""
        return math.log(_MONTH_S / self.bucket_s / (self.false_alarms_per_month * share))

    @property
    def log_clear(self) -> float:
        """Give the log evidence of a recovery: a false one in a day, on average, at most."""
        return math.log(_DAY_S / self.bucket_s)


def status_of(high: float, rules: Rules) -> Status:
    """Return the status that an upper bound of the pass rate stands for."""
    if high < rules.critical_rate:
        return Status.CRITICAL
    return Status.WARNING if high < rules.warning_rate else Status.HEALTHY


def stream_budget(
    false_alarms_per_month: float, *, roots: int, segments: int = 0, is_root: bool = True
) -> float:
    """
    Share a project's budget among its streams (weighted e-Bonferroni).

    Half is for segments when there are any; within each half all get the same, but no stream
    more than a tenth of the whole. The mean number of false alarms of all streams together
    keeps to the budget whatever the dependence between them, as means add up.

    Parameters
    ----------
    false_alarms_per_month
        Of the whole project in 30 days, above 0.
    roots, segments
        How many streams there are of each sort.
    is_root
        Of which sort this stream is.

    Returns
    -------
    float
        The stream's own false alarms in 30 days.

    References
    ----------
    .. [1] S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream sequential change
       detection" (2025), arXiv 2501.04130.

    Examples
    --------
    >>> stream_budget(1.0, roots=1000)
    0.001
    """
    part = 1.0 if not segments else (1.0 - _SEGMENTS_SHARE if is_root else _SEGMENTS_SHARE)
    weight = part / max(1, roots if is_root else segments)
    return false_alarms_per_month * min(_MOST_OF_PROJECT, weight)


Policy = Callable[[WindowStats, Thresholds], PolicyFinding]


def point(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """
    Compare the plain pass rate with the thresholds, whatever the size of the window.

    The plain rule: unweighted, and insufficient only when empty.
    """
    if window.n == 0:
        return _nothing_scored(window)
    return _by_rate(window.passed / window.n, thresholds)


def point_min_n(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """Compare the weighted pass rate with the thresholds, once there are enough scores."""
    if window.pass_rate is None:
        return _nothing_scored(window)
    if window.n_effective < thresholds.min_n:
        return _too_few(window, thresholds)
    return _by_rate(window.pass_rate, thresholds)


def wilson(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """Call a rate low only when the whole 95 % interval lies below the threshold."""
    if window.interval is None:
        return _nothing_scored(window)
    if window.n_effective < thresholds.min_n:
        return _too_few(window, thresholds)
    return _by_rate(window.interval.high, thresholds, what="upper bound of the pass rate")


POLICIES: Mapping[str, Policy] = {"point": point, "point_min_n": point_min_n, "wilson": wilson}


def _by_rate(rate: float, thresholds: Thresholds, what: str = "pass rate") -> PolicyFinding:
    figure = f"{what} {100 * rate:.1f} %"
    warning, critical = (
        f"{100 * line:.4g} %" for line in (thresholds.warning_rate, thresholds.critical_rate)
    )
    if rate < thresholds.critical_rate:
        reason = f"{figure} is below the {critical} critical threshold"
        return PolicyFinding(Status.CRITICAL, reason)
    if rate < thresholds.warning_rate:
        return PolicyFinding(Status.WARNING, f"{figure} is below the {warning} warning threshold")
    return PolicyFinding(Status.HEALTHY, f"{figure} is not below the {warning} warning threshold")


def _too_few(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    missing = max(1, round(thresholds.min_n - window.n_effective))
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
            f"GROUNDWATCH_STATUS_POLICY: {name!r} is no function of a window and thresholds"
        )
    policy: Policy = found
    return policy
