"""How much each key has disturbed people, and whether it was worth it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from monitor.models.alerting import DRILL_ID, AlertEvent, DeliveryStatus
from monitor.store.alert_tables import alert_events, alert_groups, incidents, outbox

#: What is over so soon, untouched, was hardly worth telling.
SHORT = timedelta(minutes=10)
_TOLD = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)


class NoiseKey(NamedTuple):
    """What alerts are about."""

    app: str
    metric: str
    segment: str


@dataclass(slots=True, kw_only=True)
class Noise:
    """What one key did in a stretch of time."""

    key: NoiseKey
    fired: int = 0
    acted_on: int = 0  #: somebody acknowledged it
    by_itself: int = 0  #: over, and nobody had acknowledged it
    short: int = 0  #: of those, over within ten minutes
    still_open: int = 0
    settled: int = 0  #: ends of flapping
    messages: int = 0  #: that reached somebody; of incidents told together, with the first
    longest: timedelta = timedelta(0)


def noise_since(connection: Connection, since: datetime, now: datetime) -> list[Noise]:
    """
    Count what fired since then, by key, the noisiest first; drills are left out.

    What was acknowledged is acknowledged for all incidents that were told with it.
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
    messages, settled = _messages(connection, since), _settled(connection, since)
    found: dict[NoiseKey, Noise] = {}
    for row in connection.execute(query):
        key = NoiseKey(row.app, row.metric, row.segment)
        noise = found.setdefault(key, Noise(key=key))
        _add(noise, row, now)
        noise.messages += messages[row.incident_id]
        noise.settled += settled[row.incident_id]
    return sorted(found.values(), key=lambda item: (-item.fired, -item.short, item.key))


def _add(noise: Noise, row: Any, now: datetime) -> None:
    lasted = (row.resolved_at or now) - row.opened_at
    noise.fired += 1
    noise.longest = max(noise.longest, lasted)
    noise.acted_on += row.acked_at is not None
    if row.resolved_at is None:
        noise.still_open += 1
    elif row.acked_at is None:
        noise.by_itself += 1
        noise.short += lasted < SHORT


def _messages(connection: Connection, since: datetime) -> Counter[str]:
    told = (outbox.c.created_at >= since) & outbox.c.status.in_(_TOLD)
    query = select(outbox.c.incident_id, func.count()).where(told).group_by(outbox.c.incident_id)
    return Counter({row[0]: row[1] for row in connection.execute(query)})


def _settled(connection: Connection, since: datetime) -> Counter[str]:
    ends = (alert_events.c.at >= since) & (alert_events.c.event == AlertEvent.SETTLED)
    query = select(alert_events.c.incident_id, func.count()).where(ends)
    query = query.group_by(alert_events.c.incident_id)
    return Counter({row[0]: row[1] for row in connection.execute(query)})
