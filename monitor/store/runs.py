"""The newest runs of a stretch of time, each with all its figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select

from monitor.models.run import Figure, Run
from monitor.store.tables import evaluations, samples

#: So many samples are asked about at once: databases bound the length of a list.
_CHUNK = 500


def read_runs(
    connection: Connection, *, since: datetime, limit: int, app: str | None = None
) -> tuple[list[Run], int]:
    """Read the newest *limit* runs since *since*, oldest first, and how many there are in all."""
    wanted: ColumnElement[bool] = samples.c.occurred_at_ms >= round(since.timestamp() * 1000)
    if app is not None:
        wanted = and_(wanted, samples.c.app == app)
    total = connection.execute(select(func.count()).select_from(samples).where(wanted))
    newest = (
        select(samples)
        .where(wanted)
        .order_by(samples.c.occurred_at_ms.desc(), samples.c.sample_id.desc())
        .limit(limit)
    )
    rows = list(reversed(connection.execute(newest).all()))
    figures = _figures(connection, [row.sample_id for row in rows])
    return [_run(row, figures.get(row.sample_id, {})) for row in rows], total.scalar_one()


def _figures(connection: Connection, sample_ids: Sequence[str]) -> Mapping[str, dict[str, Figure]]:
    found: dict[str, dict[str, Figure]] = defaultdict(dict)
    columns = (evaluations.c.sample_id, evaluations.c.metric, evaluations.c.score)
    for start in range(0, len(sample_ids), _CHUNK):
        query = select(*columns, evaluations.c.record).where(
            evaluations.c.sample_id.in_(sample_ids[start : start + _CHUNK])
        )
        for row in connection.execute(query):
            value = (row.record.get("metadata") or {}).get("value")
            found[row.sample_id][row.metric] = Figure(
                score=row.score,
                value=float(value) if isinstance(value, int | float) else None,
                explanation=row.record.get("explanation") or "",
            )
    return found


def _run(row: Any, figures: Mapping[str, Figure]) -> Run:
    interaction = row.payload["interaction"]
    named = (interaction.get("metadata") or {}) | (interaction.get("tags") or {})
    return Run(
        sample_id=row.sample_id,
        run_id=row.interaction_id,
        app=row.app,
        at=datetime.fromtimestamp(row.occurred_at_ms / 1000, UTC),
        company_name=_text(named.get("company_name")),
        model_used=_text(named.get("model_used") or named.get("model")),
        figures=figures,
    )


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""
