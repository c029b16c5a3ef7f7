"""Rules of one's own beside the statuses: a figure of a metric, a threshold, how long; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from monitor.models.alerting import Level
from monitor.models.status import Status, Verdict

#: The metrics of alerts that come from rules begin so; no evaluator may.
RULE_PREFIX = "rule:"
Figure = Literal["average_score", "pass_rate", "error_rate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule:
    """
    An alert when a figure of a metric is below (or above) a threshold.

    It compares the value itself, as written, whatever the policy of statuses says: a
    metric that lives on its threshold crosses it all the time, so give it time to hold.
    """

    name: str
    metric: str  #: "*" for every metric
    of: Figure = "average_score"
    below: float | None = None
    above: float | None = None
    for_s: float = 0.0
    level: Level = Level.CRITICAL
    min_n: int = 30

    def judge(self, verdict: Verdict) -> Verdict:
        """Say what the rule says of the data behind *verdict*."""
        value, n = _value(verdict, self.of)
        status, reason = Status.INSUFFICIENT_DATA, f"{n} of {self.min_n} needed"
        if verdict.status is Status.BLIND:
            status, reason = Status.BLIND, verdict.reason
        elif value is not None and n >= self.min_n:
            status = Status(self.level.value) if self._breaks(value) else Status.HEALTHY
            reason = f"{self.of.replace('_', ' ')} {value:.3f}; the rule: {self.line}"
        changes = {
            "metric": f"{RULE_PREFIX}{self.name}",
            "policy": "rule",
            "status": status,
            "reason": f"{verdict.metric}: {reason}",
            "since": verdict.evaluated_at,
            # A plain comparison: its hold is time.
            "evidence": None,
        }
        return verdict.model_copy(update=changes)

    def _breaks(self, value: float) -> bool:
        too_low = self.below is not None and value < self.below
        return too_low or (self.above is not None and value > self.above)

    @property
    def line(self) -> str:
        """Write the threshold."""
        return f"below {self.below:g}" if self.below is not None else f"above {self.above:g}"


#: Named sets of rules; a rule for a metric that nobody scores says nothing.
RULE_SETS: Mapping[str, tuple[ThresholdRule, ...]] = {
    "rag": (
        ThresholdRule(name="faithfulness", metric="faithfulness", below=0.85),
        ThresholdRule(name="groundedness", metric="groundedness", below=0.80, for_s=3600),
        ThresholdRule(name="retrieval_precision", metric="retrieval_precision", below=0.5),
        ThresholdRule(name="errors", metric="*", of="error_rate", above=0.05),
    ),
}


def judge_all(verdicts: Iterable[Verdict], rules: Sequence[ThresholdRule]) -> list[Verdict]:
    """Apply the rules: one verdict an app, rule and window, of the metric that breaks it first."""
    found: dict[tuple[str, str, str, int], Verdict] = {}
    for verdict in verdicts:
        for rule in rules:
            if rule.metric in {"*", verdict.metric} and not verdict.metric.startswith("monitor:"):
                judged = rule.judge(verdict)
                key = (judged.app, judged.metric, judged.segment, judged.window_s)
                if key not in found or _rank(judged) > _rank(found[key]):
                    found[key] = judged
    return list(found.values())


def hold_s(metric: str, rules: Sequence[ThresholdRule]) -> float | None:
    """Say for how long the rule of an alert must be broken; None when it comes from no rule."""
    name = metric.removeprefix(RULE_PREFIX)
    return next((rule.for_s for rule in rules if metric != name and rule.name == name), None)


def _rank(verdict: Verdict) -> int:
    order = (
        Status.INSUFFICIENT_DATA,
        Status.HEALTHY,
        Status.BLIND,
        Status.WARNING,
        Status.CRITICAL,
    )
    return order.index(verdict.status)


def _value(verdict: Verdict, figure: Figure) -> tuple[float | None, int]:
    if figure == "error_rate":
        tried = verdict.window_n + verdict.n_failed
        return (verdict.n_failed / tried if tried else None), tried
    value = verdict.average_score if figure == "average_score" else verdict.window_pass_rate
    return value, verdict.window_n
