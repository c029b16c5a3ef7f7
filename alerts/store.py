"""Groups, states, incidents and silences in the store: read, locked, compared and set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Row, bindparam, case, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from alerts.grouping import AlertGroup, Member
from alerts.model import SAMPLE_CHARS, AlertKey, AlertState, Phase, Snapshot
from alerts.routing import Recipient, Silence, parse_all
from monitor.errors import SettingsError, StoreError
from monitor.format import plain_text
from monitor.models.alerting import AlertEvent, Severity
from monitor.store.alert_tables import (
    alert_events,
    alert_groups,
    alert_states,
    incidents,
    outbox,
    silences,
)
from monitor.store.engine import batched

_log = structlog.get_logger("groundwatch.alerts")
#: An incident that is not evaluated for so long is closed.
FORGOTTEN_AFTER = timedelta(hours=24)
_OPEN = (Phase.FIRING.value, Phase.RECOVERING.value)
_KEY = (
    alert_states.c.app,
    alert_states.c.metric,
    alert_states.c.segment,
    alert_states.c.window_s,
)
#: Ids in one query.
AT_ONCE = 500
#: In place of a quote that was deleted.
_DELETED = "(deleted)"
#: A reopened incident keeps its worst level.
_WORST_SO_FAR = case(
    (incidents.c.peak_level == Severity.CRITICAL.value, incidents.c.peak_level),
    else_=bindparam("peak"),
)


def open_groups(connection: Connection) -> dict[str, AlertGroup]:
    """Return the groups that are open, by id, and lock them."""
    rows = connection.execute(
        select(alert_groups).where(alert_groups.c.resolved_at.is_(None)).with_for_update()
    )
    return {row.group_id: _group(row) for row in rows}


def groups_of(
    connection: Connection, incident_ids: Collection[str], now: datetime
) -> dict[str, AlertGroup]:
    """Return the groups that incidents were in, by incident; what is over starts over."""
    found: dict[str, AlertGroup] = {}
    columns = (incidents.c.incident_id, *alert_groups.c)
    for names in batched(sorted(incident_ids), AT_ONCE):
        query = (
            select(*columns)
            .join_from(incidents, alert_groups, incidents.c.group_id == alert_groups.c.group_id)
            .where(incidents.c.incident_id.in_(names))
        )
        for row in connection.execute(query):
            group = _group(row)
            found[row.incident_id] = replace(group, opened_at=now) if row.resolved_at else group
    return found


def reopen_groups(connection: Connection, group_ids: Collection[str], now: datetime) -> set[str]:
    """Reopen groups that were over; return the ids of those that there were."""
    found: set[str] = set()
    for names in batched(sorted(group_ids), AT_ONCE):
        done = connection.execute(
            update(alert_groups)
            .where(alert_groups.c.group_id.in_(names))
            .values(resolved_at=None, opened_at=now)
            .returning(alert_groups.c.group_id)
        )
        found |= set(done.scalars())
    return found


def members_of(
    connection: Connection, group_ids: Collection[str], *, firing: bool = False
) -> dict[str, list[Member]]:
    """Return the alerts of each of the groups; only those that are *firing*, if that is set."""
    found: dict[str, list[Member]] = {}
    columns = incidents.c
    for names in batched(sorted(group_ids), AT_ONCE):
        query = select(incidents, columns.silenced_by.label("silenced_by"))
        query = query.where(columns.group_id.in_(names))
        if firing:
            query = query.where(columns.resolved_at.is_(None))
        for row in connection.execute(query.order_by(columns.opened_at, columns.incident_id)):
            member = Member(
                row.incident_id,
                AlertKey(row.app, row.metric, row.segment, row.window_s),
                Severity(row.level),
                silenced=row.silenced_by is not None,
                peak=Severity(row.peak_level),
                over_at=row.resolved_at,
            )
            found.setdefault(row.group_id, []).append(member)
    return found


def first_snapshots(connection: Connection, group_ids: Collection[str]) -> Iterator[Snapshot]:
    """Yield the evidence with which each of the groups began."""
    for names in batched(sorted(group_ids), AT_ONCE):
        first = alert_events.c.incident_id.in_(names) & (alert_events.c.sequence == 1)
        for found in connection.execute(select(alert_events.c.snapshot).where(first)).scalars():
            yield Snapshot.model_validate(found)


def notified_recipients(
    connection: Connection, group_ids: Collection[str]
) -> dict[str, dict[Recipient, str | None]]:
    """Return whom messages about each group went to, delivered or not, each with its fallback."""
    found: dict[str, dict[Recipient, str | None]] = {}
    table = outbox.c
    columns = (table.incident_id, table.channel, table.recipient, table.fallback)
    for names in batched(sorted(group_ids), AT_ONCE):
        query = select(*columns).distinct().where(table.incident_id.in_(names))
        for group_id, channel, address, fallback in connection.execute(query):
            found.setdefault(group_id, {})[Recipient(channel, address)] = fallback
    return found


def write_groups(
    connection: Connection, before: Mapping[str, AlertGroup], after: Sequence[AlertGroup]
) -> None:
    """Insert the groups that are new, and update those that changed."""
    new = [_values(group) for group in after if group.group_id not in before]
    if new:
        connection.execute(insert(alert_groups), new)
    changed = [group for group in after if before.get(group.group_id, group) != group]
    if changed:
        statement = update(alert_groups).where(alert_groups.c.group_id == bindparam("id"))
        names = ("level", "told_at", "sequence", "flapping", "acked_until")
        rows = [
            {"id": group.group_id} | {name: _values(group)[name] for name in names}
            for group in changed
        ]
        connection.execute(statement, rows)


def close_groups(connection: Connection, group_ids: Collection[str], now: datetime) -> None:
    """Close these groups."""
    for names in batched(sorted(group_ids), AT_ONCE):
        over = update(alert_groups).where(alert_groups.c.group_id.in_(names))
        connection.execute(over.values(resolved_at=now))


def acknowledge(
    connection: Connection, group_id: str, *, by: str, note: str, now: datetime, until: datetime
) -> bool:
    """Stop the reminders about a group until then; return whether it is still open."""
    done = connection.execute(
        update(alert_groups)
        .where(alert_groups.c.group_id == group_id, alert_groups.c.resolved_at.is_(None))
        .values(acked_by=by[:200], ack_note=note[:500], acked_at=now, acked_until=until)
    )
    return done.rowcount == 1


class Ack(NamedTuple):
    """Who acknowledged a group, with what note, and until when."""

    by: str
    note: str
    until: datetime


def acknowledgement(connection: Connection, group_id: str) -> Ack | None:
    """Return the acknowledgement of a group; None without any, or when it got worse since."""
    return _acks(connection, alert_groups.c.group_id == group_id).get(group_id)


def acknowledgements(connection: Connection) -> dict[str, Ack]:
    """Return the acknowledgements of the open groups, by group id."""
    return _acks(connection, alert_groups.c.resolved_at.is_(None))


def _acks(connection: Connection, which: ColumnElement[bool]) -> dict[str, Ack]:
    columns = alert_groups.c
    acked = columns.acked_until.is_not(None) & columns.acked_by.is_not(None)
    query = select(columns.group_id, columns.acked_by, columns.ack_note, columns.acked_until)
    rows = connection.execute(query.where(which, acked))
    return {name: Ack(by, note or "", until) for name, by, note, until in rows}


_GROUP = tuple(field.name for field in fields(AlertGroup))


def _group(row: Row[Any]) -> AlertGroup:
    values = {name: getattr(row, name) for name in _GROUP}
    values["level"] = None if row.level is None else Severity(row.level)
    return AlertGroup(**values | {"flapping": frozenset(row.flapping)})


def _values(group: AlertGroup) -> dict[str, Any]:
    values = {name: getattr(group, name) for name in _GROUP}
    values["level"] = None if group.level is None else group.level.value
    return values | {"flapping": sorted(group.flapping)}


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
    found: dict[AlertKey, Stored] = {}
    for row in rows:
        key, state = AlertKey(row.app, row.metric, row.segment, row.window_s), None
        try:
            state = AlertState.model_validate(row.state)
        except ValidationError as error:
            _log.error("alert_state_unreadable", **key._asdict(), errors=error.error_count())
        # The end of what was flapping has still to be reported.
        waits = state is not None and state.quiet_since is not None
        old = waits and row.updated_at <= now - FORGOTTEN_AFTER
        found[key] = Stored(state, row.version, bool(row.forgotten or old))
    return found


def read_state(connection: Connection, key: AlertKey) -> AlertState | None:
    """Return the state of an alert, without a lock; None without any, or when it is unreadable."""
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
    Write states unless another decider was faster; return of each whether it was written.

    With each state comes the version that was found, or 0 when there was none. Raise StoreError if
    states that were read and locked have changed; the transaction must not commit.
    """
    inserted = set()
    fresh = [
        state.key._asdict() | _state_values(state, 1, now)
        for state, version in changes
        if version == 0
    ]
    if fresh:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        insertion = dialect.insert(alert_states).on_conflict_do_nothing().returning(*_KEY)
        inserted = {tuple(row) for row in connection.execute(insertion, fresh)}
    known = [
        {f"its_{name}": part for name, part in state.key._asdict().items()}
        | {"found": version}
        | _state_values(state, version + 1, now)
        for state, version in changes
        if version > 0
    ]
    updated = True
    if known:
        same = [column == bindparam(f"its_{column.name}") for column in _KEY]
        names = ("phase", "state", "updated_at", "version")
        statement = (
            update(alert_states)
            .where(*same, alert_states.c.version == bindparam("found"))
            .values({name: bindparam(name) for name in names})
        )
        count = connection.execute(statement, known).rowcount
        updated = count == len(known)
        if not updated and len(known) > 1:
            raise StoreError("alert states changed while they were locked; it is tried again")
    return [tuple(state.key) in inserted if version == 0 else updated for state, version in changes]


def _state_values(state: AlertState, version: int, now: datetime) -> dict[str, Any]:
    return {
        "phase": state.phase.value,
        # Half as long without what is as usual; a release that reads it fills that in.
        "state": state.model_dump(mode="json", exclude_defaults=True),
        "updated_at": now,
        "version": version,
    }


def write_incidents(
    connection: Connection, events: Sequence[Snapshot], groups: Mapping[str, AlertGroup]
) -> None:
    """Write what happened to incidents, and their timeline; each event's group is in *groups*."""
    opened, reopened, changed, settled = [], [], [], []
    for event in events:
        row = {"updated_at": event.at, "sequence": event.sequence, "level": event.level.value}
        if event.is_first:
            opened.append(
                {
                    **event.key._asdict(),
                    **row,
                    "incident_id": event.incident_id,
                    "peak_level": event.peak.value,
                    "since": event.since,
                    "opened_at": event.opened_at,
                    "group_id": groups[event.incident_id].group_id,
                }
            )
            continue
        row |= {"id": event.incident_id, "peak": event.peak.value}
        if event.event is AlertEvent.SETTLED:  # it was over before
            settled.append({name: row[name] for name in ("id", "updated_at", "sequence")})
            continue
        row["resolved_at"] = event.at if event.event is AlertEvent.RESOLVED else None
        if event.event is AlertEvent.FIRED:
            group_id = groups[event.incident_id].group_id
            reopened.append(row | {"group_id": group_id, "silenced_by": None})
        else:
            changed.append(row)
    timeline = [
        {
            "incident_id": event.incident_id,
            "sequence": event.sequence,
            "event": event.event.value,
            "at": event.at,
            "snapshot": event.stored(),
        }
        for event in events
    ]
    one = update(incidents).where(incidents.c.incident_id == bindparam("id"))
    worse = one.values(peak_level=_WORST_SO_FAR)
    for statement, rows in (
        (insert(incidents), opened),
        (worse, reopened),
        (worse, changed),
        (one, settled),
        (insert(alert_events), timeline),
    ):
        if rows:
            connection.execute(statement, rows)


def last_snapshot(connection: Connection, incident_id: str) -> Snapshot:
    """Return the frozen evidence of the last event of an incident."""
    query = (
        select(alert_events.c.snapshot)
        .where(alert_events.c.incident_id == incident_id)
        .order_by(alert_events.c.sequence.desc())
        .limit(1)
    )
    return Snapshot.model_validate(connection.execute(query).scalar_one())


def silences_after(connection: Connection, moment: datetime) -> list[Silence]:
    """Return the silences that end after *moment*, the first to end first."""
    query = select(silences).where(silences.c.ends_at > moment).order_by(silences.c.ends_at)
    found = []
    for row in connection.execute(query):
        try:
            found.append(_silence(row))
        except SettingsError as error:  # of another version: mutes nothing, and stops nobody
            _log.warning("silence_unreadable", silence=row.silence_id, error=str(error))
    return found


def silence_named(connection: Connection, silence_id: str) -> Silence | None:
    """Return a silence, over or not; None when there is none of that id."""
    query = select(silences).where(silences.c.silence_id == silence_id)
    row = connection.execute(query).first()
    return None if row is None else _silence(row)


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        silence_id=row.silence_id, matchers=parse_all(row.matchers), starts_at=row.starts_at,
        ends_at=row.ends_at, author=row.author, comment=row.comment,
    )  # fmt: skip


def forget_quotes(connection: Connection, explanations: Iterable[str], *, dry_run: bool) -> int:
    """
    Delete every quote of these explanations from timelines and messages; return how many had one.

    Messages that were delivered already are beyond reach. Questions and answers are not stored
    with alerts, only the id of their sample.
    """
    quotes = {plain_text(text, SAMPLE_CHARS) for text in explanations}
    if not quotes:
        return 0
    found = 0
    for table, key in ((alert_events, "event_id"), (outbox, "delivery_id")):
        for name, snapshot in connection.execute(select(table.c[key], table.c.snapshot)).all():
            quoted = snapshot.get("samples") or []
            if quotes.isdisjoint(quoted):
                continue
            found += 1
            if not dry_run:
                kept = [_DELETED if text in quotes else text for text in quoted]
                row = update(table).where(table.c[key] == name)
                connection.execute(row.values(snapshot={**snapshot, "samples": kept}))
    return found
