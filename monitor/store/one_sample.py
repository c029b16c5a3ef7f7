"""One sample with everything that was said of it, by evaluators and by people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from monitor.models import CustomEvaluation, Evaluation, Sample
from monitor.store.tables import evaluations, samples


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """An evaluation as it counts: ``passed`` is None when it enters no rate."""

    metric: str
    evaluator_version: str
    passed: bool | None
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """A sample with what became of it."""

    sample: Sample
    received_at: datetime
    outcome: str
    reason: str
    evaluations: Sequence[StoredEvaluation]


def read_sample(connection: Connection, sample_id: str) -> StoredSample | None:
    """Read a sample by its id; None when there is none, or no longer."""
    row = connection.execute(select(samples).where(samples.c.sample_id == sample_id)).first()
    if row is None:
        return None
    query = (
        select(evaluations)
        .where(evaluations.c.sample_id == sample_id)
        .order_by(evaluations.c.metric, evaluations.c.evaluator_version)
    )
    return StoredSample(
        sample=Sample.model_validate(row.payload),
        received_at=datetime.fromtimestamp(row.received_at_ms / 1000, UTC),
        outcome=row.outcome,
        reason=row.reason,
        evaluations=[
            StoredEvaluation(
                metric=found.metric,
                evaluator_version=found.evaluator_version,
                passed=None if found.passed is None else bool(found.passed),
                evaluation=CustomEvaluation.model_validate(found.record),
            )
            for found in connection.execute(query)
        ],
    )
