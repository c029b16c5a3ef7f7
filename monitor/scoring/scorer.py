"""Turn an interaction into one evaluation a metric, whatever happens on the way."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from monitor.errors import (
    BudgetReachedError,
    GroundwatchError,
    JudgeError,
    JudgeOutageError,
    JudgeReplyError,
)
from monitor.models import ErrorInfo, Evaluation, Interaction
from monitor.queue.wire import unscorable
from monitor.scoring.base import Evaluator, Finding, Judge, Judgement
from monitor.scoring.evaluators import EVALUATORS

T = TypeVar("T")
_log = structlog.get_logger("groundwatch.scoring")


class Scorer:
    """
    Scores interactions for fixed metrics with one judge; may be shared by threads.

    ``concurrency`` says how many calls of ``score`` are worth having in flight.
    """

    def __init__(
        self,
        judge: Judge,
        metrics: Sequence[str],
        pass_score: float,
        *,
        concurrency: int = 1,
        evaluators: Mapping[str, Evaluator] = EVALUATORS,
    ) -> None:
        self._judge = judge
        self._evaluators = {metric: evaluators[metric] for metric in metrics}
        self.pass_score = pass_score
        self.concurrency = concurrency

    @property
    def version(self) -> str:
        """The ``evaluator_version`` of everything this scorer makes."""
        return self._judge.version

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:  # noqa: ARG002
        """
        Make one evaluation a metric, in order; asks the judge at most once.

        Raises
        ------
        JudgeOutageError, BudgetReachedError, QueueUnavailableError
            If nobody can be asked now, which is no fault of the interaction. Anything
            else that goes wrong is a failed evaluation.
        """
        unseen = unscorable(interaction)
        unmet = {n: unseen or each.unmet(interaction) for n, each in self._evaluators.items()}
        wanted = [name for name, reason in unmet.items() if reason is None]
        outcome = (
            outcome_of(lambda: self._judge.judge(interaction), interaction.id) if wanted else None
        )
        made = []
        for name, reason in unmet.items():
            fields = self._fields(name, interaction)
            if reason is not None or outcome is None:
                made.append(Evaluation.skipped(reason=reason or "", **fields))
            elif isinstance(outcome, Judgement):
                made.append(
                    self._evaluate(name, outcome, interaction, fields, shared_by=len(wanted))
                )
            else:
                made.append(failure(outcome, fields, shared_by=len(wanted)))
        return tuple(made)

    def close(self) -> None:
        """Give the judge's connections back."""
        self._judge.close()

    def _evaluate(
        self,
        name: str,
        judgement: Judgement,
        interaction: Interaction,
        fields: dict[str, Any],
        *,
        shared_by: int,
    ) -> Evaluation:
        fields |= {
            "duration_ms": judgement.duration_ms,
            "cost_usd": _share(judgement.cost_usd, shared_by),
        }
        try:
            finding = self._evaluators[name].evaluate(judgement, interaction)
            fields["metadata"] = finding.details | judgement.details | _spent(judgement)
            if finding.skipped is not None:
                return Evaluation.skipped(reason=finding.skipped, **fields)
            return self._completed(finding, fields)
        except Exception as error:  # noqa: BLE001 - a broken metric must not take the others along
            if not isinstance(error, JudgeError):
                log_internal(error, fields["target_event_id"])
            return failure(error, fields, shared_by=1)

    def _completed(self, finding: Finding, fields: dict[str, Any]) -> Evaluation:
        if finding.score is None or not 0 <= finding.score <= 1:
            raise JudgeReplyError("the judge's score is not in [0, 1]")
        return Evaluation(
            score=round(finding.score, 6),
            explanation=finding.explanation,
            confidence=finding.confidence,
            criteria={"pass_score": self.pass_score},
            **fields,
        )

    def _fields(self, name: str, interaction: Interaction) -> dict[str, Any]:
        return {
            "target_event_id": interaction.id,
            "evaluator_name": name,
            "evaluator_version": self._judge.version,
        }


def _share(cost_usd: float | None, shared_by: int) -> float | None:
    """Split the cost of one call, so that the sum over evaluations is what was paid."""
    return None if cost_usd is None else cost_usd / shared_by


def _spent(judgement: Judgement) -> dict[str, Any]:
    spent = {
        "model": judgement.model,
        "input_tokens": judgement.input_tokens,
        "output_tokens": judgement.output_tokens,
        "kept_verdict": judgement.kept or None,
    }
    return {name: value for name, value in spent.items() if value is not None}


def failure(error: Exception, fields: dict[str, Any], *, shared_by: int) -> Evaluation:
    """Make the record of an evaluation that broke; only errors of ours may speak."""
    if not isinstance(error, JudgeError):
        # The text of an unexpected exception may hold anything, also what was judged.
        info = ErrorInfo(type=type(error).__name__, message="", code="internal_error")
        return Evaluation.failed(error=info, **fields)
    context = dict(error.context)
    cost_usd = context.pop("cost_usd", None)
    duration_ms = context.pop("duration_ms", None)
    fields = {"cost_usd": _share(cost_usd, shared_by), "duration_ms": duration_ms} | fields
    info = ErrorInfo(
        type=type(error).__name__,
        message=str(error),
        code=error.code,
        context=context | {"transient": error.transient},
    )
    return Evaluation.failed(error=info, **fields)


def outcome_of(ask: Callable[[], T], interaction_id: str) -> T | Exception:
    """
    Ask a judge; give what it says, or the error that makes the evaluation a failed one.

    Raises
    ------
    JudgeOutageError, BudgetReachedError, QueueUnavailableError
        If nobody can be asked now, which is no fault of the interaction.
    """
    try:
        return ask()
    except (JudgeOutageError, BudgetReachedError):
        raise
    except JudgeError as error:
        return error
    except GroundwatchError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken judge is a failed evaluation
        log_internal(error, interaction_id)
        return error


def log_internal(error: Exception, interaction_id: str) -> None:
    """Log where an unexpected error came from, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    _log.error(
        "internal_error", interaction_id=interaction_id, error=type(error).__name__, where=where
    )
