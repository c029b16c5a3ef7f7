"""Which alerts make one incident for people, and when there is news about it; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from alerts.model import OVER, AlertKey, Other, Snapshot
from monitor.models.alerting import AlertEvent, Severity

#: So many apps that begin within this time with evidence of a shared cause are one incident.
COMMON_CAUSE_APPS = 3
COMMON_CAUSE_WITHIN = timedelta(minutes=10)
#: A metric that joins this late is news; sooner, the first message has just been read.
JOINING_IS_NEWS_AFTER = timedelta(minutes=5)
#: Alerts of one incident that a message names beside the one that leads.
_MOST_OTHERS = 10
_WORSE = {None: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGroup:
    """
    Alerts that are notified together: those of one app, or of apps with a common cause.

    ``level`` and ``told_at`` are what people know; both are None before the first message.
    """

    group_id: str
    app: str  #: "*" for a common cause
    cause: str | None
    opened_at: datetime
    level: Severity | None = None
    told_at: datetime | None = None
    sequence: int = 0
    flapping: frozenset[str] = frozenset()  #: keys whose end has not been reported yet
    acked_until: datetime | None = None


class Member(NamedTuple):
    """One alert of a group, firing or over."""

    incident_id: str
    key: AlertKey
    level: Severity
    silenced: bool
    peak: Severity = Severity.WARNING
    over_at: datetime | None = None

    def named(self, level: Severity) -> Other:
        """Return how a message of another alert names it, with its level or its peak."""
        return Other(
            app=self.key.app, metric=self.key.metric, segment=self.key.segment, level=level
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMessage:
    """A message about a group: an event, with the alert that caused it."""

    group: AlertGroup
    event: AlertEvent
    lead: Snapshot
    others: tuple[Member, ...]  #: what else fires
    recovered: tuple[Member, ...] = ()  #: what else is over by now

    @property
    def level(self) -> Severity:
        """How bad the incident is, or was."""
        return self.group.level or self.lead.peak

    def snapshot(self) -> Snapshot:
        """Return the evidence of the message: that of the alert that leads, about the group."""
        group, lead, ends = self.group, self.lead, self.event in OVER
        others = sorted(self.others, key=lambda member: (member.level, member.key))
        recovered = sorted(self.recovered, key=lambda member: (member.peak, member.key))
        critical = Severity.CRITICAL in {lead.peak, self.level, *(m.peak for m in recovered)}
        fired = min(lead.opened_at, group.opened_at) if ends else lead.opened_at
        return lead.model_copy(
            update={
                "incident_id": group.group_id,
                "sequence": group.sequence,
                "event": self.event,
                "level": lead.level if ends else self.level,
                "peak": Severity.CRITICAL if critical else Severity.WARNING,
                "opened_at": fired,
                "since": min(lead.since, fired),
                "cause": group.cause,
                "others": tuple(member.named(member.level) for member in others[:_MOST_OTHERS]),
                "more": max(0, len(others) - _MOST_OTHERS),
                "recovered": tuple(m.named(m.peak) for m in recovered[:_MOST_OTHERS]),
            }
        )


@dataclass(slots=True, kw_only=True)
class GroupEvents:
    """What one evaluation brought for one group."""

    group: AlertGroup
    events: list[Snapshot] = field(default_factory=list)
    silenced: set[str] = field(default_factory=set)  #: incidents that are silenced now
    members: Sequence[Member] = ()  #: what fires now
    recovered: Sequence[Member] = ()  #: what is over by now
    known_names: Collection[str] = ()  #: what had fired in this group before


def place(
    fired: Sequence[Snapshot],
    by_app: Mapping[str, AlertGroup],
    by_cause: Mapping[str, AlertGroup],
    young: Mapping[str, Collection[str]],
    was_in: Mapping[str, AlertGroup] | None = None,
) -> dict[str, AlertGroup]:
    """
    Return the group of every alert that fired, by incident id.

    Parameters
    ----------
    fired
        The alerts that fired.
    by_app, by_cause
        The groups that are open, by app; those of them that began a short time ago, by cause.
    young
        The apps that began a short time ago, by what they share.
    was_in
        The groups of incidents that fire again, by incident id: these stay in their group unless
        their app has another one by now.
    """
    was_in = was_in or {}
    again = {e.key.app: was_in[e.incident_id] for e in fired if e.incident_id in was_in}
    known = again | dict(by_app)
    apps, causes = dict(known), dict(by_cause)
    beginning: dict[str, set[str]] = {}
    for event in fired:
        shared = event.shared_cause
        if shared and event.key.app not in known:
            beginning.setdefault(shared, set(young.get(shared, ()))).add(event.key.app)
    placed: dict[str, AlertGroup] = {}
    for event in fired:
        app, shared = event.key.app, event.shared_cause
        if app not in apps:
            new = AlertGroup(group_id=event.incident_id, app=app, cause=None, opened_at=event.at)
            common = shared in causes or len(beginning.get(shared, ())) >= COMMON_CAUSE_APPS
            if shared and common:
                new = causes.setdefault(shared, replace(new, app="*", cause=shared))
            apps[app] = new
        placed[event.incident_id] = apps[app]
    return placed


def group_message(
    happened: GroupEvents,
    now: datetime,
    *,
    remind_after_s: Mapping[Severity, float],
    group_wait_s: float,
) -> tuple[AlertGroup, GroupMessage | None]:
    """Return what becomes of a group, and the message about it, if there is news."""
    flapping = set(happened.group.flapping)
    for one in happened.events:
        (flapping.add if one.flapping else flapping.discard)(key_name(one.key))
    group = replace(happened.group, flapping=frozenset(flapping))
    happened = replace(happened, group=group)
    unsilenced = unsilenced_events(happened)
    found = (
        _end(happened)
        or _beginning(happened, unsilenced, now, group_wait_s)
        or _reminder(group, unsilenced, now, remind_after_s)
    )
    if found is None:
        calmer = group.level is not None and happened.members
        return (replace(group, level=_level(happened, ())) if calmer else group), None
    event, lead = found
    over = event is AlertEvent.RESOLVED or (event is AlertEvent.SETTLED and not happened.members)
    updated = replace(
        group,
        sequence=group.sequence + 1,
        told_at=None if over else now,
        level=None if over else _level(happened, unsilenced),
        # A yes to a warning is not a yes to a critical.
        acked_until=None if over or event is AlertEvent.ESCALATED else group.acked_until,
    )
    others, recovered = (
        tuple(member for member in members if member.incident_id != lead.incident_id)
        for members in (happened.members, happened.recovered)
    )
    return updated, GroupMessage(
        group=updated, event=event, lead=lead, others=others, recovered=recovered
    )


def unsilenced_events(happened: GroupEvents) -> list[Snapshot]:
    """Return the events that are neither silenced nor suppressed."""
    return [e for e in happened.events if not e.quiet and e.incident_id not in happened.silenced]


def is_over(group: AlertGroup, members: Collection[Member]) -> bool:
    """Return whether a group is over: nothing fires, and no end is still to be reported."""
    return not members and not group.flapping


def key_name(key: AlertKey) -> str:
    """Return a key as one text."""
    return "\x1f".join(map(str, key))


def names_in(keys: Iterable[AlertKey], group: AlertGroup) -> set[str]:
    """Return what joins a group under a name: metrics of its app, or apps of its cause."""
    return {key.app if group.cause else key.metric for key in keys}


def _end(happened: GroupEvents) -> tuple[AlertEvent, Snapshot] | None:
    if happened.group.told_at is None:
        return None
    settled = _first(happened.events, AlertEvent.SETTLED)
    if settled is not None:
        return AlertEvent.SETTLED, settled
    resolved = _first(happened.events, AlertEvent.RESOLVED)
    still_fires = any(not member.silenced for member in happened.members)
    if resolved is None or still_fires or happened.group.flapping:
        return None
    return AlertEvent.RESOLVED, resolved


def _beginning(
    happened: GroupEvents, unsilenced: Sequence[Snapshot], now: datetime, group_wait_s: float
) -> tuple[AlertEvent, Snapshot] | None:
    group = happened.group
    worse = [e for e in unsilenced if e.event in {AlertEvent.FIRED, AlertEvent.ESCALATED}]
    lead = _worst(worse)
    if lead is None:
        first = _first(unsilenced, AlertEvent.UNSILENCED)
        return None if first is None else (AlertEvent.UNSILENCED, first)
    if group.told_at is None:
        return AlertEvent.FIRED, lead
    if _WORSE[lead.level] > _WORSE[group.level]:
        return AlertEvent.ESCALATED, lead
    joined = _worst([e for e in worse if not names_in([e.key], group) <= set(happened.known_names)])
    age = now - group.opened_at
    gathers = age < timedelta(seconds=group_wait_s)
    if joined is not None and (gathers or age >= JOINING_IS_NEWS_AFTER):
        return AlertEvent.JOINED, joined
    return None


def _reminder(
    group: AlertGroup,
    unsilenced: Sequence[Snapshot],
    now: datetime,
    remind_after_s: Mapping[Severity, float],
) -> tuple[AlertEvent, Snapshot] | None:
    lead = _worst([e for e in unsilenced if e.event is AlertEvent.REPEATED])
    if lead is None:
        return None
    if group.told_at is None:
        return AlertEvent.FIRED, lead
    acknowledged = group.acked_until is not None and now < group.acked_until
    too_soon = now - group.told_at < timedelta(seconds=remind_after_s[lead.level])
    return None if acknowledged or too_soon else (AlertEvent.REPEATED, lead)


def _level(happened: GroupEvents, unsilenced: Sequence[Snapshot]) -> Severity:
    """Return the worst level that people know of now."""
    levels = [m.level for m in happened.members if not m.silenced]
    levels += [e.level for e in unsilenced if e.event is not AlertEvent.RESOLVED]
    return max(levels, key=_WORSE.__getitem__, default=Severity.WARNING)


def _first(events: Iterable[Snapshot], kind: AlertEvent) -> Snapshot | None:
    return next((event for event in events if event.event is kind), None)


def _worst(events: Sequence[Snapshot]) -> Snapshot | None:
    return max(events, key=lambda event: _WORSE[event.level], default=None)
