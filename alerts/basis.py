"""By what each verdict was judged, so that nothing is compared across a change of it; pure."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.evidence import Basis
from alerts.routing.matchers import MONITOR_PREFIX
from alerts.rules import Lines
from alerts.threshold_rules import RULE_PREFIX, ThresholdRule
from monitor.models.status import Verdict


def basis_of(verdict: Verdict, lines: Lines | None, rules: Sequence[ThresholdRule]) -> Basis | None:
    """Say by what *verdict* was judged; None of the monitor itself, whose rules are built in."""
    if verdict.metric.startswith(MONITOR_PREFIX):
        return None
    if not verdict.metric.startswith(RULE_PREFIX):
        threshold = "" if lines is None else lines.in_words()
        return Basis(
            evaluator=verdict.evaluator_version, policy=verdict.policy, threshold=threshold
        )
    name = verdict.metric.removeprefix(RULE_PREFIX)
    rule = next((rule for rule in rules if rule.name == name), None)
    if rule is None:
        return None
    # A rule for every metric looks at another one each time.
    evaluator = "" if rule.metric == "*" else verdict.evaluator_version
    return Basis(evaluator=evaluator, policy=rule.of, threshold=rule.line)


def what_changed(before: Basis | None, now: Basis | None) -> str:
    """Write what is another between two bases, for people."""
    if before is None or now is None:
        return ""
    return "; ".join(
        f"{name} changed from {old or 'unknown'} to {new or 'unknown'}"
        for name, old, new in before.differences(now)
    )
