"""Groups of alerts in the store: what is open, what fires in them, and who was told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from alerts.evidence import AlertKey
from alerts.grouping import Group, Member
from alerts.snapshot import Snapshot
from monitor.models.alerting import Level
from monitor.store.alert_tables import alert_events, alert_groups, incidents, outbox

_MOST_NAMES = 500


class Lane(NamedTuple):
    """A recipient who was told of a group, and the channel that stands in."""

    channel: str
    address: str
    fallback: str | None


def open_groups(connection: Connection) -> dict[str, Group]:
    """Read the groups that are not over, by id; of writers one at a time."""
    rows = connection.execute(
        select(alert_groups).where(alert_groups.c.resolved_at.is_(None)).with_for_update()
    )
    return {row.group_id: _group(row) for row in rows}


def groups_of(
    connection: Connection, incident_ids: Collection[str], now: datetime
) -> dict[str, Group]:
    """Read the groups that incidents were in, by incident; what is over begins anew."""
    found: dict[str, Group] = {}
    columns = (incidents.c.incident_id, *alert_groups.c)
    for names in _in_parts(incident_ids):
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
    """Note that groups which were over go on; name those that there were."""
    found: set[str] = set()
    for names in _in_parts(group_ids):
        done = connection.execute(
            update(alert_groups)
            .where(alert_groups.c.group_id.in_(names))
            .values(resolved_at=None, opened_at=now)
            .returning(alert_groups.c.group_id)
        )
        found |= set(done.scalars())
    return found


def firing_members(connection: Connection, group_ids: Collection[str]) -> dict[str, list[Member]]:
    """List what fires in each of the groups."""
    found: dict[str, list[Member]] = {}
    for names in _in_parts(group_ids):
        mine = incidents.c.group_id.in_(names) & incidents.c.resolved_at.is_(None)
        for row in connection.execute(select(incidents).where(mine)):
            key = AlertKey(row.app, row.metric, row.segment, row.window_s)
            member = Member(row.incident_id, key, Level(row.level), row.hushed_by is not None)
            found.setdefault(row.group_id, []).append(member)
    return found


def keys_ever(connection: Connection, group_ids: Collection[str]) -> dict[str, list[AlertKey]]:
    """List all that ever fired in each of the groups."""
    found: dict[str, list[AlertKey]] = {}
    columns = (incidents.c.app, incidents.c.metric, incidents.c.segment, incidents.c.window_s)
    for names in _in_parts(group_ids):
        query = select(incidents.c.group_id, *columns).where(incidents.c.group_id.in_(names))
        for group_id, *key in connection.execute(query):
            found.setdefault(group_id, []).append(AlertKey(*key))
    return found


def first_snapshots(connection: Connection, group_ids: Collection[str]) -> Iterator[Snapshot]:
    """Give the evidence with which each of the groups began."""
    for names in _in_parts(group_ids):
        first = alert_events.c.incident_id.in_(names) & (alert_events.c.sequence == 1)
        for found in connection.execute(select(alert_events.c.snapshot).where(first)).scalars():
            yield Snapshot.model_validate(found)


def lanes_told(connection: Connection, group_ids: Collection[str]) -> dict[str, list[Lane]]:
    """List who was told of each of the groups, whether it has reached them yet or not."""
    found: dict[str, dict[tuple[str, str], Lane]] = {}
    table = outbox.c
    columns = (table.incident_id, table.channel, table.recipient, table.fallback)
    for names in _in_parts(group_ids):
        query = select(*columns).distinct().where(table.incident_id.in_(names))
        for group_id, channel, address, fallback in connection.execute(query):
            lane = Lane(channel, address, fallback)
            found.setdefault(group_id, {})[channel, address] = lane
    return {group_id: list(lanes.values()) for group_id, lanes in found.items()}


def write_groups(
    connection: Connection, before: Mapping[str, Group], after: Sequence[Group]
) -> None:
    """Insert the groups that are new, and update those that changed."""
    new = [_values(group) for group in after if group.group_id not in before]
    if new:
        connection.execute(insert(alert_groups), new)
    changed = [group for group in after if before.get(group.group_id, group) != group]
    if changed:
        statement = update(alert_groups).where(alert_groups.c.group_id == bindparam("id"))
        names = ("level", "told_at", "sequence", "flapping", "acked_until")
        rows = [{"id": group.group_id} | _some(_values(group), names) for group in changed]
        connection.execute(statement, rows)


def close_groups(connection: Connection, group_ids: Collection[str], now: datetime) -> None:
    """Note that these groups are over."""
    for names in _in_parts(group_ids):
        connection.execute(
            update(alert_groups).where(alert_groups.c.group_id.in_(names)).values(resolved_at=now)
        )


def acknowledge(
    connection: Connection, group_id: str, *, by: str, note: str, now: datetime, until: datetime
) -> bool:
    """Stop the reminders about a group until then; say whether it is still open."""
    done = connection.execute(
        update(alert_groups)
        .where(alert_groups.c.group_id == group_id, alert_groups.c.resolved_at.is_(None))
        .values(acked_by=by[:200], ack_note=note[:500], acked_at=now, acked_until=until)
    )
    return done.rowcount == 1


class Ack(NamedTuple):
    """Somebody looks after a group."""

    by: str
    note: str
    until: datetime


def acknowledgement(connection: Connection, group_id: str) -> Ack | None:
    """Say who looks after a group; None when nobody said so, or it got worse since."""
    row = connection.execute(
        select(alert_groups).where(alert_groups.c.group_id == group_id)
    ).first()
    if row is None or row.acked_until is None or row.acked_by is None:
        return None
    return Ack(row.acked_by, row.ack_note or "", row.acked_until)


def acknowledgements(connection: Connection) -> dict[str, Ack]:
    """Say who looks after the groups that are not over, by their id."""
    columns = alert_groups.c
    rows = connection.execute(
        select(columns.group_id, columns.acked_by, columns.ack_note, columns.acked_until).where(
            columns.resolved_at.is_(None),
            columns.acked_until.is_not(None),
            columns.acked_by.is_not(None),
        )
    )
    return {row.group_id: Ack(row.acked_by, row.ack_note or "", row.acked_until) for row in rows}


def _group(row: Row[Any]) -> Group:
    return Group(
        group_id=row.group_id,
        app=row.app,
        cause=row.cause,
        opened_at=row.opened_at,
        level=None if row.level is None else Level(row.level),
        told_at=row.told_at,
        sequence=row.sequence,
        flapping=frozenset(row.flapping),
        acked_until=row.acked_until,
    )


def _values(group: Group) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "app": group.app,
        "cause": group.cause,
        "opened_at": group.opened_at,
        "level": None if group.level is None else group.level.value,
        "told_at": group.told_at,
        "sequence": group.sequence,
        "flapping": sorted(group.flapping),
        "acked_until": group.acked_until,
    }


def _some(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _in_parts(names: Collection[str]) -> Iterator[list[str]]:
    """Cut a long list: databases bound the number of parameters."""
    ordered = sorted(names)
    for begin in range(0, len(ordered), _MOST_NAMES):
        yield ordered[begin : begin + _MOST_NAMES]
