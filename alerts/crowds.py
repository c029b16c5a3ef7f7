"""Who has had many messages in an hour: the rest comes as a digest, and nothing is dropped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from monitor.models.alerting import DIGEST, DeliveryStatus, Level
from monitor.store.alert_tables import outbox

#: Messages an hour to one recipient; what is critical goes on up to the second number.
MOST_AN_HOUR = 30
MOST_CRITICAL_AN_HOUR = 60
#: Above that, everything that waits goes out as one message, this far apart.
DIGEST_EVERY = timedelta(minutes=10)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Crowd:
    """
    A recipient who has had many messages lately.

    The daily or weekly digest is none of the many: it is one, and goes out as it is.
    """

    channel: str
    recipient: str
    count: int
    last_at: datetime

    @property
    def is_for(self) -> ColumnElement[bool]:
        """Pick the messages to this recipient."""
        return and_(outbox.c.channel == self.channel, outbox.c.recipient == self.recipient)

    def not_held_back(self) -> ColumnElement[bool]:
        """Pick the messages that go out one by one all the same."""
        if self.count >= MOST_CRITICAL_AN_HOUR:
            return or_(~self.is_for, outbox.c.event == DIGEST)
        return or_(~self.is_for, outbox.c.level == Level.CRITICAL, outbox.c.event == DIGEST)

    def may_digest(self, now: datetime) -> bool:
        """Say whether it is time for the next digest."""
        return now - self.last_at >= DIGEST_EVERY


def find_crowds(
    connection: Connection, channels: Collection[str] | None, now: datetime
) -> list[Crowd]:
    """Find the recipients who have had more messages in the last hour than anybody reads."""
    told = outbox.c.status.in_((DeliveryStatus.SENT, DeliveryStatus.ACCEPTED))
    count = func.count()
    query = (
        select(outbox.c.channel, outbox.c.recipient, count, func.max(outbox.c.finished_at))
        .where(told, outbox.c.finished_at > now - _HOUR)
        .group_by(outbox.c.channel, outbox.c.recipient)
        .having(count >= MOST_AN_HOUR)
    )
    if channels is not None:
        query = query.where(outbox.c.channel.in_(channels))
    return [Crowd(*row) for row in connection.execute(query)]
