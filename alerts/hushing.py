"""Apply silences to what fires: hold back, and tell when a silence ends too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from alerts.evidence import AlertKey
from alerts.ledger import last_snapshot
from alerts.plan import Plan
from alerts.routing.silences import Hush, hush_for
from alerts.snapshot import Snapshot
from alerts.stored_silences import silence_named, silences_after
from monitor.models.alerting import AlertEvent, Level
from monitor.models.status import Verdict
from monitor.store.alert_tables import incidents


@dataclass(slots=True)
class Hushed:
    """What is held back now, and what is held back no more though it still fires."""

    incident_ids: set[str] = field(default_factory=set)
    ended: list[Snapshot] = field(default_factory=list)


def hush(
    connection: Connection,
    plan: Plan,
    events: Sequence[Snapshot],
    verdicts: Mapping[AlertKey, Verdict],
    now: datetime,
) -> Hushed:
    """
    Say which incidents are silenced now, and note it with them.

    *events* are those of this evaluation, whose incidents are written already.
    """
    hushes: list[Hush] = [*silences_after(connection, now), *plan.maintenance]
    found = Hushed()
    changes = []
    for row in _to_look_at(connection, all_open=bool(hushes)):
        verdict = verdicts.get(AlertKey(row.app, row.metric, row.segment, row.window_s))
        verdict = verdict or last_snapshot(connection, row.incident_id).verdict
        holding = hush_for(hushes, plan.labels(verdict, Level(row.level)), now)
        if holding is not None:
            found.incident_ids.add(row.incident_id)
        elif row.hushed_by is not None:
            found.ended += _ended(connection, row, verdict, now)
        name = None if holding is None else holding.hush_id
        if name != row.hushed_by:
            changes.append({"id": row.incident_id, "by": name})
    if changes:
        which = incidents.c.incident_id == bindparam("id")
        connection.execute(
            update(incidents).where(which).values(hushed_by=bindparam("by")), changes
        )
    found.incident_ids |= _ends_held_back(plan, hushes, events, now)
    return found


def _to_look_at(connection: Connection, *, all_open: bool) -> list[Row[Any]]:
    query = select(incidents).where(incidents.c.resolved_at.is_(None))
    if not all_open:
        query = query.where(incidents.c.hushed_by.is_not(None))
    return list(connection.execute(query))


def _ends_held_back(
    plan: Plan, hushes: Sequence[Hush], events: Sequence[Snapshot], now: datetime
) -> set[str]:
    """Name the incidents that fire no more, so that their end is held back all the same."""
    return {
        event.incident_id
        for event in events
        if event.event is not AlertEvent.FIRED
        and hush_for(hushes, plan.labels(event.verdict, event.level), now)
    }


def _ended(
    connection: Connection, row: Row[Any], verdict: Verdict, now: datetime
) -> list[Snapshot]:
    last = last_snapshot(connection, row.incident_id)
    if last.flapping:
        return []
    silence = silence_named(connection, row.hushed_by)
    by = row.hushed_by if silence is None else f"{silence.author}: {silence.comment}"
    news = {
        "event": AlertEvent.UNSILENCED,
        "verdict": verdict,
        "at": now,
        "quiet": False,
        "note": f"it was silenced by {by}",
    }
    return [last.model_copy(update=news)]
