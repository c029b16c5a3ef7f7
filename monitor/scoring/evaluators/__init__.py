"""The metrics that ship, a family a module: what each needs, and how it is scored."""

from monitor.scoring.base import Evaluator
from monitor.scoring.declaration import JudgementMetric, Metric
from monitor.scoring.evaluators import (
    agent,
    asked_context,
    asked_quality,
    citations,
    combined,
    consistency,
    evidence,
    grounding,
    length,
    rejection,
    retrieval,
    safety,
    shared,
)

#: Every metric by its name, in the order of the manual; settings, tables and alerts use the name.
METRICS: dict[str, Metric] = {
    metric.declaration.name: metric
    for family in (
        shared,
        grounding,
        asked_context,
        retrieval,
        citations,
        evidence,
        rejection,
        asked_quality,
        safety,
        length,
        agent,
        consistency,
        combined,
    )
    for metric in family.METRICS
}
#: Those that are read out of the one judgement that all of them share.
EVALUATORS: dict[str, Evaluator] = {
    name: metric for name, metric in METRICS.items() if isinstance(metric, JudgementMetric)
}
