"""The worst samples of a window: what a person wants to read first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, select

from monitor.models import CustomEvaluation, Evaluation
from monitor.store.tables import evaluations, samples

#: So many times the samples asked for are looked at, to find ones that differ.
_LOOK_AT = 10
#: The end of a version as `PassRule` writes it: lower is better.
_WORST_FIRST = case(
    (evaluations.c.evaluator_version.like("% pass <= %"), -evaluations.c.score),
    else_=evaluations.c.score,
)


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
    List the samples with the worst scores since *since*, the worst first, then the newest.

    With *until*, only those that came before it.

    The worst are the lowest scores, or the highest where the stream's version says that
    lower is better.

    Of several with the same explanation only one is listed: they tell nothing new.
    """
    query = (
        select(
            evaluations.c.sample_id,
            evaluations.c.score,
            evaluations.c.occurred_at_ms,
            evaluations.c.record,
            samples.c.interaction_id,
            samples.c.payload,
        )
        .join(samples, samples.c.sample_id == evaluations.c.sample_id)
        .where(
            evaluations.c.app == app,
            evaluations.c.metric == metric,
            evaluations.c.occurred_at_ms >= round(since.timestamp() * 1000),
            evaluations.c.passed == 0,
        )
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
        .limit(limit * _LOOK_AT)
    )
    if until is not None:
        query = query.where(evaluations.c.occurred_at_ms < round(until.timestamp() * 1000))
    distinct: dict[str | None, WorstSample] = {}
    for row in connection.execute(query):
        found = _worst(row)
        distinct.setdefault(found.evaluation.explanation, found)
    return list(distinct.values())[:limit]


def worst_explanations(
    connection: Connection,
    *,
    app: str,
    metric: str,
    evaluator_version: str,
    since: datetime,
    limit: int = 3,
) -> tuple[str, ...]:
    """Give what one evaluator said of the worst samples, without reading the samples."""
    query = (
        select(evaluations.c.record)
        .where(
            evaluations.c.app == app,
            evaluations.c.metric == metric,
            evaluations.c.evaluator_version == evaluator_version,
            evaluations.c.occurred_at_ms >= round(since.timestamp() * 1000),
            evaluations.c.passed == 0,
        )
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
        .limit(limit * _LOOK_AT)
    )
    found = (record.get("explanation") for record in connection.execute(query).scalars())
    return tuple(dict.fromkeys(text for text in found if text))[:limit]


def _worst(row: Any) -> WorstSample:
    interaction = row.payload["interaction"]
    return WorstSample(
        sample_id=row.sample_id,
        interaction_id=row.interaction_id,
        occurred_at=datetime.fromtimestamp(row.occurred_at_ms / 1000, UTC),
        score=row.score,
        evaluation=CustomEvaluation.model_validate(row.record),
        query=interaction.get("query") or "",
        output=interaction["output"],
    )
