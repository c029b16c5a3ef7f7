"""Which alerts are told together as one incident, and when that is news; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from alerts.evidence import AlertKey
from alerts.routing import MONITOR_PREFIX
from alerts.snapshot import Snapshot
from monitor.models.alerting import AlertEvent, Level

#: So many apps that begin within this time and share something are told as one.
COMMON_CAUSE_APPS = 3
COMMON_CAUSE_WITHIN = timedelta(minutes=10)
#: A metric that joins this late is news; sooner, the first message has just been read.
JOINING_IS_NEWS_AFTER = timedelta(minutes=5)
_WORSE = {None: 0, Level.WARNING: 1, Level.CRITICAL: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """
    Alerts that are told together: those of one app, or of apps with a common cause.

    ``level`` and ``told_at`` are what people know; both are None while nobody was told.
    """

    group_id: str
    app: str  #: "*" for a common cause
    cause: str | None
    opened_at: datetime
    level: Level | None = None
    told_at: datetime | None = None
    sequence: int = 0
    flapping: frozenset[str] = frozenset()  #: keys whose end has not been told yet
    acked_until: datetime | None = None


class Member(NamedTuple):
    """One firing alert of a group."""

    incident_id: str
    key: AlertKey
    level: Level
    silenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What people are told about a group: an event, with the alert that it rests on."""

    group: Group
    event: AlertEvent
    lead: Snapshot
    others: tuple[Member, ...]  #: what else fires

    @property
    def level(self) -> Level:
        """How bad the incident is, or was."""
        return self.group.level or self.lead.peak


@dataclass(slots=True, kw_only=True)
class Happened:
    """What one evaluation brought for one group."""

    group: Group
    events: list[Snapshot] = field(default_factory=list)
    silenced: set[str] = field(default_factory=set)  #: incidents that are silenced now
    members: Sequence[Member] = ()  #: what fires now
    known_names: Collection[str] = ()  #: what had fired in this group before


def share(event: Snapshot) -> str | None:
    """Name what the alert may share with those of other apps."""
    if event.key.metric.startswith(MONITOR_PREFIX):
        return "the monitor"
    judge = event.verdict.evaluator_version
    return f"the judge {judge}" if judge else None


def place(
    fired: Sequence[Snapshot],
    by_app: Mapping[str, Group],
    by_cause: Mapping[str, Group],
    young: Mapping[str, Collection[str]],
    was_in: Mapping[str, Group] | None = None,
) -> dict[str, Group]:
    """
    Find the group of every alert that fired, by incident id.

    *by_app* are the groups that are open, *by_cause* those of them that began a short
    time ago; *young* are the apps that began a short time ago, by what they share.
    *was_in* are the groups of incidents that fire again: those go on in theirs unless their
    app has another one by now.
    """
    was_in = was_in or {}
    again = {e.key.app: was_in[e.incident_id] for e in fired if e.incident_id in was_in}
    by_app = again | dict(by_app)
    apps, causes = dict(by_app), dict(by_cause)
    beginning: dict[str, set[str]] = {}
    for event in fired:
        shared = share(event)
        if shared and event.key.app not in by_app:
            beginning.setdefault(shared, set(young.get(shared, ()))).add(event.key.app)
    placed: dict[str, Group] = {}
    for event in fired:
        app, shared = event.key.app, share(event)
        if app not in apps:
            common = shared in causes or len(beginning.get(shared or "", ())) >= COMMON_CAUSE_APPS
            if shared and common:
                apps[app] = causes.setdefault(shared, _new(event, cause=shared))
            else:
                apps[app] = _new(event, cause=None)
        placed[event.incident_id] = apps[app]
    return placed


def _new(event: Snapshot, *, cause: str | None) -> Group:
    app = "*" if cause else event.key.app
    return Group(group_id=event.incident_id, app=app, cause=cause, opened_at=event.at)


def news_of(
    happened: Happened, now: datetime, *, remind_after_s: Mapping[Level, float], group_wait_s: float
) -> tuple[Group, News | None]:
    """Say what becomes of a group, and what people are told about it, if anything."""
    group = _with_flapping(happened)
    happened = replace(happened, group=group)
    loud = [e for e in happened.events if not e.quiet and e.incident_id not in happened.silenced]
    found = _ended(happened) or _began(happened, loud, now, group_wait_s)
    found = found or _went_on(happened, loud, now, remind_after_s)
    if found is None:
        calmer = group.level is not None and happened.members
        return (replace(group, level=_level(happened, ())) if calmer else group), None
    event, lead = found
    over = event is AlertEvent.RESOLVED or (event is AlertEvent.SETTLED and not happened.members)
    told = replace(
        group,
        sequence=group.sequence + 1,
        told_at=None if over else now,
        level=None if over else _level(happened, loud),
        # A yes to a warning is no yes to a critical.
        acked_until=None if over or event is AlertEvent.ESCALATED else group.acked_until,
    )
    others = tuple(m for m in happened.members if m.incident_id != lead.incident_id)
    return told, News(group=told, event=event, lead=lead, others=others)


def is_over(group: Group, members: Collection[Member]) -> bool:
    """Say whether a group is done with: nothing fires, and nothing is held back."""
    return not members and not group.flapping


def key_name(key: AlertKey) -> str:
    """Write a key as one text."""
    return "\x1f".join(map(str, key))


def _with_flapping(happened: Happened) -> Group:
    flapping = set(happened.group.flapping)
    for event in happened.events:
        if event.flapping:
            flapping.add(key_name(event.key))
        else:
            flapping.discard(key_name(event.key))
    return replace(happened.group, flapping=frozenset(flapping))


def _ended(happened: Happened) -> tuple[AlertEvent, Snapshot] | None:
    if happened.group.told_at is None:
        return None
    settled = _first(happened.events, AlertEvent.SETTLED)
    if settled is not None:
        return AlertEvent.SETTLED, settled
    resolved = _first(happened.events, AlertEvent.RESOLVED)
    still_told = [member for member in happened.members if not member.silenced]
    if resolved is None or still_told or happened.group.flapping:
        return None
    return AlertEvent.RESOLVED, resolved


def _began(
    happened: Happened, loud: Sequence[Snapshot], now: datetime, group_wait_s: float
) -> tuple[AlertEvent, Snapshot] | None:
    group = happened.group
    worse = [e for e in loud if e.event in {AlertEvent.FIRED, AlertEvent.ESCALATED}]
    ended_silence = _first(loud, AlertEvent.UNSILENCED)
    lead = _worst(worse) or ended_silence
    if lead is None:
        return None
    if ended_silence is not None and lead is ended_silence:
        return AlertEvent.UNSILENCED, lead
    if group.told_at is None:
        return AlertEvent.FIRED, lead
    if _WORSE[lead.level] > _WORSE[group.level]:
        return AlertEvent.ESCALATED, lead
    joined = [e for e in worse if _name(e, group) not in happened.known_names]
    age = now - group.opened_at
    gathers = age < timedelta(seconds=group_wait_s)
    if joined and (gathers or age >= JOINING_IS_NEWS_AFTER):
        return AlertEvent.JOINED, _worst(joined) or joined[0]
    return None


def _went_on(
    happened: Happened,
    loud: Sequence[Snapshot],
    now: datetime,
    remind_after_s: Mapping[Level, float],
) -> tuple[AlertEvent, Snapshot] | None:
    group = happened.group
    lead = _worst([e for e in loud if e.event is AlertEvent.REPEATED])
    if lead is None:
        return None
    if group.told_at is None:
        return AlertEvent.FIRED, lead
    acknowledged = group.acked_until is not None and now < group.acked_until
    too_soon = now - group.told_at < timedelta(seconds=remind_after_s[lead.level])
    return None if acknowledged or too_soon else (AlertEvent.REPEATED, lead)


def _level(happened: Happened, loud: Sequence[Snapshot]) -> Level:
    """Give the worst level that people know of now."""
    levels = [m.level for m in happened.members if not m.silenced]
    levels += [e.level for e in loud if e.event is not AlertEvent.RESOLVED]
    return max(levels, key=_WORSE.__getitem__, default=Level.WARNING)


def _name(event: Snapshot, group: Group) -> str:
    """Name what joins: a metric of the app, or an app of the common cause."""
    return event.key.app if group.cause else event.key.metric


def names_in(keys: Iterable[AlertKey], group: Group) -> set[str]:
    """Name what fires in a group as `News` counts it: metrics, or apps."""
    return {key.app if group.cause else key.metric for key in keys}


def _first(events: Iterable[Snapshot], kind: AlertEvent) -> Snapshot | None:
    return next((event for event in events if event.event is kind), None)


def _worst(events: Sequence[Snapshot]) -> Snapshot | None:
    return max(events, key=lambda event: _WORSE[event.level], default=None)
