"""The daily or weekly digest: made once a period, whoever tries and however often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from sqlalchemy import Connection, func, insert, select

from alerts.channels.base import Channel
from alerts.message import Message, Picture
from alerts.outbox import waiting_row
from alerts.routing import Recipient
from monitor.errors import SettingsError
from monitor.format import plain_text, utc_time
from monitor.models.alerting import DIGEST, Severity
from monitor.report.digest import Digest, Period
from monitor.report.digest_chart import HEIGHT, WIDTH, can_draw, draw_series
from monitor.report.render import (
    chart_label,
    digest_sections,
    digest_span,
    digest_subject,
    digest_title,
    digest_verdict,
    render_digest,
)
from monitor.settings import variable
from monitor.store.alert_tables import digests, outbox
from monitor.store.engine import insert_new

_FACT_CHARS = 900
#: What a digest is filed under, where an alert names its app.
_APP = "groundwatch"


def recipients_of_digests(channels: Mapping[str, Channel], named: Sequence[str]) -> list[Recipient]:
    """
    List who gets the digest: the channels *named*, or else all that are for reading.

    Raise SettingsError if a name is not a channel, or one that wakes people and takes no digest.
    """
    wrong = [name for name in named if name not in channels]
    if wrong:
        there = ", ".join(channels) or "none"
        raise SettingsError(
            f"{variable('digest_channels')}: no channel {wrong[0]!r} is set up; there is: {there}"
        )
    unfit = [name for name in named if not channels[name].takes_digests]
    if unfit:
        raise SettingsError(
            f"{variable('digest_channels')}: channel {unfit[0]!r} is for alerts only;"
            " a digest goes to mail or chat"
        )
    chosen = named or [name for name, channel in channels.items() if channel.takes_digests]
    return [Recipient(name, address) for name in chosen for address in channels[name].addresses]


def is_due(connection: Connection, period: Period) -> bool:
    """Return whether the digest of *period* has still to be made."""
    known = select(digests.c.name).where(digests.c.name == period.name)
    return connection.execute(known).first() is None


def is_first(connection: Connection) -> bool:
    """Return whether no digest was ever made: then no whole period has been watched."""
    return not connection.execute(select(func.count()).select_from(digests)).scalar_one()


def note_first(connection: Connection, period: Period, now: datetime) -> None:
    """Begin: *period* is over without a digest, and the next one gets the first."""
    row = {"name": period.name, "made_at": now, "messages": 0}
    insert_new(connection, digests, [row], returning=digests.c.name)


def enqueue_once(
    connection: Connection, digest: Digest, recipients: Sequence[Recipient], now: datetime
) -> int:
    """
    Put a digest into the outbox, one message a recipient; 0 where that was done before.

    Name and messages are written in one transaction, so that of any number of processes
    one makes the messages, and a crash leaves both or neither.
    """
    row = {"name": digest.name, "made_at": now, "messages": len(recipients)}
    if not insert_new(connection, digests, [row], returning=digests.c.name):
        return 0
    return enqueue(connection, digest, recipients, now)


def enqueue(
    connection: Connection, digest: Digest, recipients: Sequence[Recipient], now: datetime
) -> int:
    """Put a digest into the outbox, one message a recipient; return how many."""
    stored = digest.model_dump(mode="json")
    rows = [
        waiting_row((digest.name, 1), DIGEST, Severity.WARNING, stored, to, now=now)
        for to in recipients
    ]
    if rows:
        connection.execute(insert(outbox), rows)
    return len(rows)


@dataclass(frozen=True, kw_only=True)
class DigestMessage(Message):
    """The message of a digest, in the forms that its channel asks for."""

    digest: Digest

    @cached_property
    def text(self) -> str:
        """The whole digest in lines of plain text."""
        return f"{render_digest(self.digest)}\n{self.footer}\n"

    @cached_property
    def html(self) -> str:
        """The whole digest as a page of HTML."""
        return self._laid_out("digest.html.j2", escape=True, width=WIDTH, height=HEIGHT)


def digest_message(
    digest: Digest, delivery_id: str, *, recipient: str = "", may_repeat: bool = False
) -> DigestMessage:
    """Return the message; its content was settled when the digest was made."""
    sections = tuple(digest_sections(digest))
    pictures = tuple(
        Picture(
            cid=f"course-{place}-{delivery_id}@groundwatch",
            png=draw_series(course, digest),
            label=chart_label(course),
        )
        for place, course in enumerate(digest.courses if can_draw() else (), start=1)
    )
    footer = f"{digest.name}, made {utc_time(digest.made_at)}"
    return DigestMessage(
        digest=digest,
        word=digest_title(digest).upper(),
        title=digest_span(digest),
        headline=plain_text(digest_verdict(digest), 300),
        own_subject=digest_subject(digest),
        facts=tuple(
            (section.title, plain_text("; ".join(section.lines), _FACT_CHARS))
            for section in sections
        ),
        samples=(),
        advice="More",
        command="groundwatch status",
        link=None,
        footer=f"{footer} (may repeat an earlier message)" if may_repeat else footer,
        app=_APP,
        incident_id=delivery_id,
        first=True,
        at=digest.made_at,
        began=digest.start,
        recipient=recipient,
        event=DIGEST,
        severity=Severity.WARNING.value,
        over=digest.nothing_to_do,
        data=digest.model_dump(mode="json", exclude={"courses"}),
        sections=sections,
        pictures=pictures,
    )
