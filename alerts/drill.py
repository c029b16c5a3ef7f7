"""A drill: fire, escalate and resolve through the real outbox, marked TEST; nothing is wrong."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import insert

from alerts.announce import outbox_row
from alerts.channels.base import Recipient
from alerts.evidence import Evidence
from alerts.plan import Plan
from alerts.routing.silences import Hush, hush_for
from alerts.snapshot import Snapshot
from alerts.stored_silences import silences_after
from alerts.try_channel import sample_snapshot
from monitor.models.alerting import DRILL_ID, AlertEvent, Level
from monitor.store.alert_tables import incidents, outbox
from monitor.store.engine import Store

#: The metric of a drill's incident, in lists and reports.
DRILL_METRIC = "drill"
_STORY = (
    (AlertEvent.FIRED, Level.WARNING),
    (AlertEvent.ESCALATED, Level.CRITICAL),
    (AlertEvent.RESOLVED, Level.CRITICAL),
)


def begin_drill(store: Store, app: str, now: datetime) -> Snapshot:
    """Write down the incident of a drill; it is over from the start, so that none stays open."""
    found = sample_snapshot(now)
    verdict = found.verdict.model_copy(update={"app": app, "metric": DRILL_METRIC})
    snapshot = found.model_copy(
        update={
            "incident_id": f"{DRILL_ID}{uuid.uuid4().hex[:10]}",
            "verdict": verdict,
            "status_before": Evidence.HEALTHY,
        }
    )
    row = {
        **snapshot.key._asdict(),
        "incident_id": snapshot.incident_id,
        "level": Level.CRITICAL.value,
        "peak_level": Level.CRITICAL.value,
        "since": snapshot.since,
        "opened_at": now,
        "updated_at": now,
        "resolved_at": now,
        "sequence": len(_STORY),
        "group_id": snapshot.incident_id,
    }
    with store.write() as connection:
        connection.execute(insert(incidents), [row])
    return snapshot


def act(snapshot: Snapshot, now: datetime) -> Iterator[Snapshot]:
    """Tell the story of a drill, an event at a time."""
    for sequence, (event, level) in enumerate(_STORY, start=1):
        yield snapshot.model_copy(
            update={"event": event, "sequence": sequence, "level": level, "at": now}
        )


def silence_over(store: Store, plan: Plan, snapshot: Snapshot, now: datetime) -> str | None:
    """Name the silence or maintenance that would hold a real alert like it back now, if any."""
    with store.read() as connection:
        hushes: list[Hush] = [*silences_after(connection, now), *plan.maintenance]
    found = hush_for(hushes, plan.labels(snapshot.verdict, snapshot.level), now)
    return None if found is None else found.hush_id


def enqueue(
    store: Store, plan: Plan, event: Snapshot, told: dict[Recipient, str | None], now: datetime
) -> None:
    """
    Put one event of a drill into the outbox, for whom the routes say.

    *told* collects who has heard of it; they hear of what follows as well.
    """
    if event.event is not AlertEvent.RESOLVED:
        told |= plan.places(plan.labels(event.verdict, event.level), now)
    stored = event.model_dump(mode="json")
    rows = [
        outbox_row(event, stored, to, fallback, now=now, due_at=now)
        for to, fallback in told.items()
    ]
    if rows:
        with store.write() as connection:
            connection.execute(insert(outbox), rows)
