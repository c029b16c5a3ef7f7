"""The states of alerts in the store: read key by key, and compared and set."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError
from sqlalchemy import Connection, Row, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from alerts.evidence import AlertKey
from alerts.memory import AlertState, Phase
from monitor.errors import StoreError
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
    return {key: _stored(key, row, now) for key, row in found.items()}


def read_state(connection: Connection, key: AlertKey) -> AlertState | None:
    """Read where an alert stands, without a lock; None when there is none, or it is unreadable."""
    same = [column == value for column, value in zip(_KEY, key, strict=True)]
    row = connection.execute(select(alert_states).where(*same)).first()
    if row is None:
        return None
    try:
        return AlertState.model_validate(row.state)
    except ValidationError:
        return None


def save(
    connection: Connection, changes: Sequence[tuple[AlertState, int]], now: datetime
) -> list[bool]:
    """
    Write states unless another decider was faster; say of each whether it was written.

    With each state comes the version that was found, or 0 when there was none.

    Raises
    ------
    StoreError
        If states that were read and locked have changed; the transaction must not commit.
    """
    inserted = _insert(connection, [state for state, version in changes if version == 0], now)
    known = [(state, version) for state, version in changes if version > 0]
    updated = _update(connection, known, now)
    return [tuple(state.key) in inserted if version == 0 else updated for state, version in changes]


def _insert(
    connection: Connection, states: Sequence[AlertState], now: datetime
) -> set[tuple[Any, ...]]:
    if not states:
        return set()
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    fresh = dialect.insert(alert_states).on_conflict_do_nothing().returning(*_KEY)
    rows = [state.key._asdict() | _values(state, 1, now) for state in states]
    return {tuple(row) for row in connection.execute(fresh, rows)}


def _update(
    connection: Connection, changes: Sequence[tuple[AlertState, int]], now: datetime
) -> bool:
    if not changes:
        return True
    same = [column == bindparam(f"its_{column.name}") for column in _KEY]
    statement = (
        update(alert_states)
        .where(*same, alert_states.c.version == bindparam("found"))
        .values({name: bindparam(name) for name in _values(changes[0][0], 0, now)})
    )
    rows = [
        {f"its_{name}": part for name, part in state.key._asdict().items()}
        | {"found": version}
        | _values(state, version + 1, now)
        for state, version in changes
    ]
    count = connection.execute(statement, rows).rowcount
    if count != len(rows) and len(rows) > 1:
        raise StoreError("alert states changed while they were locked; it is tried again")
    return count == len(rows)


def _values(state: AlertState, version: int, now: datetime) -> dict[str, Any]:
    return {
        "phase": state.phase.value,
        # Half as long without what is as usual; a release that reads it fills that in.
        "state": state.model_dump(mode="json", exclude_defaults=True),
        "updated_at": now,
        "version": version,
    }


def _stored(key: AlertKey, row: Row[Any], now: datetime) -> Stored:
    state = None
    try:
        state = AlertState.model_validate(row.state)
    except ValidationError as error:
        _log.error("alert_state_unreadable", **key._asdict(), errors=error.error_count())
    # People still wait to hear how it ends with what was flapping.
    waits = state is not None and state.quiet_since is not None
    forgotten = row.forgotten or (waits and row.updated_at <= now - FORGOTTEN_AFTER)
    return Stored(state, row.version, bool(forgotten))
