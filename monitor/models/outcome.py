"""What became of a sample once a worker had it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.models.evaluation import Evaluation, EvaluationStatus
from monitor.models.interaction import Sample


class Outcome(StrEnum):
    """The one place in which a sample ends."""

    SCORED = "scored"  #: at least one evaluation completed
    FAILED = "failed"  #: none completed and at least one failed
    SKIPPED = "skipped"  #: there was nothing to judge
    EXPIRED = "expired"  #: it waited until it was of no use any more; nobody scored it


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSample:
    """A sample with everything its evaluators said of it."""

    sample: Sample
    evaluations: tuple[Evaluation, ...]
    expired_by: str = ""  #: why nobody scored it; '' where somebody tried

    @property
    def outcome(self) -> Outcome:
        """Sum the evaluations up to one outcome."""
        if self.expired_by:
            return Outcome.EXPIRED
        statuses = {evaluation.status for evaluation in self.evaluations}
        if EvaluationStatus.COMPLETED in statuses:
            return Outcome.SCORED
        return Outcome.FAILED if EvaluationStatus.FAILED in statuses else Outcome.SKIPPED

    @property
    def reason(self) -> str:
        """Why the sample has no score at all; '' when it has one."""
        if self.outcome is Outcome.SCORED:
            return ""
        if self.expired_by:
            return self.expired_by
        wanted = EvaluationStatus(self.outcome.value)
        reasons = sorted({e.reason for e in self.evaluations if e.status is wanted})
        return reasons[0] if reasons else "no_evaluator"
