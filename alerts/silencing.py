"""Silences as people handle them: previewed, added and ended; `decide` applies them."""

from __future__ import annotations

import uuid
from collections.abc import Container, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, insert, update

from alerts.queries import open_alerts
from alerts.routing import Matcher, RoutingConfig, Silence, all_match
from alerts.store import last_snapshot
from monitor.errors import SettingsError
from monitor.models.alerting import Alert, Severity
from monitor.store.alert_tables import silences
from monitor.store.verdicts import read_verdicts

#: A silence that is meant to last for longer is one that somebody forgets.
LONGEST = timedelta(days=30)


class Preview(NamedTuple):
    """What fires now, what of these a silence would cover, and what is odd about its matchers."""

    firing: int
    held: list[Alert]
    warning: str = ""


def preview(
    connection: Connection,
    config: RoutingConfig,
    matchers: Sequence[Matcher],
    *,
    apps: Container[str] | None = None,
) -> Preview:
    """Return what a silence with these matchers would cover now, of these apps only."""
    firing = [each for each in open_alerts(connection) if apps is None or each.app in apps]
    held = []
    for incident in firing:
        last = last_snapshot(connection, incident.incident_id)
        if all_match(matchers, config.labels(last.verdict, incident.level)):
            held.append(incident)
    known = [
        config.labels(verdict, level)
        for verdict in read_verdicts(connection).values()
        if apps is None or verdict.app in apps
        for level in Severity
    ]
    matching = sum(all_match(matchers, labels) for labels in known)
    warning = ""
    if known and not matching:
        warning = "no app or metric matches: check the names"
    elif known and matching == len(known):
        warning = "every alert matches"
    return Preview(len(firing), held, warning)


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
    Store a silence; it applies from the next evaluation on.

    Raise SettingsError if it has no matcher, no end within 30 days, no author or no comment.
    """
    silence = Silence(
        silence_id=uuid.uuid4().hex[:8],
        matchers=tuple(matchers),
        starts_at=starts_at or now,
        ends_at=ends_at,
        author=author.strip(),
        comment=comment.strip(),
    )
    if not silence.matchers:
        raise SettingsError("a silence needs a matcher, such as app=support-bot")
    if not silence.author or not silence.comment:
        raise SettingsError("a silence needs an author and a comment: who wants it, and why")
    if silence.ends_at <= max(now, silence.starts_at):
        raise SettingsError("the silence would end before it begins")
    if silence.ends_at - silence.starts_at > LONGEST:
        raise SettingsError(f"a silence may last {LONGEST.days} days at most")
    row = asdict(silence) | {"matchers": [str(matcher) for matcher in silence.matchers]}
    row |= {"author": silence.author[:200], "comment": silence.comment[:1000], "created_at": now}
    connection.execute(insert(silences), [row])
    return silence


def expire_silence(connection: Connection, silence_id: str, now: datetime) -> bool:
    """End a silence now; return whether there was one to end."""
    ended = connection.execute(
        update(silences)
        .where(silences.c.silence_id == silence_id, silences.c.ends_at > now)
        .values(ends_at=now)
    )
    return ended.rowcount == 1
