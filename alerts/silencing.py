"""Apply silences to what fires: hold back, and tell when a silence ends too early."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from alerts.evidence import AlertKey
from alerts.queries import last_snapshot, open_incidents
from alerts.routing import (
    Matcher,
    RoutingConfig,
    Silence,
    SilenceRule,
    all_match,
    parse_all,
    silence_for,
)
from alerts.snapshot import Snapshot
from monitor.errors import SettingsError
from monitor.models.alerting import AlertEvent, Incident, Level
from monitor.models.status import Verdict
from monitor.store.alert_tables import incidents, silences
from monitor.store.verdicts import read_verdicts


@dataclass(slots=True)
class Silenced:
    """What is held back now, and what is held back no more though it still fires."""

    incident_ids: set[str] = field(default_factory=set)
    ended: list[Snapshot] = field(default_factory=list)


def hush(
    connection: Connection,
    plan: RoutingConfig,
    events: Sequence[Snapshot],
    verdicts: Mapping[AlertKey, Verdict],
    now: datetime,
) -> Silenced:
    """
    Say which incidents are silenced now, and note it with them.

    *events* are those of this evaluation, whose incidents are written already.
    """
    quieting: list[SilenceRule] = [*silences_after(connection, now), *plan.maintenance]
    found = Silenced()
    changes = []
    for row in _to_look_at(connection, all_open=bool(quieting)):
        verdict = verdicts.get(AlertKey(row.app, row.metric, row.segment, row.window_s))
        verdict = verdict or last_snapshot(connection, row.incident_id).verdict
        holding = silence_for(quieting, plan.labels(verdict, Level(row.level)), now)
        if holding is not None:
            found.incident_ids.add(row.incident_id)
        elif row.silenced_by is not None:
            found.ended += _ended(connection, row, verdict, now)
        name = None if holding is None else holding.silence_id
        if name != row.silenced_by:
            changes.append({"id": row.incident_id, "by": name})
    if changes:
        which = incidents.c.incident_id == bindparam("id")
        connection.execute(
            update(incidents).where(which).values(silenced_by=bindparam("by")), changes
        )
    found.incident_ids |= _ends_held_back(plan, quieting, events, now)
    return found


def _to_look_at(connection: Connection, *, all_open: bool) -> list[Row[Any]]:
    by = incidents.c.silenced_by.label("silenced_by")
    query = select(incidents, by).where(incidents.c.resolved_at.is_(None))
    if not all_open:
        query = query.where(incidents.c.silenced_by.is_not(None))
    return list(connection.execute(query))


def _ends_held_back(
    plan: RoutingConfig, quieting: Sequence[SilenceRule], events: Sequence[Snapshot], now: datetime
) -> set[str]:
    """Name the incidents that fire no more, so that their end is held back all the same."""
    return {
        event.incident_id
        for event in events
        if event.event is not AlertEvent.FIRED
        and silence_for(quieting, plan.labels(event.verdict, event.level), now)
    }


def _ended(
    connection: Connection, row: Row[Any], verdict: Verdict, now: datetime
) -> list[Snapshot]:
    last = last_snapshot(connection, row.incident_id)
    if last.flapping:
        return []
    silence = silence_named(connection, row.silenced_by)
    by = row.silenced_by if silence is None else f"{silence.author}: {silence.comment}"
    news = {
        "event": AlertEvent.UNSILENCED,
        "verdict": verdict,
        "at": now,
        "quiet": False,
        "note": f"it was silenced by {by}",
    }
    return [last.model_copy(update=news)]


# --- silence preview ---
# What a silence would hold back, before there is one.


class Preview(NamedTuple):
    """What fires now, what of it would be held back, and what is odd about the matchers."""

    firing: int
    held: list[Incident]
    warning: str = ""


def preview(connection: Connection, plan: RoutingConfig, matchers: Sequence[Matcher]) -> Preview:
    """Tell what a silence with these matchers would hold back now."""
    firing = open_incidents(connection)
    held = [i for i in firing if all_match(matchers, _labels(connection, plan, i))]
    known = list(read_verdicts(connection).values())
    both = [plan.labels(verdict, level) for verdict in known for level in Level]
    could = sum(all_match(matchers, labels) for labels in both)
    warning = ""
    if known and not could:
        warning = "it matches nothing that is evaluated; is a name misspelt?"
    elif known and could == len(both):
        warning = "it matches everything there is"
    return Preview(len(firing), held, warning)


def _labels(connection: Connection, plan: RoutingConfig, incident: Incident) -> dict[str, str]:
    last = last_snapshot(connection, incident.incident_id)
    return plan.labels(last.verdict, incident.level)


# --- stored silences ---
# Silences in the store: add, list, end early.


#: A silence that is meant to last for longer is one that somebody forgets.
LONGEST = timedelta(days=30)


def add_silence(
    connection: Connection,
    matchers: Sequence[Matcher],
    *,
    now: datetime,
    ends_at: datetime,
    author: str,
    comment: str,
    starts_at: datetime | None = None,
) -> Silence:
    """
    Write a silence down; it holds from the next evaluation on.

    Raises
    ------
    SettingsError
        If it matches everything by having no matcher, has no end within 30 days, or
        nobody says who wants it and why.
    """
    silence = Silence(
        silence_id=uuid.uuid4().hex[:8],
        matchers=tuple(matchers),
        starts_at=starts_at or now,
        ends_at=ends_at,
        author=author.strip(),
        comment=comment.strip(),
    )
    _check(silence, now)
    connection.execute(insert(silences), [_row(silence, now)])
    return silence


def expire_silence(connection: Connection, silence_id: str, now: datetime) -> bool:
    """End a silence now; say whether there was one to end."""
    ended = connection.execute(
        update(silences)
        .where(silences.c.silence_id == silence_id, silences.c.ends_at > now)
        .values(ends_at=now)
    )
    return ended.rowcount == 1


def silences_after(connection: Connection, moment: datetime) -> list[Silence]:
    """List the silences that end after *moment*, the first to end first."""
    query = select(silences).where(silences.c.ends_at > moment).order_by(silences.c.ends_at)
    return [_silence(row) for row in connection.execute(query)]


def silence_named(connection: Connection, silence_id: str) -> Silence | None:
    """Find a silence, over or not."""
    query = select(silences).where(silences.c.silence_id == silence_id)
    row = connection.execute(query).first()
    return None if row is None else _silence(row)


def _check(silence: Silence, now: datetime) -> None:
    if not silence.matchers:
        raise SettingsError("a silence needs a matcher, such as app=support-bot")
    if not silence.author or not silence.comment:
        raise SettingsError("a silence needs an author and a comment: who wants it, and why")
    if silence.ends_at <= max(now, silence.starts_at):
        raise SettingsError("the silence would end before it begins")
    if silence.ends_at - silence.starts_at > LONGEST:
        raise SettingsError(f"a silence may last {LONGEST.days} days at most")


def _row(silence: Silence, now: datetime) -> dict[str, Any]:
    return {
        "silence_id": silence.silence_id,
        "matchers": [str(matcher) for matcher in silence.matchers],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "author": silence.author[:200],
        "comment": silence.comment[:1000],
        "created_at": now,
    }


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        silence_id=row.silence_id,
        matchers=parse_all(row.matchers),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        author=row.author,
        comment=row.comment,
    )
