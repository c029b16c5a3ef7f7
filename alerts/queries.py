"""Read what alerts did: incidents, their timeline, deliveries and counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select

from alerts.model import CLOSED, Snapshot
from alerts.store import AT_ONCE
from monitor.format import utc_time
from monitor.models.alerting import (
    DIGEST,
    DRILL_ID,
    Alert,
    AlertEvent,
    ChannelHealth,
    Delivery,
    DeliveryStatus,
    Incident,
    Severity,
)
from monitor.store.alert_tables import (
    alert_channels,
    alert_events,
    alert_groups,
    incidents,
    outbox,
)
from monitor.store.engine import batched

_CRITICAL_FIRST = (incidents.c.level == "critical").desc()
#: What is over so soon, untouched, was hardly worth a message.
SHORT = timedelta(minutes=10)
_DELIVERED = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)
_DELIVERY_COLUMNS = [outbox.c[name] for name in Delivery.model_fields]


def open_alerts(connection: Connection) -> list[Alert]:
    """Return the alerts that fire, critical ones first, then the oldest."""
    firing = incidents.c.resolved_at.is_(None)
    return _alerts(connection, firing, order=(_CRITICAL_FIRST, incidents.c.opened_at))


def alerts_since(connection: Connection, since: datetime, *, app: str | None = None) -> list[Alert]:
    """Return the alerts that fired at any time since then, the newest first."""
    lately = or_(incidents.c.resolved_at.is_(None), incidents.c.resolved_at >= since)
    return _alerts(connection, lately, order=(incidents.c.opened_at.desc(),), app=app)


def open_incidents(connection: Connection) -> list[Incident]:
    """Return the incidents in which something fires, critical ones first, then the oldest."""
    found = _whole(connection, open_alerts(connection))
    return sorted(found, key=lambda item: (item.level is not Severity.CRITICAL, item.opened_at))


def incidents_since(
    connection: Connection, since: datetime, *, app: str | None = None
) -> list[Incident]:
    """Return the incidents that were open at any time since then, the newest first."""
    found = _whole(connection, alerts_since(connection, since, app=app))
    return sorted(found, key=lambda item: item.opened_at, reverse=True)


def incidents_named(connection: Connection, name: str) -> list[Incident]:
    """Return the incidents of which an id begins with *name*, two at most."""
    begins = incidents.c.incident_id.startswith(name, autoescape=True)
    first = select(func.coalesce(incidents.c.group_id, incidents.c.incident_id)).where(begins)
    ids = connection.execute(first.distinct().limit(2)).scalars().all()
    return [found for name in ids if (found := incident(connection, name)) is not None]


def incident(connection: Connection, incident_id: str) -> Incident | None:
    """Return an incident by its id or that of one of its alerts; None when there is none."""
    found = _alerts(connection, incidents.c.incident_id == incident_id)
    return next(iter(_whole(connection, found)), None)


def snapshots(connection: Connection, incident_id: str) -> list[Snapshot]:
    """Return the frozen evidence of every event of an incident and all of its alerts, in order."""
    mine = (incidents.c.incident_id == incident_id) | (incidents.c.group_id == incident_id)
    query = (
        select(alert_events.c.snapshot)
        .join_from(alert_events, incidents, incidents.c.incident_id == alert_events.c.incident_id)
        .where(mine)
        .order_by(alert_events.c.at, alert_events.c.event_id)
    )
    return [Snapshot.model_validate(found) for found in connection.execute(query).scalars()]


def began_at(found: Incident, events: Sequence[Snapshot]) -> datetime:
    """Return when the fall behind an incident began, as far as its events say; else its alert."""
    return min([found.since, *(e.verdict.onset for e in events if e.verdict.onset)])


def deliveries(
    connection: Connection,
    *,
    incident_id: str | None = None,
    status: DeliveryStatus | None = None,
    limit: int = 1000,
) -> list[Delivery]:
    """Return messages and what became of them, the newest first."""
    query = select(*_DELIVERY_COLUMNS).order_by(
        outbox.c.created_at.desc(), outbox.c.sequence.desc(), outbox.c.delivery_id
    )
    if incident_id is not None:
        query = query.where(outbox.c.incident_id == incident_id)
    if status is not None:
        query = query.where(outbox.c.status == status)
    rows = connection.execute(query.limit(limit)).mappings()
    return [Delivery.model_validate(dict(row)) for row in rows]


def why_not_notified(
    connection: Connection, incident: Incident, channels: Collection[str], oldest: datetime
) -> str:
    """
    Return why there is no message about an incident that has no deliveries.

    *channels* are the names of those that are configured now; messages from before *oldest* are
    deleted.
    """
    group = connection.execute(
        select(alert_groups).where(alert_groups.c.group_id == incident.incident_id)
    ).first()
    fired = utc_time(incident.opened_at)
    if group is not None and not group.sequence:  # there was never a message for anybody
        silences = dict.fromkeys(a.silenced_by for a in incident.alerts if a.silenced_by)
        if silences:
            return f"silenced by {', '.join(silences)}"
        return "suppressed, as the alert was flapping"
    last = incident.updated_at if group is None else group.told_at or incident.updated_at
    if last < oldest:
        return f"messages of that time ({fired}) are deleted by now"
    now = f"; set up since: {', '.join(sorted(channels))}" if channels else ", and none is now"
    return f"no channel was set up when it fired ({fired}){now}"


def outbox_counts(connection: Connection) -> dict[DeliveryStatus, int]:
    """Count all messages by status; a status without any is 0."""
    query = select(outbox.c.status, func.count()).group_by(outbox.c.status)
    counted = {DeliveryStatus(status): count for status, count in connection.execute(query)}
    return {status: counted.get(status, 0) for status in DeliveryStatus}


def sent_since(connection: Connection, since: datetime) -> dict[str, int]:
    """Return how many messages about alerts were sent since then, by incident."""
    sent = outbox.c.status.in_(_DELIVERED)
    query = (
        select(outbox.c.incident_id, func.count())
        .where(sent, outbox.c.finished_at >= since, outbox.c.event != DIGEST)
        .group_by(outbox.c.incident_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def channel_health(connection: Connection) -> list[ChannelHealth]:
    """Return how every channel does that was ever configured."""
    columns = [alert_channels.c[name] for name in ChannelHealth.model_fields]
    rows = connection.execute(select(*columns).order_by(alert_channels.c.channel))
    return [ChannelHealth.model_validate(dict(row)) for row in rows.mappings()]


def _whole(connection: Connection, found: Sequence[Alert]) -> list[Incident]:
    """Return the incidents that alerts are part of, with all of their alerts."""
    ids = {alert.group_id for alert in found if alert.group_id is not None}
    groups: dict[str, list[Alert]] = {}
    for names in batched(ids, AT_ONCE):
        for alert in _alerts(connection, incidents.c.group_id.in_(names)):
            groups.setdefault(alert.group_id or "", []).append(alert)
    alone = [[alert] for alert in found if alert.group_id is None]
    return [Incident.of(alerts) for alerts in (*groups.values(), *alone)]


def _alerts(
    connection: Connection,
    condition: ColumnElement[bool],
    *,
    order: Sequence[ColumnElement[Any]] = (),
    app: str | None = None,
) -> list[Alert]:
    """Return alerts, each with the reason of its last event where that closed it."""
    last = (alert_events.c.incident_id == incidents.c.incident_id) & (
        alert_events.c.sequence == incidents.c.sequence
    )
    reason = alert_events.c.snapshot["reason"].as_string().label("reason")
    query = select(incidents, reason).join_from(incidents, alert_events, last, isouter=True)
    if app is not None:
        condition &= incidents.c.app == app
    found = []
    for row in connection.execute(query.where(condition).order_by(*order)).mappings():
        values = dict(row)
        ended_by = values.pop("reason")
        closed = ended_by if values["resolved_at"] and ended_by in CLOSED else None
        found.append(Alert.model_validate({**values, "closed_as": closed}))
    return found


class NoiseKey(NamedTuple):
    """What alerts are about."""

    app: str
    metric: str
    segment: str


@dataclass(slots=True, kw_only=True)
class Noise:
    """What one key did in a time range."""

    key: NoiseKey
    fired: int = 0
    acted_on: int = 0  #: somebody acknowledged it
    by_itself: int = 0  #: over, and nobody had acknowledged it
    short: int = 0  #: of those, over within ten minutes
    still_open: int = 0
    settled: int = 0  #: ends of flapping
    messages: int = 0  #: delivered; of incidents in one group, counted with the first
    longest: timedelta = timedelta(0)


def noise_since(connection: Connection, since: datetime, now: datetime) -> list[Noise]:
    """
    Count what fired since then, by key, the noisiest first; drills are left out.

    An acknowledgement counts for all incidents of the group.
    """
    columns = (
        incidents.c.incident_id, incidents.c.app, incidents.c.metric, incidents.c.segment,
        incidents.c.opened_at, incidents.c.resolved_at, alert_groups.c.acked_at,
    )  # fmt: skip
    query = (
        select(*columns)
        .join_from(
            incidents, alert_groups, alert_groups.c.group_id == incidents.c.group_id, isouter=True
        )
        .where(incidents.c.opened_at >= since, ~incidents.c.incident_id.startswith(DRILL_ID))
    )
    notified = (outbox.c.created_at >= since) & outbox.c.status.in_(_DELIVERED)
    sent = select(outbox.c.incident_id, func.count()).where(notified).group_by(outbox.c.incident_id)
    messages = {row[0]: int(row[1]) for row in connection.execute(sent)}
    ends = (alert_events.c.at >= since) & (alert_events.c.event == AlertEvent.SETTLED)
    ended = select(alert_events.c.incident_id, func.count()).where(ends)
    ended = ended.group_by(alert_events.c.incident_id)
    settled = {row[0]: int(row[1]) for row in connection.execute(ended)}
    found: dict[NoiseKey, Noise] = {}
    for row in connection.execute(query):
        key = NoiseKey(row.app, row.metric, row.segment)
        noise = found.setdefault(key, Noise(key=key))
        lasted = (row.resolved_at or now) - row.opened_at
        noise.fired += 1
        noise.longest = max(noise.longest, lasted)
        noise.acted_on += row.acked_at is not None
        noise.still_open += row.resolved_at is None
        by_itself = row.resolved_at is not None and row.acked_at is None
        noise.by_itself += by_itself
        noise.short += by_itself and lasted < SHORT
        noise.messages += messages.get(row.incident_id, 0)
        noise.settled += settled.get(row.incident_id, 0)
    return sorted(found.values(), key=lambda item: (-item.fired, -item.short, item.key))
