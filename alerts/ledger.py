"""Read what alerts did: incidents, their timeline, deliveries and counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from alerts.snapshot import Snapshot
from monitor.models.alerting import ChannelHealth, Delivery, DeliveryStatus, Incident, TimelineEvent
from monitor.store.alert_tables import alert_channels, alert_events, incidents, outbox

_CRITICAL_FIRST = (incidents.c.level == "critical").desc()
_DELIVERY_COLUMNS = [outbox.c[name] for name in Delivery.model_fields]


def open_incidents(connection: Connection, *, app: str | None = None) -> list[Incident]:
    """List what goes on now, critical ones first, then the oldest."""
    query = select(incidents).where(incidents.c.resolved_at.is_(None))
    return _incidents(connection, query.order_by(_CRITICAL_FIRST, incidents.c.opened_at), app=app)


def incidents_since(
    connection: Connection, since: datetime, *, app: str | None = None
) -> list[Incident]:
    """List the incidents that were open at any time since then, the newest first."""
    query = select(incidents).where(
        or_(incidents.c.resolved_at.is_(None), incidents.c.resolved_at >= since)
    )
    return _incidents(connection, query.order_by(incidents.c.opened_at.desc()), app=app)


def incident(connection: Connection, incident_id: str) -> Incident | None:
    """Find one incident by its id."""
    query = select(incidents).where(incidents.c.incident_id == incident_id)
    row = connection.execute(query).mappings().first()
    return None if row is None else Incident.model_validate(dict(row))


def timeline(connection: Connection, incident_id: str) -> list[TimelineEvent]:
    """List what happened to an incident, in order."""
    return [snapshot.timeline_event() for snapshot in snapshots(connection, incident_id)]


def snapshots(connection: Connection, incident_id: str) -> list[Snapshot]:
    """Give the frozen evidence of every event of an incident, in order."""
    query = (
        select(alert_events.c.snapshot)
        .where(alert_events.c.incident_id == incident_id)
        .order_by(alert_events.c.sequence)
    )
    return [Snapshot.model_validate(found) for found in connection.execute(query).scalars()]


def deliveries(
    connection: Connection,
    *,
    incident_id: str | None = None,
    status: DeliveryStatus | None = None,
    limit: int = 1000,
) -> list[Delivery]:
    """List messages and what became of them, the newest first."""
    query = select(*_DELIVERY_COLUMNS).order_by(
        outbox.c.created_at.desc(), outbox.c.sequence.desc(), outbox.c.delivery_id
    )
    if incident_id is not None:
        query = query.where(outbox.c.incident_id == incident_id)
    if status is not None:
        query = query.where(outbox.c.status == status)
    rows = connection.execute(query.limit(limit)).mappings()
    return [Delivery.model_validate(dict(row)) for row in rows]


def outbox_counts(connection: Connection) -> dict[DeliveryStatus, int]:
    """Count all messages by status; a status without any is 0."""
    query = select(outbox.c.status, func.count()).group_by(outbox.c.status)
    counted = {DeliveryStatus(status): count for status, count in connection.execute(query)}
    return {status: counted.get(status, 0) for status in DeliveryStatus}


def channel_health(connection: Connection) -> list[ChannelHealth]:
    """Tell how every channel that was ever used does."""
    rows = connection.execute(select(alert_channels).order_by(alert_channels.c.channel))
    return [ChannelHealth.model_validate(dict(row)) for row in rows.mappings()]


def _incidents(connection: Connection, query: Select[Any], *, app: str | None) -> list[Incident]:
    if app is not None:
        query = query.where(incidents.c.app == app)
    return [Incident.model_validate(dict(row)) for row in connection.execute(query).mappings()]
