"""Evaluations without a score, counted by why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, case, func, select

from monitor.models import EvaluationStatus
from monitor.store.tables import evaluations

_IS_FAILED = evaluations.c.status == EvaluationStatus.FAILED.value
#: Where a record says why: `Evaluation.reason`, as SQL.
_REASON = func.coalesce(
    case(
        (_IS_FAILED, evaluations.c.record[("error", "code")].as_string()),
        else_=evaluations.c.record[("metadata", "reason")].as_string(),
    ),
    "",
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
    Count the evaluations without a score that belong to times since *since*.

    With *until*, only those before it; of all versions of the evaluator, and no further
    back than evaluations are kept.
    """
    count = func.count()
    query = (
        select(evaluations.c.status, _REASON.label("reason"), count)
        .where(
            evaluations.c.app == app,
            evaluations.c.metric == metric,
            evaluations.c.occurred_at_ms >= round(since.timestamp() * 1000),
            evaluations.c.status != EvaluationStatus.COMPLETED.value,
        )
        .group_by(evaluations.c.status, "reason")
        .order_by(count.desc(), "reason")
    )
    if until is not None:
        query = query.where(evaluations.c.occurred_at_ms < round(until.timestamp() * 1000))
    failed: dict[str, int] = {}
    skipped: dict[str, int] = {}
    for status, reason, n in connection.execute(query):
        (failed if status == EvaluationStatus.FAILED.value else skipped)[reason] = n
    return Unscored(failed, skipped)
