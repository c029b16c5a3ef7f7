"""Run evaluators over several interactions as an `EvaluationConfig` says (seed 004)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from datetime import datetime
from threading import Thread

from monitor.errors import JudgeError
from monitor.models import (
    ErrorInfo,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    EvaluationStatus,
    Interaction,
)
from monitor.scoring.base import Scorer
from monitor.scoring.pipeline import failure
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings

_THREADS = 8


def run_batch(
    interactions: Sequence[Interaction],
    config: EvaluationConfig,
    settings: Settings,
    *,
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> EvaluationBatch:
    """
    Evaluate interactions and give all records, in order, as one batch.

    Parameters
    ----------
    interactions
        What to evaluate.
    config
        Evaluators, their parameters, whether several interactions are in work at a time, the
        longest wait for one of them, and how failures that may pass are tried again.
    settings
        The judge, its key and the line at which scores pass.
    now
        When the batch is made.
    sleep
        Waits between tries.

    Notes
    -----
    A thread cannot be stopped: an evaluation that is late is recorded as failed with the
    code ``timeout`` while its call runs on in the background.

    Raises
    ------
    SettingsError
        If an evaluator or a parameter is unknown.
    """
    wanted = settings.model_copy(update={"metrics": tuple(config.evaluators)})
    scorer = make_scorer(wanted, parameters=config.evaluator_configs)
    threads = max(scorer.concurrency, _THREADS) if config.parallel_execution else 1
    started = time.perf_counter()
    pool = ThreadPoolExecutor(threads, "groundwatch-batch")
    try:
        futures = [pool.submit(_patiently, scorer, each, config, sleep) for each in interactions]
        found: list[Evaluation] = []
        for each, future in zip(interactions, futures, strict=True):
            timeout_s = None if config.timeout_ms is None else config.timeout_ms / 1000
            try:
                found += future.result(timeout_s)
            except LateError:
                future.cancel()
                found += [_late(each, name, config.timeout_ms) for name in config.evaluators]
    finally:
        _end(pool, scorer, wait=config.timeout_ms is None)
    return _batch(found, len(interactions), now, (time.perf_counter() - started) * 1000)


def _end(pool: ThreadPoolExecutor, scorer: Scorer, *, wait: bool) -> None:
    """Close the scorer once nothing runs any more; without *wait* somebody else waits for that."""

    def end() -> None:
        pool.shutdown(cancel_futures=True)
        scorer.close()

    if wait:
        end()
    else:
        Thread(target=end, daemon=True, name="groundwatch-batch-end").start()


def _patiently(
    scorer: Scorer,
    interaction: Interaction,
    config: EvaluationConfig,
    sleep: Callable[[float], None],
) -> tuple[Evaluation, ...]:
    """Score; what failed for a passing reason is tried again after a growing wait."""
    retry = config.retry_config
    found = _score(scorer, interaction, config)
    delay_s = retry.initial_delay_ms / 1000 if retry else 0.0
    for _ in range(retry.max_retries if retry else 0):
        if not any(_may_pass(each) for each in found):
            break
        sleep(delay_s)
        delay_s *= retry.backoff_multiplier if retry else 1.0
        again = _score(scorer, interaction, config)
        found = tuple(new if _may_pass(old) else old for old, new in zip(found, again, strict=True))
    return found


def _score(
    scorer: Scorer, interaction: Interaction, config: EvaluationConfig
) -> tuple[Evaluation, ...]:
    """Score; a judge that answers nobody fails all evaluators, as there is no later here."""
    try:
        return scorer.score(interaction)
    except JudgeError as error:
        return tuple(
            failure(
                error,
                {"target_event_id": interaction.id, "evaluator_name": name},
                shared_by=len(config.evaluators),
            )
            for name in config.evaluators
        )


def _may_pass(evaluation: Evaluation) -> bool:
    error = evaluation.error
    return error is not None and bool(error.context.get("transient"))


def _late(interaction: Interaction, name: str, timeout_ms: int | None) -> Evaluation:
    return Evaluation.failed(
        target_event_id=interaction.id,
        evaluator_name=name,
        error=ErrorInfo(
            type="TimeoutError", message=f"no result within {timeout_ms} ms", code="timeout"
        ),
    )


def _batch(
    found: Sequence[Evaluation], size: int, now: datetime, processing_time_ms: float
) -> EvaluationBatch:
    versions = {each.evaluator_name: each.evaluator_version for each in found}
    failed = found and all(each.status is EvaluationStatus.FAILED for each in found)
    return EvaluationBatch(
        batch_id=f"batch_{uuid.uuid4()}",
        evaluations=list(found),
        batch_metadata={
            "batch_size": size,
            "created_at": now.isoformat(),
            "evaluator_versions": versions,
            "processing_time_ms": processing_time_ms,
        },
        status="failed" if failed else "completed",
    )
