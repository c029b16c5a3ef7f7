"""Scores made of scores: weights, what to do with missing ones, and the seeds' own overalls."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

#: Seed 001, "DeepEval Metrics": hallucination and bias count as 1 minus their score.
RAG_WEIGHTS = {
    "answer_relevancy": 0.25,
    "faithfulness": 0.30,
    "hallucination": 0.25,
    "contextual_relevancy": 0.10,
    "bias": 0.10,
}
#: Seed 001, "OpenEvals / AgentEvals Metrics".
AGENT_WEIGHTS = {
    "intent_correctness": 0.15,
    "plan_quality": 0.15,
    "tool_choice_correctness": 0.20,
    "tool_completeness": 0.15,
    "trajectory_match": 0.15,
    "final_answer_quality": 0.20,
}
#: Seed 001, "Unified Metrics".
UNIFIED_WEIGHTS = {
    "unified_accuracy": 0.35,
    "unified_consistency": 0.25,
    "unified_agent_efficiency": 0.40,
}
#: Seed 000, "Rubric Implementation".
RUBRIC_WEIGHTS = {
    "factual_accuracy": 0.30,
    "completeness": 0.25,
    "citation_accuracy": 0.15,
    "source_quality": 0.10,
    "tool_efficiency": 0.20,
}


def weighted_average(
    scores: Mapping[str, float], weights: Mapping[str, float], lower: Collection[str] = ()
) -> float | None:
    """
    Average the scores that have a weight; None when none has one above 0.

    Weights of scores that are missing are left out and the others count for the whole, as
    in seed 000's ``calculate_overall_score`` (which gives 0 where this gives None: no
    score is not a bad score). Those in *lower* are better when lower and count as 1 minus
    themselves, as in seed 001.
    """
    known = {name: weight for name, weight in weights.items() if name in scores and weight > 0}
    total = math.fsum(known.values())
    if not total:
        return None
    good = {name: 1 - scores[name] if name in lower else scores[name] for name in known}
    return math.fsum(good[name] * weight for name, weight in known.items()) / total


def simple_average(scores: Mapping[str, float], lower: Collection[str] = ()) -> float | None:
    """Average with equal weights; None for nothing."""
    return weighted_average(scores, dict.fromkeys(scores, 1.0), lower)


def minimum(scores: Mapping[str, float], lower: Collection[str] = ()) -> float | None:
    """Take the worst score, turned so that higher is better; None for nothing."""
    good = (1 - value if name in lower else value for name, value in scores.items())
    return min(good, default=None)
