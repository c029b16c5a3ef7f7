"""The metrics that ship, a family a module: what each needs, how it is scored, and its formula."""

from dataclasses import replace

from monitor.scoring.declaration import Metric
from monitor.scoring.metrics import (
    agent,
    answers,
    citations,
    consistency,
    evidence,
    groundedness,
    quality,
    retrieval,
)

_FAMILIES = (groundedness, answers, retrieval, evidence, citations, quality, agent, consistency)
#: Every metric by its name, in the order of the manual; settings, tables and alerts use the name.
METRICS: dict[str, Metric] = {  # first the two that are scored by default
    "groundedness": groundedness.groundedness,
    "relevance": groundedness.relevance,
} | {
    metric.declaration.name: metric
    for family in _FAMILIES
    for metric in (*vars(family).values(), *getattr(family, "TABLES", ()))
    if isinstance(metric, Metric)
}
#: Second names of one number, kept for those who use them.
ALIASES = {"unified_agent_efficiency": "agent_overall_score"}
for _name, _of in ALIASES.items():
    _what = f"The same as `{_of}`, under the name it had in earlier releases."
    METRICS[_name] = replace(
        METRICS[_of], declaration=replace(METRICS[_of].declaration, name=_name, what=_what)
    )
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
