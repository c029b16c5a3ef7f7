"""The metrics that ship, a family a module: what each needs, how it is scored, and its formula."""

from monitor.scoring.declaration import Metric
from monitor.scoring.metrics import (
    agent,
    citations,
    consistency,
    evidence,
    groundedness,
    quality,
    reference,
    relevance,
    retrieval,
    safety,
)

#: Every metric by its name, in the order of the manual; settings, tables and alerts use the name.
METRICS: dict[str, Metric] = {
    metric.declaration.name: metric
    for metric in (
        groundedness.groundedness,
        relevance.relevance,  # the two that are scored by default
        *groundedness.METRICS,
        *relevance.METRICS,
        *retrieval.METRICS,
        *citations.METRICS,
        *evidence.METRICS,
        *reference.METRICS,
        *quality.METRICS,
        *safety.METRICS,
        *agent.METRICS,
        *consistency.METRICS,
    )
}
#: Metrics that have another name now.
RENAMED = {
    "risk_level_consistency": "level_consistency",
    "risk_level_agreement": "level_agreement",
    "credit_score_range": "score_range",
}


def metric_question(name: str) -> str:
    """Return what a person judges who labels this metric; '' for one that does not ship."""
    metric = METRICS.get(name)
    if metric is None:
        return ""
    what = metric.declaration.what
    return f"Judge: {what[:1].lower()}{what[1:]}"
