"""The states of alerts in the store: read key by key, and compared and set."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError
from sqlalchemy import Connection, Row, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from alerts.evidence import AlertKey
from alerts.memory import AlertState, Phase
from monitor.store.alert_tables import alert_states

_log = structlog.get_logger("groundwatch.alerts")
#: An incident that nobody evaluates for so long is closed.
FORGOTTEN_AFTER = timedelta(hours=24)
_OPEN = (Phase.FIRING.value, Phase.RECOVERING.value)
_KEY = (
    alert_states.c.app,
    alert_states.c.metric,
    alert_states.c.segment,
    alert_states.c.window_s,
)


class Stored(NamedTuple):
    """A state as it was found; None when this release cannot read it."""

    state: AlertState | None
    version: int
    forgotten: bool  #: firing, but not evaluated for long


def load(connection: Connection, apps: Collection[str], now: datetime) -> dict[AlertKey, Stored]:
    """Read and lock the states of *apps*, and of all that is forgotten."""
    forgotten = (alert_states.c.phase.in_(_OPEN)) & (
        alert_states.c.updated_at <= now - FORGOTTEN_AFTER
    )
    rows = connection.execute(
        select(alert_states, forgotten.label("forgotten"))
        .where(or_(alert_states.c.app.in_(apps), forgotten))
        .order_by(*_KEY)
        .with_for_update()
    )
    found = {AlertKey(row.app, row.metric, row.segment, row.window_s): row for row in rows}
    return {key: _stored(key, row) for key, row in found.items()}


def save(connection: Connection, state: AlertState, version: int, now: datetime) -> bool:
    """
    Write the state unless another decider was faster; say whether it was written.

    *version* is the one that was found, or 0 when there was none.
    """
    values = {
        "phase": state.phase.value,
        "state": state.model_dump(mode="json"),
        "updated_at": now,
        "version": version + 1,
    }
    if version == 0:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        fresh = dialect.insert(alert_states).values(**state.key._asdict(), **values)
        written = fresh.on_conflict_do_nothing().returning(alert_states.c.version)
        return connection.execute(written).first() is not None
    same = [column == part for column, part in zip(_KEY, state.key, strict=True)]
    changed = update(alert_states).where(*same, alert_states.c.version == version)
    return connection.execute(changed.values(**values)).rowcount == 1


def _stored(key: AlertKey, row: Row[Any]) -> Stored:
    state = None
    try:
        state = AlertState.model_validate(row.state)
    except ValidationError as error:
        _log.error("alert_state_unreadable", **key._asdict(), errors=error.error_count())
    return Stored(state, row.version, bool(row.forgotten))
