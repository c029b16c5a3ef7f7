"""Overall scores, made of the scores of other metrics."""

from __future__ import annotations

from monitor.scoring.declaration import Combined, Cost, Declaration, Metric
from monitor.scoring.metrics import weighted


def _combined(
    name: str, what: str, weights: dict[str, float], source: str, *, renormalise: bool = False
) -> Combined:
    formula = " + ".join(f"{weight:.3g} {part}" for part, weight in weights.items())
    return Combined(
        Declaration(
            name=name,
            what=what,
            formula=formula + (", over the weights of those with a score" if renormalise else ""),
            requires=(),
            source=source,
            backend="combined",
            cost=Cost.JUDGE,
            skips=("part_missing",),
        ),
        weights,
        renormalise,
    )


def _equal(*parts: str) -> dict[str, float]:
    return dict.fromkeys(parts, round(1 / len(parts), 6))


METRICS: tuple[Metric, ...] = (
    _combined(
        "rag_overall_score",
        "Quality of a RAG answer; hallucination and bias count as 1 minus their score.",
        weighted.RAG_WEIGHTS,
        "seed 001, DeepEval Metrics, Overall Score",
    ),
    _combined(
        "agent_overall_score",
        "Efficiency of an agent.",
        weighted.AGENT_WEIGHTS,
        "seed 001, Agent Efficiency Metrics, Overall Score",
    ),
    _combined(
        "judge_overall_score",
        "The LLM judge's dimensions in one; the document names no weights, so they are equal.",
        _equal(
            "accuracy_score",
            "completeness_score",
            "consistency_score",
            "actionability_score",
            "data_utilization_score",
        ),
        "seed 001, LLM Judge Metrics",
    ),
    _combined(
        "unified_accuracy",
        "Accuracy over all frameworks; hallucination counts as 1 minus its score.",
        _equal("faithfulness", "hallucination", "answer_relevancy", "factual_accuracy"),
        "seed 001, Unified Metrics (equal weights: ours)",
        renormalise=True,
    ),
    _combined(
        "unified_consistency",
        "Consistency over runs and models.",
        _equal(
            "overall_consistency",
            "cross_model_agreement",
            "risk_level_agreement",
            "semantic_similarity",
        ),
        "seed 001, Unified Metrics (equal weights: ours)",
        renormalise=True,
    ),
    _combined(
        "unified_agent_efficiency",
        "Efficiency of an agent, as part of the whole.",
        {"agent_overall_score": 1.0},
        "seed 001, Unified Metrics",
    ),
    _combined(
        "overall_quality_score",
        "Accuracy, consistency and efficiency in one.",
        weighted.UNIFIED_WEIGHTS,
        "seed 001, Overall Quality Score",
    ),
    _combined(
        "rubric_overall_score",
        "The five-dimension rubric in one.",
        weighted.RUBRIC_WEIGHTS,
        "seed 000, Rubric Implementation",
        renormalise=True,
    ),
)
