"""The metrics that ship, a family a module: what each needs, and how it is scored."""

from monitor.scoring.declaration import Metric
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
