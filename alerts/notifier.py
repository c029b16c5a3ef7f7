"""From what happened to alerts to what people are told: groups, silences, routes, outbox rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, update

from alerts.background import Backgrounds
from alerts.evidence import AlertKey, Timers
from alerts.grouping import (
    COMMON_CAUSE_WITHIN,
    Group,
    Happened,
    Member,
    News,
    is_over,
    names_in,
    news_of,
    place,
    share,
)
from alerts.queries import read_trend
from alerts.routing import Recipient, RoutingConfig
from alerts.silencing import Silenced
from alerts.snapshot import Other, Snapshot
from alerts.store import (
    Lane,
    close_groups,
    firing_members,
    first_snapshots,
    groups_of,
    keys_ever,
    lanes_told,
    open_groups,
    reopen_groups,
    write_groups,
)
from monitor.models.alerting import AlertEvent, DeliveryStatus, Level
from monitor.store.alert_tables import outbox
from monitor.store.lease import database_now

_MOST_OTHERS = 10
_MOST_TRENDS = 50
_TO_WHO_WAS_TOLD = {AlertEvent.RESOLVED, AlertEvent.SETTLED}
_ALSO_WHO_WAS_TOLD = {AlertEvent.ESCALATED, AlertEvent.JOINED}


@dataclass(slots=True)
class Notifier:
    """Tells people of the events of one evaluation; made anew for each."""

    connection: Connection
    plan: RoutingConfig
    timers: Timers
    now: datetime
    before: dict[str, Group] = field(init=False)
    members: dict[str, list[Member]] = field(init=False)

    def __post_init__(self) -> None:
        self.before = open_groups(self.connection)
        self.members = firing_members(self.connection, self.before)

    def place(self, events: Sequence[Snapshot]) -> dict[str, Group]:
        """Find the group of every alert that fired, by incident id."""
        fired = [event for event in events if event.event is AlertEvent.FIRED]
        by_app = {
            member.key.app: self.before[group_id]
            for group_id, found in self.members.items()
            for member in found
        }
        flapping = {group.app: group for group in self.before.values() if group.flapping}
        by_cause = {group.cause: group for group in self._began_shortly_ago() if group.cause}
        again = {event.incident_id for event in fired if not event.is_first}
        was_in = groups_of(self.connection, again, self.now)
        placed = place(fired, flapping | by_app, by_cause, self._young(fired), was_in)
        self._reopen({group.group_id: group for group in placed.values()})
        return placed

    def _reopen(self, placed: Mapping[str, Group]) -> None:
        """Let groups that were over go on."""
        again = reopen_groups(self.connection, placed.keys() - self.before.keys(), self.now)
        self.before |= {group_id: placed[group_id] for group_id in again}

    def tell(
        self,
        events: Sequence[Snapshot],
        placed: Mapping[str, Group],
        hushed: Silenced,
    ) -> None:
        """
        Write what becomes of the groups, and put into the outbox what is news.

        Everything about the incidents themselves must be written already.
        """
        happened = self._happened(events, placed, hushed)
        remind_after_s = {
            Level.CRITICAL: self.timers.repeat_after_s,
            Level.WARNING: self.timers.warning_repeat_after_s,
        }
        outcomes = [
            news_of(
                each, self.now, remind_after_s=remind_after_s, group_wait_s=self.plan.group_wait_s
            )
            for each in happened
        ]
        after = [group for group, _ in outcomes]
        write_groups(self.connection, self.before, after)
        over = [
            group.group_id
            for group, each in zip(after, happened, strict=True)
            if is_over(group, each.members)
        ]
        close_groups(self.connection, over, self.now)
        self._enqueue([news for _, news in outcomes if news is not None], happened)

    def _began_shortly_ago(self) -> list[Group]:
        return [
            group
            for group in self.before.values()
            if self.now - group.opened_at <= COMMON_CAUSE_WITHIN
        ]

    def _young(self, fired: Sequence[Snapshot]) -> dict[str, set[str]]:
        """Name the apps that began a short time ago, by what they share with others."""
        apps = {g.group_id: g.app for g in self._began_shortly_ago() if g.cause is None}
        found: dict[str, set[str]] = {}
        if any(share(event) for event in fired):
            for first in first_snapshots(self.connection, apps):
                shared = share(first)
                if shared is not None:
                    found.setdefault(shared, set()).add(first.key.app)
        return found

    def _happened(
        self, events: Sequence[Snapshot], placed: Mapping[str, Group], hushed: Silenced
    ) -> list[Happened]:
        of_incident = {m.incident_id: g for g, found in self.members.items() for m in found}
        found: dict[str, Happened] = {}
        for event in (*events, *hushed.ended):
            group = placed.get(event.incident_id)
            group = group or self._known_group(event, of_incident)
            if group is not None:
                each = found.setdefault(group.group_id, Happened(group=group))
                each.events.append(event)
        now_firing = firing_members(self.connection, found)
        known = keys_ever(self.connection, found.keys() & self.before.keys())
        fired = {event.key for event in events if event.event is AlertEvent.FIRED}
        for group_id, each in found.items():
            each.members = now_firing.get(group_id, [])
            each.silenced = hushed.incident_ids
            earlier = [key for key in known.get(group_id, ()) if key not in fired]
            each.known_names = names_in(earlier, each.group)
        return list(found.values())

    def _known_group(self, event: Snapshot, of_incident: Mapping[str, str]) -> Group | None:
        """Find the group of an alert that fired before; a flapping one may not fire now."""
        group_id = of_incident.get(event.incident_id)
        if group_id is not None:
            return self.before[group_id]
        name = "\x1f".join(map(str, event.key))
        return next((g for g in self.before.values() if name in g.flapping), None)

    def _enqueue(self, news: Sequence[News], happened: Sequence[Happened]) -> None:
        loud = {each.group.group_id: each for each in happened}
        told = lanes_told(
            self.connection,
            {each.group.group_id for each in news if each.event is not AlertEvent.FIRED},
        )
        # Dispatchers go by the database's clock: a fast one of ours must not delay a message.
        due_at = min(self.now, database_now(self.connection)) if news else self.now
        rows: list[dict[str, Any]] = []
        backgrounds = Backgrounds(self.connection, self.now)
        for number, each in enumerate(news):
            lanes = self._lanes(each, loud[each.group.group_id], told)
            snapshot = message_snapshot(each)
            # In a storm nobody looks at courses, and reading them would take long.
            if lanes and number < _MOST_TRENDS:
                trend = read_trend(self.connection, snapshot.verdict)
                snapshot = snapshot.model_copy(update={"trend": trend})
                if snapshot.event not in _TO_WHO_WAS_TOLD:
                    background = backgrounds.of(snapshot)
                    snapshot = snapshot.model_copy(update={"background": background})
            rows += self._rows(snapshot, lanes, due_at)
        self._hurry([each for each in news if each.event is AlertEvent.ESCALATED], due_at)
        if rows:
            self.connection.execute(insert(outbox), rows)

    def _lanes(
        self, news: News, happened: Happened, told: Mapping[str, Sequence[Lane]]
    ) -> dict[Recipient, str | None]:
        """List who hears of it: who the routes say, and who has heard of it before."""
        group_id = news.group.group_id
        before = {
            Recipient(lane.channel, lane.address): lane.fallback for lane in told.get(group_id, ())
        }
        if news.event in _TO_WHO_WAS_TOLD:
            return before
        loud = [
            event
            for event in happened.events
            if not event.quiet and event.incident_id not in happened.silenced
        ]
        lanes = before if news.event in _ALSO_WHO_WAS_TOLD else {}
        for event in loud:
            lanes |= self.plan.recipients(self.plan.labels(event.verdict, event.level), self.now)
        return lanes

    def _rows(
        self, snapshot: Snapshot, lanes: Mapping[Recipient, str | None], due_at: datetime
    ) -> list[dict[str, Any]]:
        stored = snapshot.stored()
        waits = snapshot.event is AlertEvent.FIRED and snapshot.level is Level.WARNING
        due_at += timedelta(seconds=self.plan.group_wait_s if waits else 0)
        return [
            outbox_row(snapshot, stored, to, fallback, now=self.now, due_at=due_at)
            for to, fallback in lanes.items()
        ]

    def _hurry(self, news: Sequence[News], due_at: datetime) -> None:
        """Let nothing that got worse wait for others to join."""
        ids = [each.group.group_id for each in news]
        if ids and self.plan.group_wait_s > 0:
            waiting = (outbox.c.status == DeliveryStatus.WAITING) & (outbox.c.attempts == 0)
            connection, mine = self.connection, outbox.c.incident_id.in_(ids)
            connection.execute(update(outbox).where(mine, waiting).values(due_at=due_at))


def message_snapshot(news: News) -> Snapshot:
    """Make the evidence of a message: that of the alert that leads, told as its group."""
    group, lead = news.group, news.lead
    worst = Level.CRITICAL if Level.CRITICAL in {lead.peak, news.level} else Level.WARNING
    others = sorted(news.others, key=lambda member: (member.level, member.key))
    ended = news.event in _TO_WHO_WAS_TOLD
    return lead.model_copy(
        update={
            "incident_id": group.group_id,
            "sequence": group.sequence,
            "event": news.event,
            "level": lead.level if ended else news.level,
            "peak": worst,
            "cause": group.cause,
            "others": tuple(_other(member) for member in others[:_MOST_OTHERS]),
            "more": max(0, len(others) - _MOST_OTHERS),
        }
    )


def _other(member: Member) -> Other:
    key: AlertKey = member.key
    return Other(app=key.app, metric=key.metric, segment=key.segment, level=member.level)


def delivery_id(incident_id: str, sequence: int, recipient: Recipient) -> str:
    """Name one message to one recipient; the same on every attempt."""
    text = "\0".join((incident_id, str(sequence), recipient.channel, recipient.address))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def outbox_row(
    snapshot: Snapshot,
    stored: Mapping[str, Any],
    to: Recipient,
    fallback: str | None,
    *,
    now: datetime,
    due_at: datetime,
) -> dict[str, Any]:
    """Write one message to one recipient as a row; *stored* is the snapshot as JSON."""
    lane = (snapshot.incident_id, snapshot.sequence)
    row = waiting_row(lane, snapshot.event.value, snapshot.level, stored, to, now=now)
    return row | {"due_at": due_at, "fallback": fallback}


def waiting_row(
    lane: tuple[str, int],
    event: str,
    level: Level,
    stored: Mapping[str, Any],
    to: Recipient,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Write a message that waits as a row; *lane* is what it is about, and its number there."""
    about, sequence = lane
    return {
        "delivery_id": delivery_id(about, sequence, to),
        "incident_id": about,
        "sequence": sequence,
        "channel": to.channel,
        "recipient": to.address,
        "event": event,
        "tells": event,
        "level": level.value,
        "snapshot": stored,
        "status": DeliveryStatus.WAITING.value,
        "attempts": 0,
        "token": 0,
        "created_at": now,
        "due_at": now,
        "possible_duplicate": False,
        "fallback": None,
    }
