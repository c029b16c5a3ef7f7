"""
Single samples: the lowest scores of a window, one sample whole.

Also counts evaluations without a score by the reason why there is none, and keeps the
audit record of who did and saw what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, select

from monitor.models import CustomEvaluation, Evaluation, EvaluationStatus, Sample
from monitor.models.insight import ScoredExchange
from monitor.store.packing import record_of, sample_of
from monitor.store.tables import audit, evaluations, samples

#: So many times the samples asked for are read, to find ones that differ.
_READ = 10
_MOST_TARGET_CHARS = 400
#: The end of a version as `PassRule` writes it: lower is better.
_WORST_FIRST = case(
    (evaluations.c.evaluator_version.like("% pass <= %"), -evaluations.c.score),
    else_=evaluations.c.score,
)


def _within(
    app: str, metric: str, since: datetime, until: datetime | None = None
) -> list[ColumnElement[bool]]:
    """Return the conditions for the evaluations of a metric that belong to [since, until)."""
    at_ms = evaluations.c.occurred_at_ms
    found = [
        evaluations.c.app == app,
        evaluations.c.metric == metric,
        at_ms >= round(since.timestamp() * 1000),
    ]
    return found if until is None else [*found, at_ms < round(until.timestamp() * 1000)]


class WorstSample(NamedTuple):
    """A sample with the evaluation that makes it one of the worst."""

    sample_id: str
    interaction_id: str
    occurred_at: datetime
    score: float
    evaluation: Evaluation
    query: str
    output: str


def worst_samples(
    connection: Connection,
    *,
    app: str,
    metric: str,
    since: datetime,
    until: datetime | None = None,
    limit: int = 3,
) -> list[WorstSample]:
    """
    List the failed samples with the worst scores in [since, until), the worst first.

    The worst are the lowest scores, or the highest where the stream's version says that
    lower is better. Of several with the same explanation only one is listed.
    """
    query = (
        select(
            evaluations.c.sample_id,
            evaluations.c.score,
            evaluations.c.occurred_at_ms,
            evaluations.c.evaluation_id,
            evaluations.c.record,
            samples.c.interaction_id,
            samples.c.payload,
        )
        .join(samples, samples.c.sample_id == evaluations.c.sample_id)
        .where(*_within(app, metric, since, until), evaluations.c.passed == 0)
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
        .limit(limit * _READ)
    )
    distinct: dict[str | None, WorstSample] = {}
    for row in connection.execute(query):
        interaction = row.payload["interaction"]
        found = WorstSample(
            sample_id=row.sample_id,
            interaction_id=row.interaction_id,
            occurred_at=datetime.fromtimestamp(row.occurred_at_ms / 1000, UTC),
            score=row.score,
            evaluation=CustomEvaluation.model_validate(record_of(row)),
            query=interaction.get("query") or "",
            output=interaction["output"],
        )
        distinct.setdefault(found.evaluation.explanation, found)
    return list(distinct.values())[:limit]


def worst_sample_id(
    connection: Connection, *, app: str, metric: str, evaluator_version: str, since: datetime
) -> str:
    """Return the id of the worst failed sample of one evaluator, reading none; '' without any."""
    query = (
        select(evaluations.c.sample_id)
        .where(
            *_within(app, metric, since),
            evaluations.c.evaluator_version == evaluator_version,
            evaluations.c.passed == 0,
        )
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
        .limit(1)
    )
    return connection.execute(query).scalar() or ""


def worst_explanations(
    connection: Connection,
    *,
    app: str,
    metric: str,
    evaluator_version: str,
    since: datetime,
    limit: int = 3,
) -> tuple[str, ...]:
    """Return what one evaluator said of the worst samples."""
    query = (
        select(evaluations.c.evaluation_id, evaluations.c.record, samples.c.payload)
        .join(samples, samples.c.sample_id == evaluations.c.sample_id)
        .where(
            *_within(app, metric, since),
            evaluations.c.evaluator_version == evaluator_version,
            evaluations.c.passed == 0,
        )
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
        .limit(limit * _READ)
    )
    found = (record_of(row).get("explanation") for row in connection.execute(query))
    return tuple(dict.fromkeys(text for text in found if text))[:limit]


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
        select(evaluations, samples.c.payload)
        .join(samples, samples.c.sample_id == evaluations.c.sample_id)
        .where(evaluations.c.sample_id == sample_id)
        .order_by(evaluations.c.metric, evaluations.c.evaluator_version)
    )
    return StoredSample(
        sample=sample_of(row.payload),
        received_at=datetime.fromtimestamp(row.received_at_ms / 1000, UTC),
        outcome=row.outcome,
        reason=row.reason,
        evaluations=[
            StoredEvaluation(
                metric=found.metric,
                evaluator_version=found.evaluator_version,
                passed=None if found.passed is None else bool(found.passed),
                evaluation=CustomEvaluation.model_validate(record_of(found)),
            )
            for found in connection.execute(query)
        ],
    )


class Unscored(NamedTuple):
    """How many evaluations of a metric have no score, by reason; the most frequent first."""

    failed: Mapping[str, int]
    skipped: Mapping[str, int]


def unscored(
    connection: Connection,
    *,
    app: str,
    metric: str,
    since: datetime,
    until: datetime | None = None,
) -> Unscored:
    """
    Count the evaluations without a score that belong to times in [since, until).

    Of all versions of the evaluator, and no further back than evaluations are kept.
    """
    count = func.count()
    query = (
        select(evaluations.c.status, evaluations.c.reason, count)
        .where(
            *_within(app, metric, since, until),
            evaluations.c.status != EvaluationStatus.COMPLETED.value,
        )
        .group_by(evaluations.c.status, evaluations.c.reason)
        .order_by(count.desc(), evaluations.c.reason)
    )
    failed: dict[str, int] = {}
    skipped: dict[str, int] = {}
    for status, reason, n in connection.execute(query):
        (failed if status == EvaluationStatus.FAILED.value else skipped)[reason] = n
    return Unscored(failed, skipped)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act or view."""

    at: datetime
    who: str
    act: str
    target: str


def note_act(connection: Connection, *, who: str, act: str, target: str, at: datetime) -> None:
    """Write down who did or saw what."""
    at_ms = round(at.timestamp() * 1000)
    row = {"at_ms": at_ms, "who": who, "act": act, "target": target[:_MOST_TARGET_CHARS]}
    connection.execute(audit.insert(), [row])


def newest_acts(connection: Connection, limit: int = 100) -> Sequence[AuditEntry]:
    """List the newest acts and views."""
    query = select(audit).order_by(audit.c.audit_id.desc()).limit(limit)
    return [
        AuditEntry(datetime.fromtimestamp(row.at_ms / 1000, UTC), row.who, row.act, row.target)
        for row in connection.execute(query)
    ]


def scored_exchanges(
    connection: Connection,
    app: str,
    metric: str,
    since: datetime,
    until: datetime | None = None,
    *,
    limit: int,
) -> list[ScoredExchange]:
    """List the newest *limit* samples of [since, until) that passed or failed, the newest first."""
    c = evaluations.c
    query = (
        select(evaluations, samples.c.payload)
        .join(samples, samples.c.sample_id == c.sample_id)
        .where(*_within(app, metric, since, until), c.passed.is_not(None))
        .order_by(c.occurred_at_ms.desc())
        .limit(limit)
    )
    return [
        ScoredExchange(
            sample_id=row.sample_id,
            at=datetime.fromtimestamp(row.occurred_at_ms / 1000, UTC),
            interaction=sample_of(row.payload).interaction,
            passed=bool(row.passed),
            evaluation=CustomEvaluation.model_validate(record_of(row)),
        )
        for row in connection.execute(query)
    ]
