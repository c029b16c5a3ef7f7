"""From what happened to alerts to messages in the outbox: groups, silences, routes, recipients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, update

from alerts.background import Backgrounds, read_trend
from alerts.evidence import Timers
from alerts.grouping import (
    COMMON_CAUSE_WITHIN,
    AlertGroup,
    Happened,
    Member,
    News,
    is_over,
    key_name,
    loud_events,
    names_in,
    news_of,
    place,
)
from alerts.queries import last_snapshot
from alerts.routing import Recipient, RoutingConfig
from alerts.silencing import Silenced
from alerts.snapshot import Other, Snapshot
from alerts.store import (
    close_groups,
    firing_members,
    first_snapshots,
    groups_of,
    keys_ever,
    open_groups,
    recipients_told,
    reopen_groups,
    write_groups,
)
from monitor.models.alerting import AlertEvent, DeliveryStatus, Severity
from monitor.store.alert_tables import alert_channels, outbox
from monitor.store.engine import insert_new
from monitor.store.lease import database_now

_MOST_OTHERS = 10
_MOST_WITH_BACKGROUND = 50
_ENDS = {AlertEvent.RESOLVED, AlertEvent.SETTLED}
_ALSO_TO_THOSE_TOLD = {AlertEvent.ESCALATED, AlertEvent.JOINED}
_ADDED = "it was already firing when this channel was set up"


@dataclass(slots=True)
class Notifier:
    """Notifies people of the events of one evaluation; made anew for each."""

    connection: Connection
    plan: RoutingConfig
    timers: Timers
    now: datetime
    before: dict[str, AlertGroup] = field(init=False)
    members: dict[str, list[Member]] = field(init=False)

    def __post_init__(self) -> None:
        self.before = open_groups(self.connection)
        self.members = firing_members(self.connection, self.before)

    def assign_groups(self, events: Sequence[Snapshot]) -> dict[str, AlertGroup]:
        """Return the group of every alert that fired, by incident id; reopen it if it was over."""
        fired = [event for event in events if event.event is AlertEvent.FIRED]
        by_app = {group.app: group for group in self.before.values() if group.flapping} | {
            member.key.app: self.before[group_id]
            for group_id, found in self.members.items()
            for member in found
        }
        recent = [
            group
            for group in self.before.values()
            if self.now - group.opened_at <= COMMON_CAUSE_WITHIN
        ]
        by_cause = {group.cause: group for group in recent if group.cause}
        young: dict[str, set[str]] = {}
        if any(event.shared_cause for event in fired):
            alone = [group.group_id for group in recent if group.cause is None]
            for first in first_snapshots(self.connection, alone):
                if first.shared_cause:
                    young.setdefault(first.shared_cause, set()).add(first.key.app)
        again = {event.incident_id for event in fired if not event.is_first}
        was_in = groups_of(self.connection, again, self.now)
        placed = place(fired, by_app, by_cause, young, was_in)
        groups = {group.group_id: group for group in placed.values()}
        over = groups.keys() - self.before.keys()
        for group_id in reopen_groups(self.connection, over, self.now):
            self.before[group_id] = groups[group_id]
        return placed

    def notify(
        self, events: Sequence[Snapshot], placed: Mapping[str, AlertGroup], silenced: Silenced
    ) -> None:
        """
        Write what becomes of the groups, and put messages about news into the outbox.

        Everything about the incidents themselves must be written already.
        """
        happened = self._happened(events, placed, silenced)
        remind_after_s = {
            Severity.CRITICAL: self.timers.repeat_after_s,
            Severity.WARNING: self.timers.warning_repeat_after_s,
        }
        wait_s = self.plan.group_wait_s
        outcomes = [
            news_of(each, self.now, remind_after_s=remind_after_s, group_wait_s=wait_s)
            for each in happened
        ]
        self._enqueue(
            [
                (news, each)
                for (_, news), each in zip(outcomes, happened, strict=True)
                if news is not None
            ]
        )
        self._greet_new_channels()
        after = [group for group, _ in outcomes]
        write_groups(self.connection, self.before, after)
        over = [
            group.group_id
            for group, each in zip(after, happened, strict=True)
            if is_over(group, each.members)
        ]
        close_groups(self.connection, over, self.now)

    def _happened(
        self, events: Sequence[Snapshot], placed: Mapping[str, AlertGroup], silenced: Silenced
    ) -> list[Happened]:
        """Sort the events by group."""
        of_incident = {m.incident_id: g for g, found in self.members.items() for m in found}
        # What flaps may not fire now.
        of_flapping = {name: group for group in self.before.values() for name in group.flapping}
        found: dict[str, Happened] = {}
        for event in (*events, *silenced.ended):
            group = placed.get(event.incident_id)
            if group is None and event.incident_id in of_incident:
                group = self.before[of_incident[event.incident_id]]
            group = group or of_flapping.get(key_name(event.key))
            if group is not None:
                each = found.setdefault(group.group_id, Happened(group=group))
                each.events.append(event)
        now_firing = firing_members(self.connection, found)
        known = keys_ever(self.connection, found.keys() & self.before.keys())
        fired = {event.key for event in events if event.event is AlertEvent.FIRED}
        for group_id, each in found.items():
            each.members = now_firing.get(group_id, [])
            each.silenced = silenced.incident_ids
            earlier = [key for key in known.get(group_id, ()) if key not in fired]
            each.known_names = names_in(earlier, each.group)
        return list(found.values())

    def _enqueue(self, found: Sequence[tuple[News, Happened]]) -> None:
        later = {news.group.group_id for news, _ in found if news.event is not AlertEvent.FIRED}
        told = recipients_told(self.connection, later)
        # Dispatchers go by the database's clock: a fast one of ours must not delay a message.
        due_at = min(self.now, database_now(self.connection)) if found else self.now
        rows: list[dict[str, Any]] = []
        backgrounds = Backgrounds(self.connection, self.now)
        for number, (news, each) in enumerate(found):
            over = news.event in _ENDS
            # Whom the routes name, and who was notified before.
            recipients: dict[Recipient, str | None] = {}
            if over or news.event in _ALSO_TO_THOSE_TOLD:
                recipients |= told.get(news.group.group_id, {})
            for event in () if over else loud_events(each):
                labels = self.plan.labels(event.verdict, event.level)
                recipients |= self.plan.recipients(labels, self.now)
            snapshot = message_snapshot(news)
            # In a storm nobody reads the background, and reading it would take long.
            if recipients and number < _MOST_WITH_BACKGROUND:
                found_out: dict[str, Any] = {"trend": read_trend(self.connection, snapshot.verdict)}
                if not over:
                    found_out["background"] = backgrounds.of(snapshot)
                    found_out["example_id"] = backgrounds.example_id(snapshot)
                snapshot = snapshot.model_copy(update=found_out)
            waits = news.event is AlertEvent.FIRED and snapshot.level is Severity.WARNING
            wait = timedelta(seconds=self.plan.group_wait_s if waits else 0)
            rows += [
                outbox_row(snapshot, to, fallback, now=self.now, due_at=due_at + wait)
                for to, fallback in recipients.items()
            ]
        worse = [news.group.group_id for news, _ in found if news.event is AlertEvent.ESCALATED]
        if worse and self.plan.group_wait_s > 0:
            # Nothing that got worse waits for others to join.
            waiting = (outbox.c.status == DeliveryStatus.WAITING) & (outbox.c.attempts == 0)
            mine = update(outbox).where(outbox.c.incident_id.in_(worse), waiting)
            self.connection.execute(mine.values(due_at=due_at))
        if rows:
            self.connection.execute(insert(outbox), rows)

    def _greet_new_channels(self) -> None:
        """Send channels that were never seen before what already fires, once."""
        known = set(self.connection.execute(select(alert_channels.c.channel)).scalars())
        new = self.plan.addresses.keys() - known
        if not new:
            return
        rows = [{"channel": channel} for channel in sorted(new)]
        insert_new(self.connection, alert_channels, rows, returning=alert_channels.c.channel)
        messages = []
        firing = firing_members(self.connection, self.before)
        for group_id, group in self.before.items():
            loud = [member for member in firing.get(group_id, ()) if not member.silenced]
            if group.told_at is None:
                continue
            # Each channel hears of what its own routes name, the worst first.
            greeted: set[Recipient] = set()
            for lead in sorted(loud, key=lambda member: member.level is not Severity.CRITICAL):
                last = last_snapshot(self.connection, lead.incident_id)
                labels = self.plan.labels(last.verdict, lead.level)
                fresh = {
                    to: fallback
                    for to, fallback in self.plan.recipients(labels, self.now).items()
                    if to.channel in new and to not in greeted
                }
                if not fresh:
                    continue
                greeted |= fresh.keys()
                others = tuple(member for member in loud if member is not lead)
                news = News(group=group, event=AlertEvent.FIRED, lead=last, others=others)
                snapshot = message_snapshot(news).model_copy(
                    update={"note": _ADDED, "at": self.now}
                )
                messages += [
                    outbox_row(snapshot, to, fallback, now=self.now, due_at=self.now)
                    for to, fallback in fresh.items()
                ]
        insert_new(self.connection, outbox, messages, returning=outbox.c.delivery_id)


def message_snapshot(news: News) -> Snapshot:
    """Return the evidence of a message: that of the alert that leads, about its whole group."""
    group, lead = news.group, news.lead
    others = sorted(news.others, key=lambda member: (member.level, member.key))
    critical = Severity.CRITICAL in {lead.peak, news.level}
    return lead.model_copy(
        update={
            "incident_id": group.group_id,
            "lead_id": "" if lead.incident_id == group.group_id else lead.incident_id,
            "sequence": group.sequence,
            "event": news.event,
            "level": lead.level if news.event in _ENDS else news.level,
            "peak": Severity.CRITICAL if critical else Severity.WARNING,
            "cause": group.cause,
            "others": tuple(
                Other(app=key.app, metric=key.metric, segment=key.segment, level=level)
                for _, key, level, _ in others[:_MOST_OTHERS]
            ),
            "more": max(0, len(others) - _MOST_OTHERS),
        }
    )


def delivery_id(incident_id: str, sequence: int, recipient: Recipient) -> str:
    """Return the id of one message to one recipient; the same on every attempt."""
    text = "\0".join((incident_id, str(sequence), recipient.channel, recipient.address))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def outbox_row(
    snapshot: Snapshot, to: Recipient, fallback: str | None, *, now: datetime, due_at: datetime
) -> dict[str, Any]:
    """Return one message about an alert to one recipient as a row of the outbox."""
    about, event = (snapshot.incident_id, snapshot.sequence), snapshot.event.value
    row = waiting_row(about, event, snapshot.level, snapshot.stored(), to, now=now)
    return row | {"due_at": due_at, "fallback": fallback}


def waiting_row(
    about: tuple[str, int],
    event: str,
    level: Severity,
    stored: Mapping[str, Any],
    to: Recipient,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return a message that waits as a row; *about* is its incident or digest, and its number."""
    incident_id, sequence = about
    return {
        "delivery_id": delivery_id(incident_id, sequence, to),
        "incident_id": incident_id,
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
