"""Groundedness and relevance as the registry lists them; their files say how they are read."""

from __future__ import annotations

from monitor.scoring.declaration import Cost, Declaration, JudgementMetric, Metric
from monitor.scoring.evaluators.groundedness import Groundedness
from monitor.scoring.evaluators.relevance import Relevance

_BACKEND = "local scorer or judge, in the shared call"
_GROUNDEDNESS, _RELEVANCE = Groundedness(), Relevance()

METRICS: tuple[Metric, ...] = (
    JudgementMetric(
        Declaration(
            name="groundedness",
            what="Whether the passages support what the answer states.",
            formula="calibrated probability for the whole answer (local); mean support of its"
            " statements (judge)",
            requires=("output", "contexts"),
            source="seed 002, Grounding Score (deepset)",
            backend=_BACKEND,
            cost=Cost.JUDGE,
            skips=("no_claim", "unsupported_text"),
        ),
        lambda judgement, _, __: _GROUNDEDNESS.evaluate(judgement),
    ),
    JudgementMetric(
        Declaration(
            name="relevance",
            what="Whether the answer answers the query.",
            formula="calibrated probability (local); yes 1, partly 0.5, no 0 (judge)",
            requires=("output", "query"),
            source="seed 002, RAG Triad",
            backend=_BACKEND,
            cost=Cost.JUDGE,
            skips=("unsupported_text", "nothing_asked"),
        ),
        lambda judgement, _, __: _RELEVANCE.evaluate(judgement),
    ),
)
