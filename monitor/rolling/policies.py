"""
The policies: thresholds, the budget of false alarms, and which rule judges what.

A policy that compares the figures of a window is a function; `POLICIES` is the list. To add one,
write the function and name it there: the setting ``GROUNDWATCH_STATUS_POLICY`` takes it by that
name. The policies that collect evidence from look to look are named in `EVIDENCE_POLICIES`.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.format import percent, short_percent
from monitor.models import Status, StreamKey
from monitor.rolling.tallies import WindowStats
from monitor.settings import Settings

_DAY_S: Final = 86_400
_MONTH_S: Final = 30 * _DAY_S
#: Part of a stream's budget that pays for alarms about a fall from its own reference.
FALL_SHARE: Final = 0.85
#: One stream never gets more than this part of the project's budget, however few there are.
_MOST_OF_PROJECT: Final = 0.1
#: Fewer apps are no fleet: without the two loudest ones too little is left.
LEAST_APPS: Final = 4


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
class Rules(Thresholds):
    """
    What a stream is judged by.

    ``false_alarms_per_month`` is the budget of this one stream: the mean number of false alarms
    in 30 days, above 0. ``bucket_s`` is the width of a bucket in seconds. ``use_reference``
    switches the evidence of a fall from the stream's own reference.
    """

    bucket_s: int = 60
    false_alarms_per_month: float = 0.1
    use_reference: bool = True

    def log_threshold(self, share: float = 1.0) -> float:
        """Return the log evidence, counted in buckets, that *share* of the budget pays for."""
        return math.log(_MONTH_S / self.bucket_s / (self.false_alarms_per_month * share))

    @property
    def log_clear(self) -> float:
        """Return the log evidence of a recovery: a false one in a day, on average, at most."""
        return math.log(_DAY_S / self.bucket_s)


def thresholds_of(settings: Settings) -> Thresholds:
    """Return the thresholds that a pass rate must not fall below."""
    return Thresholds(
        warning_rate=settings.warning_rate,
        critical_rate=settings.critical_rate,
        min_n=settings.min_n,
    )


def rules_of(settings: Settings, *, keys: int, use_reference: bool = True) -> Rules:
    """Return what each stream is judged by, where so many *keys* share the budget."""
    return Rules(
        **asdict(thresholds_of(settings)),
        bucket_s=settings.windows.bucket_s,
        false_alarms_per_month=stream_budget(settings.false_alarms_per_month, roots=keys),
        use_reference=use_reference,
    )


def status_of(high: float, lines: Thresholds) -> Status:
    """Return the status that an upper bound of the pass rate stands for."""
    if high < lines.critical_rate:
        return Status.CRITICAL
    return Status.WARNING if high < lines.warning_rate else Status.HEALTHY


def stream_budget(false_alarms_per_month: float, *, roots: int) -> float:
    """
    Return the false alarms in 30 days that one of so many streams may raise (e-Bonferroni).

    All get the same, but none more than a tenth of the whole. The mean number of false alarms of
    all streams together keeps to the project's budget whatever the dependence between them, as
    means add up.

    Source: S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream sequential change
    detection" (2025), arXiv 2501.04130.

    >>> stream_budget(1.0, roots=1000)
    0.001
    """
    return false_alarms_per_month * min(_MOST_OF_PROJECT, 1.0 / max(1, roots))


def pools_of(
    apps: Collection[str], shared: Mapping[str, Collection[str]]
) -> dict[str, frozenset[str]]:
    """
    Return the apps of each pool of one evaluator: all, named "", and those that share more.

    *shared* names what each app uses, such as ``model=m2`` or ``release=v12``. Apps that are pooled
    already have no second pool, and fewer than `LEAST_APPS` have none.
    """
    found = {"": frozenset(apps)}
    for value in sorted({value for app in apps for value in shared.get(app, ())}):
        members = frozenset(app for app in apps if value in shared.get(app, ()))
        if members not in found.values():
            found[value] = members
    return {value: members for value, members in found.items() if len(members) >= LEAST_APPS}


def budget_keys(streams: Iterable[StreamKey], shared: Mapping[str, Collection[str]]) -> int:
    """Return how many keys share the budget: the streams, and the pools of those alike."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in streams:
        alike[key.metric, key.evaluator_version].append(key.app)
    return sum(len(apps) + len(pools_of(apps, shared)) for apps in alike.values())


Policy = Callable[[WindowStats, Thresholds], PolicyFinding]


def point(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """
    Compare the plain pass rate with the thresholds, whatever the size of the window.

    The simple threshold: unweighted, and insufficient only when empty.
    """
    if window.n == 0:
        return PolicyFinding(Status.INSUFFICIENT_DATA, nothing_scored(window))
    return _by_rate(window.passed / window.n, thresholds)


def point_min_n(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """Compare the weighted pass rate with the thresholds, once there are enough scores."""
    if window.pass_rate is None or window.n_effective < thresholds.min_n:
        return _too_few(window, thresholds)
    return _by_rate(window.pass_rate, thresholds)


def wilson(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    """Call a rate low only when the whole 90 % interval lies below the threshold."""
    if window.interval is None or window.n_effective < thresholds.min_n:
        return _too_few(window, thresholds)
    what = "upper bound of the pass rate (90 % interval)"
    return _by_rate(window.interval.high, thresholds, what=what)


POLICIES: Mapping[str, Policy] = {"point": point, "point_min_n": point_min_n, "wilson": wilson}


def _by_rate(rate: float, thresholds: Thresholds, what: str = "pass rate") -> PolicyFinding:
    status = status_of(rate, thresholds)
    critical = status is Status.CRITICAL
    line = thresholds.critical_rate if critical else thresholds.warning_rate
    where = "is not below" if status is Status.HEALTHY else "is below"
    name = "critical" if critical else "warning"
    reason = f"{what} {percent(rate)} {where} the {short_percent(line)} {name} threshold"
    return PolicyFinding(status, reason)


def _too_few(window: WindowStats, thresholds: Thresholds) -> PolicyFinding:
    if window.n == 0:
        return PolicyFinding(Status.INSUFFICIENT_DATA, nothing_scored(window))
    missing = max(1, round(thresholds.min_n - window.n_effective))
    reason = f"{window.n} scores in the window, about {missing} more needed"
    return PolicyFinding(Status.INSUFFICIENT_DATA, reason)


def nothing_scored(window: WindowStats) -> str:
    """Return how many samples of a window without scores failed, and how many were skipped."""
    without = {"failed": window.failed, "skipped": window.skipped}
    said = " and ".join(f"{n:,} {how}" for how, n in without.items() if n)
    return "no scores in the window" + (f": {said}" if said else "")


_GROUP: Final = "groundwatch.policies"
_SETTING: Final = "GROUNDWATCH_STATUS_POLICIES"


class EvidencePolicy(NamedTuple):
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

    Raise SettingsError if there is none of that name; the message lists those that exist.
    """
    built_in = EVIDENCE_POLICIES.get(name) or POLICIES.get(name)
    if built_in is not None:
        return built_in
    published = [*entry_points(group=_GROUP, name=name)]
    if not published and not (":" in name or "." in name):
        known = [*EVIDENCE_POLICIES, *POLICIES, *sorted(e.name for e in entry_points(group=_GROUP))]
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: no policy {name!r}; there are {', '.join(known)},"
            " and package.module:function names one of your own"
        )
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    try:
        found = (
            published[0].load() if published
            else getattr(importlib.import_module(module), attribute)
        )  # fmt: skip
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: cannot import the policy {name!r}: {error}"
        ) from error
    if not callable(found):
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: {name!r} is not a function of a window and thresholds"
        )
    policy: Policy = found
    return policy


class PolicyRule(BaseModel):
    """Another policy for the apps and metrics that fit; what is not named fits all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str = Field(min_length=1)
    app: str | None = None
    metric: str | None = None


_RULES: Final = TypeAdapter(tuple[PolicyRule, ...])


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """The policy of each app and metric: the first rule that fits, else the usual one."""

    usual: str = "anytime"
    rules: tuple[PolicyRule, ...] = ()

    @classmethod
    def parse(cls, usual: str, rules: str | None = None) -> PolicyChoice:
        """
        Read the settings: the name of the usual policy, and rules as JSON.

        Raise SettingsError if the JSON is wrong or a policy that they name does not exist.
        """
        try:
            choice = cls(usual, _RULES.validate_json(rules) if rules else ())
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise SettingsError(
                f"{_SETTING}: {where + ': ' if where else ''}{own_words(problem['msg'])};"
                ' write [{"app": "shop", "metric": "relevance", "policy": "wilson"}]'
            ) from None
        for name in (usual, *(rule.policy for rule in choice.rules)):
            find_policy(name)
        return choice

    def of(self, app: str, metric: str) -> str:
        """Return the name of the policy of an app and metric."""
        for rule in self.rules:
            if rule.app in (None, app) and rule.metric in (None, metric):
                return rule.policy
        return self.usual


def policies_of(settings: Settings) -> PolicyChoice:
    """Return the policy of each app and metric; raise SettingsError if one does not exist."""
    return PolicyChoice.parse(settings.status_policy, settings.status_rules.status_policies)
