"""Turn verdicts into incidents, timeline and outbox, inside the caller's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from alerts.channels.base import Recipient
from alerts.escaping import plain
from alerts.evidence import AlertKey, Observation, Timers
from alerts.rules import Lines
from alerts.snapshot import Snapshot
from alerts.state import AlertState, Decision, step
from monitor.models.alerting import AlertEvent, DeliveryStatus, TimelineEvent
from monitor.models.status import Verdict
from monitor.store.alert_tables import alert_events, alert_states, incidents, outbox

_log = structlog.get_logger("groundwatch.alerts")
_SILENT = {AlertEvent.DEESCALATED}
_MOST_SAMPLES = 3
_SAMPLE_CHARS = 300


def decide(
    connection: Connection,
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
    timers: Timers,
    channels: Sequence[Recipient],
    worst: Mapping[AlertKey, tuple[str, ...]] | None = None,
    lines: Lines | None = None,
    report_url: str | None = None,
) -> list[TimelineEvent]:
    """
    Step every alert that *verdicts* speak of, and enqueue what people must know.

    Give a writing transaction, and only the verdicts of the status window. Nothing is
    sent here. *worst* (a sentence on each of the worst samples, redacted already) is
    asked only for keys with news, so it may be a lazy mapping. When several verdicts
    share a key (an evaluator was replaced), the one with the most scores speaks.
    """
    events: list[Snapshot] = []
    speaking = _one_a_key(verdicts)
    stored = _load(connection, {key.app for key in speaking})
    for key, verdict in sorted(speaking.items()):
        before, version = stored.get(key, (AlertState(key=key), None))
        decision = step(before, Observation.of(verdict), now, timers)
        if decision.state == before:
            continue
        if not _save(connection, decision.state, version, now):
            _log.warning("alert_decided_elsewhere", app=key.app, metric=key.metric)
            continue
        if decision.event is not None:
            excerpts = (worst or {}).get(key, ())
            events.append(_snapshot(before, decision, verdict, excerpts, lines, report_url))
    _write(connection, events, channels, now)
    return [snapshot.timeline_event() for snapshot in events]


def delivery_id(incident_id: str, sequence: int, recipient: Recipient) -> str:
    """Name one message to one recipient; the same on every attempt."""
    text = "\0".join((incident_id, str(sequence), recipient.channel, recipient.address))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _one_a_key(verdicts: Iterable[Verdict]) -> dict[AlertKey, Verdict]:
    speaking: dict[AlertKey, Verdict] = {}
    for verdict in verdicts:
        key = AlertKey(verdict.app, verdict.metric, verdict.segment, verdict.window_s)
        other = speaking.get(key)
        if other is None or _weight(verdict) > _weight(other):
            speaking[key] = verdict
    return speaking


def _weight(verdict: Verdict) -> tuple[int, str]:
    return verdict.n, verdict.evaluator_version


def _load(connection: Connection, apps: set[str]) -> dict[AlertKey, tuple[AlertState, int | None]]:
    if not apps:
        return {}
    rows = connection.execute(
        select(alert_states.c.state, alert_states.c.version)
        .where(alert_states.c.app.in_(apps))
        .order_by(*_KEY)
        .with_for_update()
    )
    states = ((AlertState.model_validate(row.state), row.version) for row in rows)
    return {state.key: (state, version) for state, version in states}


_KEY = (
    alert_states.c.app,
    alert_states.c.metric,
    alert_states.c.segment,
    alert_states.c.window_s,
)


def _save(connection: Connection, state: AlertState, version: int | None, now: datetime) -> bool:
    """Write the state unless another decider was faster; say whether it was written."""
    values = {
        "phase": state.phase.value,
        "state": state.model_dump(mode="json"),
        "updated_at": now,
        "version": (version or 0) + 1,
    }
    if version is None:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        fresh = dialect.insert(alert_states).values(**state.key._asdict(), **values)
        written = fresh.on_conflict_do_nothing().returning(alert_states.c.version)
        return connection.execute(written).first() is not None
    same = [column == part for column, part in zip(_KEY, state.key, strict=True)]
    changed = update(alert_states).where(*same, alert_states.c.version == version)
    return connection.execute(changed.values(**values)).rowcount == 1


def _snapshot(
    before: AlertState,
    decision: Decision,
    verdict: Verdict,
    excerpts: tuple[str, ...],
    lines: Lines | None,
    report_url: str | None,
) -> Snapshot:
    state = decision.state
    assert decision.event is not None
    return Snapshot.model_validate(
        {
            "incident_id": state.incident_id,
            "sequence": state.sequence,
            "event": decision.event,
            "reason": decision.reason.value,
            "level": state.level,
            "peak": state.peak,
            "previous_level": None if decision.event is AlertEvent.FIRED else before.level,
            "status_before": state.status_before,
            "since": state.breach_since,
            "opened_at": state.opened_at,
            "at": state.seen_at,
            "verdict": verdict,
            "lines": lines,
            "samples": _clean(excerpts),
            "report_url": report_url,
        }
    )


def _clean(excerpts: Iterable[str]) -> tuple[str, ...]:
    clean = (plain(text, _SAMPLE_CHARS) for text in excerpts)
    return tuple(text for text in clean if text)[:_MOST_SAMPLES]


def _write(
    connection: Connection,
    events: Sequence[Snapshot],
    channels: Sequence[Recipient],
    now: datetime,
) -> None:
    opened = [_incident(event) for event in events if event.event is AlertEvent.FIRED]
    if opened:
        connection.execute(insert(incidents), opened)
    for event in events:
        if event.event is not AlertEvent.FIRED:
            _update_incident(connection, event)
    lines = [_timeline_row(event) for event in events]
    if lines:
        connection.execute(insert(alert_events), lines)
    news = [event for event in events if event.event not in _SILENT]
    messages = [_outbox_row(event, to, now) for event in news for to in dict.fromkeys(channels)]
    if messages:
        connection.execute(insert(outbox), messages)


def _incident(event: Snapshot) -> dict[str, Any]:
    return {
        **event.key._asdict(),
        "incident_id": event.incident_id,
        "level": event.level.value,
        "peak_level": event.peak.value,
        "since": event.since,
        "opened_at": event.opened_at,
        "updated_at": event.at,
        "sequence": event.sequence,
    }


def _update_incident(connection: Connection, event: Snapshot) -> None:
    connection.execute(
        update(incidents)
        .where(incidents.c.incident_id == event.incident_id)
        .values(
            level=event.level.value,
            peak_level=event.peak.value,
            updated_at=event.at,
            resolved_at=event.at if event.event is AlertEvent.RESOLVED else None,
            sequence=event.sequence,
        )
    )


def _timeline_row(event: Snapshot) -> dict[str, Any]:
    return {
        "incident_id": event.incident_id,
        "sequence": event.sequence,
        "event": event.event.value,
        "at": event.at,
        "snapshot": event.model_dump(mode="json"),
    }


def _outbox_row(event: Snapshot, to: Recipient, now: datetime) -> dict[str, Any]:
    return {
        "delivery_id": delivery_id(event.incident_id, event.sequence, to),
        "incident_id": event.incident_id,
        "sequence": event.sequence,
        "channel": to.channel,
        "recipient": to.address,
        "event": event.event.value,
        "tells": event.event.value,
        "level": event.level.value,
        "snapshot": event.model_dump(mode="json"),
        "status": DeliveryStatus.WAITING.value,
        "attempts": 0,
        "token": 0,
        "created_at": now,
        "due_at": now,
        "possible_duplicate": False,
    }
