"""
Evaluations outside the pipeline: run a batch, combine what several evaluators said of one
target, and summarise a set of evaluations.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from datetime import datetime
from itertools import combinations
from statistics import correlation, fmean
from threading import Thread
from typing import Literal

from monitor.errors import JudgeError
from monitor.models import (
    ErrorInfo,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    EvaluationStatus,
    Interaction,
    MultiEvaluationResult,
    PerformanceSummary,
    QualitySummary,
    RetryConfig,
    TemporalEvaluation,
)
from monitor.models.evaluation import Direction, PassRule
from monitor.retry import backoff_s
from monitor.scoring.base import Scorer
from monitor.scoring.measures import population_std, simple_average, weighted_average
from monitor.scoring.pipeline import failure
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.stats.summary import plain_trend

_THREADS = 8
_HIGH, _MEDIUM = 0.8, 0.5
_LEAST_SHARED = 3
_PASS_SCORE = 0.7
Method = Literal["weighted_average", "simple_average", "minimum", "custom"]


def run_batch(
    interactions: Sequence[Interaction],
    config: EvaluationConfig,
    settings: Settings,
    *,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> EvaluationBatch:
    """
    Evaluate interactions and return all records, in order, as one batch made at *now*.

    *config* names the evaluators and their parameters, and says whether several interactions are
    in work at a time, how long one of them is waited for, and how transient failures are retried,
    with *sleep* between tries. A thread cannot be stopped: an evaluation that is late is recorded
    as failed with the code ``timeout`` while its call runs on in the background.

    Raises
    ------
    SettingsError
        If an evaluator or a parameter is unknown.
    """
    wanted = settings.model_copy(update={"metrics": tuple(config.evaluators)})
    scorer = make_scorer(wanted, parameters=config.evaluator_configs)
    parallel = config.parallel_execution
    # One after the other, each has a thread of its own: behind one that hangs it would never begin.
    threads = max(scorer.concurrency, _THREADS) if parallel else max(1, len(interactions))
    timeout_s = None if config.timeout_ms is None else config.timeout_ms / 1000
    started = time.perf_counter()
    pool = ThreadPoolExecutor(threads, "groundwatch-batch")

    def end() -> None:
        pool.shutdown(cancel_futures=True)
        scorer.close()

    try:
        begun = (pool.submit(_with_retries, scorer, i, config, sleep) for i in interactions)
        found: list[Evaluation] = []
        for each, future in zip(interactions, list(begun) if parallel else begun, strict=True):
            try:
                found += future.result(timeout_s)
            except LateError:
                future.cancel()
                error = ErrorInfo(
                    type="TimeoutError",
                    message=f"no result within {config.timeout_ms} ms",
                    code="timeout",
                )
                found += [
                    Evaluation.failed(target_event_id=each.id, evaluator_name=name, error=error)
                    for name in config.evaluators
                ]
    finally:
        if timeout_s is None:
            end()
        else:  # what is late still runs, and must not hold the caller
            Thread(target=end, daemon=True, name="groundwatch-batch-end").start()
    failed = found and all(each.status is EvaluationStatus.FAILED for each in found)
    return EvaluationBatch(
        batch_id=f"batch_{uuid.uuid4()}",
        evaluations=found,
        batch_metadata={
            "batch_size": len(interactions),
            "created_at": now.isoformat(),
            "evaluator_versions": {e.evaluator_name: e.evaluator_version for e in found},
            "processing_time_ms": (time.perf_counter() - started) * 1000,
        },
        status="failed" if failed else "completed",
    )


def _with_retries(
    scorer: Scorer,
    interaction: Interaction,
    config: EvaluationConfig,
    sleep: Callable[[float], None],
) -> tuple[Evaluation, ...]:
    """Score; transient failures are retried after a growing wait."""

    def transient(each: Evaluation) -> bool:
        return each.error is not None and bool(each.error.context.get("transient"))

    def score() -> tuple[Evaluation, ...]:
        try:
            return scorer.score(interaction)
        except JudgeError as error:  # a judge that is away fails all: there is no later here
            fields = {"target_event_id": interaction.id}
            return tuple(
                failure(error, fields | {"evaluator_name": name}, shared_by=len(config.evaluators))
                for name in config.evaluators
            )

    retry = config.retry_config or RetryConfig(max_retries=0)
    found, first_s = score(), retry.initial_delay_ms / 1000
    for tried in range(1, retry.max_retries + 1):
        if not any(transient(each) for each in found):
            break
        # No jitter: the waits are those that the caller named.
        factor = retry.backoff_multiplier
        sleep(backoff_s(tried, first_s=first_s, longest_s=math.inf, factor=factor, uniform=max))
        found = tuple(
            new if transient(old) else old for old, new in zip(found, score(), strict=True)
        )
    return found


def summarise(
    evaluations: Sequence[Evaluation],
    method: Method = "simple_average",
    *,
    weights: Mapping[str, float] | None = None,
    custom: Callable[[Mapping[str, float]], float | None] | None = None,
) -> MultiEvaluationResult:
    """
    Combine what several evaluators said of one target.

    Scores that are better when lower, as their criteria say, count as 1 minus themselves.
    Failed and skipped evaluations, categories and scores outside [0, 1] are left out, and of a
    weighted average those without a weight. *custom* takes the scores by evaluator, as they are.

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
    scores = {each.evaluator_name: s for each in evaluations if (s := _number(each)) is not None}
    lower = {each.evaluator_name for each in evaluations if _is_lower(each)}
    if method == "custom":
        if custom is None:
            raise ValueError("a custom summary needs a function")
        combined = custom(scores)
    elif method == "weighted_average":
        combined = weighted_average(scores, weights or {}, lower)
    elif method == "minimum":
        good = (1 - value if name in lower else value for name, value in scores.items())
        combined = min(good, default=None)
    else:
        combined = simple_average(scores, lower)
    return MultiEvaluationResult(
        target_event_id=targets.pop(),
        evaluations=list(evaluations),
        summary_score=combined,
        summary_method=method,
        weights=dict(weights) if weights else None,
    )


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
        average_duration_ms=fmean(took) if took else None,
        p95_duration_ms=took[math.ceil(0.95 * len(took)) - 1] if took else None,
        total_cost_usd=math.fsum(each.cost_usd or 0.0 for each in listed),
    )


def agreement_and_confidence(
    evaluations: Iterable[Evaluation], pass_score: float = _PASS_SCORE
) -> QualitySummary:
    """
    Return how far evaluators agree.

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
    verdicts: list[bool] = []
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for found in by_target.values():
        for a, b in combinations(sorted(found), 2):
            verdicts.append(found[a][1] == found[b][1])
            pairs[f"{a}_vs_{b}"].append((found[a][0], found[b][0]))
    correlations = {}
    for name, shared in sorted(pairs.items()):
        columns = [list(column) for column in zip(*shared, strict=True)]
        varies = all(population_std(column) > 1e-9 for column in columns)  # noqa: PLR2004 - rounding
        if len(shared) >= _LEAST_SHARED and varies:
            correlations[name] = max(-1.0, min(1.0, correlation(*columns)))
    stated = [each.confidence for each in listed if each.confidence is not None]
    high = sum(value >= _HIGH for value in stated)
    low = sum(value < _MEDIUM for value in stated)
    counts = {
        "high_confidence": high,
        "medium_confidence": len(stated) - high - low,
        "low_confidence": low,
    }
    return QualitySummary(
        evaluator_agreement=sum(verdicts) / len(verdicts) if verdicts else None,
        inter_evaluator_correlation=correlations,
        confidence_distribution={k: n / len(stated) for k, n in counts.items()} if stated else {},
    )


def _number(evaluation: Evaluation) -> float | None:
    score = evaluation.score
    if evaluation.status is not EvaluationStatus.COMPLETED or isinstance(score, str | None):
        return None
    return float(score) if 0 <= float(score) <= 1 else None


def _is_lower(evaluation: Evaluation) -> bool:
    return PassRule.of(evaluation, _PASS_SCORE).direction is Direction.LOWER


def temporal_evaluation(
    scores: Sequence[float], tolerance: float = 0.01, *, name: str = "temporal_quality"
) -> TemporalEvaluation:
    """
    Return the record of scores in [0, 1] over time, the oldest first, the current one last.

    Trend, change a step and stability are those of `monitor.stats.summary.plain_trend`.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = plain_trend(scores, tolerance=tolerance)
    return TemporalEvaluation(
        evaluator_name=name,
        score=scores[-1],
        current_score=scores[-1],
        historical_scores=list(scores),
        **found._asdict(),
    )
