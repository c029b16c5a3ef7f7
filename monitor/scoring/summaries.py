"""Several evaluations in one figure (seed 004): a target's summary, and how a set of them did."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

from monitor.models import (
    Evaluation,
    EvaluationStatus,
    MultiEvaluationResult,
    PerformanceSummary,
    QualitySummary,
)
from monitor.models.passing import Direction, PassRule
from monitor.scoring.metrics.weighted import minimum, simple_average, weighted_average

Method = Literal["weighted_average", "simple_average", "minimum", "custom"]
Custom = Callable[[Mapping[str, float]], float | None]
_HIGH, _MEDIUM = 0.8, 0.5
_LEAST_SHARED = 3
_PASS_SCORE = 0.7


def summarise(
    evaluations: Sequence[Evaluation],
    method: Method = "simple_average",
    *,
    weights: Mapping[str, float] | None = None,
    custom: Custom | None = None,
) -> MultiEvaluationResult:
    """
    Combine what several evaluators said of one target.

    Scores that are better when lower, as their criteria say, count as 1 minus themselves.
    Failed and skipped evaluations, categories and scores outside [0, 1] have no part in it.
    The document's example ([0.92, 0.88, 0.05] weighted 0.5, 0.3, 0.2) says 0.89: plain
    scores give 0.734 and with toxicity turned it is 0.914; the formula is followed.

    Parameters
    ----------
    evaluations
        At least one; all of the same target.
    method
        How to combine.
    weights
        For ``weighted_average``, by evaluator; those without a weight have no part in it.
    custom
        For ``custom``: takes the scores by evaluator, as they are.

    Raises
    ------
    ValueError
        If there are none, they are of several targets, or weights or function are missing.
    """
    targets = {each.target_event_id for each in evaluations}
    if len(targets) != 1:
        raise ValueError(f"a summary is of one target, not of {len(targets)}")
    if method == "weighted_average" and not weights:
        raise ValueError("a weighted average needs weights")
    if method == "custom" and custom is None:
        raise ValueError("a custom summary needs a function")
    scores = {each.evaluator_name: s for each in evaluations if (s := _number(each)) is not None}
    lower = {each.evaluator_name for each in evaluations if _is_lower(each)}
    return MultiEvaluationResult(
        target_event_id=targets.pop(),
        evaluations=list(evaluations),
        summary_score=_combined(scores, method, weights or {}, custom, lower),
        summary_method=method,
        weights=dict(weights) if weights else None,
    )


def _combined(
    scores: Mapping[str, float],
    method: Method,
    weights: Mapping[str, float],
    custom: Custom | None,
    lower: Collection[str],
) -> float | None:
    if method == "custom" and custom is not None:
        return custom(scores)
    if method == "weighted_average":
        return weighted_average(scores, weights, lower)
    return minimum(scores, lower) if method == "minimum" else simple_average(scores, lower)


def performance(evaluations: Iterable[Evaluation]) -> PerformanceSummary:
    """
    Count how a set of evaluations ran.

    Skipped and pending ones are neither successful nor failed: the rate is that of those
    that were tried, and None when none was. The 95th percentile is the nearest rank.
    """
    listed = list(evaluations)
    good = sum(each.status is EvaluationStatus.COMPLETED for each in listed)
    bad = sum(each.status is EvaluationStatus.FAILED for each in listed)
    took = sorted(each.duration_ms for each in listed if each.duration_ms is not None)
    return PerformanceSummary(
        total_evaluations=len(listed),
        successful_evaluations=good,
        failed_evaluations=bad,
        success_rate=good / (good + bad) if good + bad else None,
        average_duration_ms=math.fsum(took) / len(took) if took else None,
        p95_duration_ms=took[math.ceil(0.95 * len(took)) - 1] if took else None,
        total_cost_usd=math.fsum(each.cost_usd or 0.0 for each in listed),
    )


def agreement_and_confidence(
    evaluations: Iterable[Evaluation], pass_score: float = _PASS_SCORE
) -> QualitySummary:
    """
    Say how far evaluators agree; the document gives names and no formulas.

    Agreement is the share of pairs of evaluators, over all targets, that both pass or both
    fail. Correlation is Pearson's over at least three targets that both scored, left out
    where either does not vary; scores better when lower are turned first. Confidence is
    high from 0.8, medium from 0.5, of the evaluations that state one.
    """
    listed = list(evaluations)
    by_target: dict[str, dict[str, tuple[float, bool]]] = defaultdict(dict)
    for each in listed:
        score = _number(each)
        if score is not None:
            passed = PassRule.of(each, pass_score).passes(score)
            good = 1 - score if _is_lower(each) else score
            by_target[each.target_event_id][each.evaluator_name] = (good, passed)
    verdicts = [
        a[1] == b[1] for found in by_target.values() for a, b in combinations(found.values(), 2)
    ]
    return QualitySummary(
        evaluator_agreement=sum(verdicts) / len(verdicts) if verdicts else None,
        inter_evaluator_correlation=_correlations(by_target.values()),
        confidence_distribution=_confidences(listed),
    )


def _correlations(
    targets: Iterable[Mapping[str, tuple[float, bool]]],
) -> dict[str, float]:
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for found in targets:
        for a, b in combinations(sorted(found), 2):
            pairs[f"{a}_vs_{b}"].append((found[a][0], found[b][0]))
    values = {name: _pearson(shared) for name, shared in sorted(pairs.items())}
    return {name: value for name, value in values.items() if value is not None}


def _pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    if len(pairs) < _LEAST_SHARED:
        return None
    mean_x, mean_y = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    centred = [(x - mean_x, y - mean_y) for x, y in pairs]
    spread = math.sqrt(math.fsum(x * x for x, _ in centred) * math.fsum(y * y for _, y in centred))
    if spread < 1e-12:  # noqa: PLR2004 - nothing but rounding
        return None
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in centred) / spread))


def _confidences(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    stated = [each.confidence for each in evaluations if each.confidence is not None]
    if not stated:
        return {}
    high = sum(value >= _HIGH for value in stated)
    low = sum(value < _MEDIUM for value in stated)
    counts = {
        "high_confidence": high,
        "medium_confidence": len(stated) - high - low,
        "low_confidence": low,
    }
    return {name: count / len(stated) for name, count in counts.items()}


def _number(evaluation: Evaluation) -> float | None:
    score = evaluation.score
    if evaluation.status is not EvaluationStatus.COMPLETED or isinstance(score, str | None):
        return None
    return float(score) if 0 <= float(score) <= 1 else None


def _is_lower(evaluation: Evaluation) -> bool:
    return PassRule.of(evaluation, _PASS_SCORE).direction is Direction.LOWER
