"""What the policy ``anytime`` remembers of each stream, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from monitor.store.tables import detectors
from monitor.store.upsert import put


def read_states(connection: Connection) -> dict[int, dict[str, Any]]:
    """Read what is remembered, by stream id."""
    query = select(detectors.c.stream_id, detectors.c.state)
    return {row.stream_id: row.state for row in connection.execute(query)}


def save_states(
    connection: Connection, states: Mapping[int, Mapping[str, Any]], *, now: datetime
) -> None:
    """Remember these; call it in the transaction that is fenced by the lease."""
    at_ms = round(now.timestamp() * 1000)
    rows = [
        {"stream_id": stream_id, "updated_at_ms": at_ms, "state": dict(state)}
        for stream_id, state in sorted(states.items())
    ]
    put(connection, detectors, rows)
