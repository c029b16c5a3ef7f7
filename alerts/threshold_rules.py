"""Alert rules beside the statuses: a figure of a metric, a threshold, how long; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from monitor.models.alerting import Severity
from monitor.models.status import Status, Verdict

#: The metrics of alerts that come from rules begin so; no evaluator may.
RULE_PREFIX = "rule:"
_WORSE = (
    Status.INSUFFICIENT_DATA,
    Status.HEALTHY,
    Status.BLIND,
    Status.WARNING,
    Status.CRITICAL,
)
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
    severity: Severity = Severity.CRITICAL
    min_n: int = 30

    def judge(self, verdict: Verdict) -> Verdict:
        """Return the verdict of this rule on the data behind *verdict*."""
        n = verdict.window_n
        value = verdict.window_pass_rate if self.of == "pass_rate" else verdict.average_score
        if self.of == "error_rate":
            n = verdict.window_n + verdict.n_failed
            value = verdict.n_failed / n if n else None
        status, reason = Status.INSUFFICIENT_DATA, f"{n} of {self.min_n} needed"
        if verdict.status is Status.BLIND:
            status, reason = Status.BLIND, verdict.reason
        elif value is not None and n >= self.min_n:
            too_low = self.below is not None and value < self.below
            too_high = self.above is not None and value > self.above
            status = Status(self.severity.value) if too_low or too_high else Status.HEALTHY
            reason = f"{self.of.replace('_', ' ')} {value:.3f}; the rule: {self.threshold}"
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

    @property
    def threshold(self) -> str:
        """The threshold in words."""
        return f"below {self.below:g}" if self.below is not None else f"above {self.above:g}"


#: Named sets of rules.
RULE_SETS: Mapping[str, tuple[ThresholdRule, ...]] = {
    "rag": (
        ThresholdRule(name="faithfulness", metric="faithfulness", below=0.85),
        ThresholdRule(name="groundedness", metric="groundedness", below=0.80, for_s=3600),
        ThresholdRule(name="retrieval_precision", metric="context_precision", below=0.5),
        ThresholdRule(name="errors", metric="*", of="error_rate", above=0.05),
    ),
}


def judge_all(verdicts: Iterable[Verdict], rules: Sequence[ThresholdRule]) -> list[Verdict]:
    """Apply the rules: one verdict an app, rule and window, of the metric that breaks it most."""
    found: dict[tuple[str, str, str, int], Verdict] = {}
    for verdict in verdicts:
        for rule in rules:
            if rule.metric in {"*", verdict.metric} and not verdict.metric.startswith("monitor:"):
                judged = rule.judge(verdict)
                key = (judged.app, judged.metric, judged.segment, judged.window_s)
                if key not in found or _WORSE.index(judged.status) > _WORSE.index(
                    found[key].status
                ):
                    found[key] = judged
    return list(found.values())
