"""
The outbox: claim the head of a lane under a lease, and finish it under the same token.

A lane is one incident, channel and recipient. With the messages stands how each channel does: its
last success and failure, until when it is paused, and the token bucket of its rate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    update,
)

from alerts.channels.base import ChannelRate
from alerts.model import Snapshot
from alerts.routing import Recipient
from monitor.errors import DeliveryError
from monitor.format import duration
from monitor.models.alerting import DIGEST, AlertEvent, DeliveryStatus, Severity
from monitor.store.alert_tables import alert_channels, outbox
from monitor.store.engine import Store, database_now, put

#: After this a message is old news: it is given up, with the reason of its last failure.
GIVE_UP_AFTER = timedelta(hours=24)
#: An item whose dispatchers keep dying is given up after as many attempts and the time above.
_MOST_CRASHES = 5
_WAITING = outbox.c.status == DeliveryStatus.WAITING
_MOST_IN_DIGEST = 1000
_DELIVERED = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)
#: Messages an hour to one recipient; what is critical goes on up to the second number.
MOST_AN_HOUR = 30
MOST_CRITICAL_AN_HOUR = 60
#: Above that, everything that waits goes out as one message, this far apart.
DIGEST_EVERY = timedelta(minutes=10)
_HOUR = timedelta(hours=1)


def delivery_id(incident_id: str, sequence: int, recipient: Recipient) -> str:
    """Return the id of one message to one recipient; the same on every attempt."""
    text = "\0".join((incident_id, str(sequence), recipient.channel, recipient.address))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def outbox_row(
    snapshot: Snapshot, to: Recipient, fallback: str | None, *, now: datetime, due_at: datetime
) -> dict[str, Any]:
    """Return one message about an alert to one recipient as a row of the outbox."""
    about = (snapshot.incident_id, snapshot.sequence)
    row = waiting_row(about, snapshot.event, snapshot.level, snapshot.stored(), to, now=now)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """
    One message that this process alone may send until ``lease_until``.

    ``tells`` and ``snapshot`` are as stored: whoever cannot read one message must
    still be able to claim the next.
    """

    delivery_id: str
    token: int
    attempt: int
    channel: str
    recipient: str
    tells: frozenset[str]  #: the news in it; several when messages were merged
    snapshot: Mapping[str, Any]
    possible_duplicate: bool
    created_at: datetime
    lease_until: datetime
    thread: str = ""  #: what the channel calls the first message of the lane
    digest: tuple[Mapping[str, Any], ...] = ()  #: snapshots of other lanes, one line each


def claim(
    store: Store, now: datetime | None, lease_s: float, channel: str, rate: ChannelRate
) -> Claimed | None:
    """
    Take the message of a channel that is due first, critical ones before others, if there is one.

    A lane is one incident, channel and recipient; only its oldest waiting message can
    be taken, so nothing overtakes. What waits behind it is merged: the newest message
    is sent in place of all, under its own id, so that an id always has one content.
    No more are taken than *rate* allows. A recipient who has had many messages in an hour gets
    the rest as one digest every ten minutes.

    Here and below *now* is None for the database's clock, the only one that all
    dispatchers share.
    """
    with store.write() as connection:
        now = now or database_now(connection)
        level = tokens(connection, channel, rate, now)
        if level < 1:
            return None
        throttled = throttled_recipients(connection, channel, now)
        due = _due(now, channel)
        alone = due.where(*(each.unthrottled() for each in throttled))
        head = connection.execute(alone.limit(1)).first()
        for each in throttled:
            if head is None and now - each.last_at >= DIGEST_EVERY:
                mine = due.where(each.is_for, outbox.c.event != DIGEST)
                heads = connection.execute(mine.limit(_MOST_IN_DIGEST)).all()
                head = heads[0] if heads else None
                # What is being retried has its content already.
                if head is not None and head.attempts == 0:
                    in_lane = select(outbox.c.delivery_id).where(same_lane(head), _WAITING)
                    newest = in_lane.order_by(outbox.c.sequence.desc()).limit(1)
                    into = str(connection.execute(newest).scalar_one())
                    for other in heads[1:]:
                        lane = select(outbox).where(same_lane(other), _WAITING)
                        _merge(connection, connection.execute(lane).all(), into, now)
        if head is None:
            return None
        bucket = {"channel": channel, "tokens": level - 1, "tokens_at": now}
        put(connection, alert_channels, [bucket])
        return _take(connection, head, now, lease_s)


def holds(store: Store, claimed: Claimed, now: datetime | None) -> bool:
    """Return whether the lease still holds: this process may have been paused for long."""
    with store.read() as connection:
        mine = and_(
            outbox.c.delivery_id == claimed.delivery_id,
            outbox.c.token == claimed.token,
            outbox.c.lease_until > (now or database_now(connection)),
            _WAITING,
        )
        return connection.execute(select(outbox.c.token).where(mine)).first() is not None


def finish_sent(
    store: Store,
    claimed: Claimed,
    now: datetime | None,
    *,
    confirmed: bool = True,
    ref: str | None = None,
) -> bool:
    """Write down that the message was taken; False if another process holds it by now."""
    status = DeliveryStatus.SENT if confirmed else DeliveryStatus.ACCEPTED
    with store.write() as connection:
        now = now or database_now(connection)
        health = {"channel": claimed.channel, "last_success_at": now}
        put(connection, alert_channels, [health])
        changes = {"status": status, "finished_at": now, "error_code": None, "remote_ref": ref}
        return _finish(connection, claimed, changes)


def finish_failed(
    store: Store, claimed: Claimed, now: datetime | None, error: DeliveryError, delay_s: float
) -> DeliveryStatus | None:
    """
    Write down a failed attempt: to be tried after *delay_s*, or dead when that cannot help.

    An error with ``retry_after_s`` pauses the whole channel for that long; with
    ``give_up_after_s`` the message is dead once it is that old. Return its status; None if another
    process holds the message by now.
    """
    pause_s = error.retry_after_s
    with store.write() as connection:
        now = now or database_now(connection)
        give_up_after = GIVE_UP_AFTER
        if error.give_up_after_s is not None:
            give_up_after = min(give_up_after, timedelta(seconds=error.give_up_after_s))
        if not error.transient:
            changes = _dead(error.code, now)
        elif now - claimed.created_at >= give_up_after:
            changes = _dead(
                f"gave_up_after_{duration(give_up_after).replace(' ', '')}:{error.code}", now
            )
        else:
            due_at = now + timedelta(seconds=max(delay_s, pause_s or 0.0))
            changes = {"due_at": due_at, "error_code": error.code}
        if error.ambiguous:
            changes["possible_duplicate"] = True
        health: dict[str, Any] = {"channel": claimed.channel, "last_failure_at": now}
        health["last_error_code"] = error.code
        if pause_s is not None:
            health["paused_until"] = now + timedelta(seconds=pause_s)
        put(connection, alert_channels, [health])
        if not _finish(connection, claimed, changes):
            return None
    return DeliveryStatus(changes.get("status", DeliveryStatus.WAITING))


def give_up_undeliverable(store: Store, now: datetime | None, channels: Collection[str]) -> int:
    """
    Give up what nobody can send, once it is a day old; return how many messages.

    That is: what waits for a channel that is not configured any more, and what was never finished
    because its dispatchers died.
    """
    orphan = outbox.c.channel.not_in(channels)
    crashing = and_(outbox.c.lease_until.is_not(None), outbox.c.attempts >= _MOST_CRASHES)
    code = case((orphan, "channel_not_configured"), else_="dispatcher_died")
    with store.write() as connection:
        now = now or database_now(connection)
        old = and_(_WAITING, _free(now), outbox.c.created_at <= now - GIVE_UP_AFTER)
        result = connection.execute(
            update(outbox).where(old, or_(orphan, crashing)).values(**_dead(code, now))
        )
        return result.rowcount


def _dead(code: Any, now: datetime) -> dict[str, Any]:
    return {"status": DeliveryStatus.DEAD, "finished_at": now, "error_code": code}


def _free(now: datetime) -> Any:
    return or_(outbox.c.lease_until.is_(None), outbox.c.lease_until <= now)


def _due(now: datetime, channel: str) -> Select[Any]:
    older = outbox.alias("older")
    overtakes = exists().where(
        same_lane(outbox.c, older),
        older.c.sequence < outbox.c.sequence,
        older.c.status == DeliveryStatus.WAITING,
    )
    # What was put into a digest has not arrived before the digest has.
    absorbed, carrier = outbox.alias("absorbed"), outbox.alias("carrier")
    digested = exists().where(
        same_lane(outbox.c, absorbed),
        absorbed.c.status == DeliveryStatus.MERGED,
        carrier.c.delivery_id == absorbed.c.merged_into,
        carrier.c.incident_id != absorbed.c.incident_id,
        carrier.c.status == DeliveryStatus.WAITING,
    )
    paused = select(alert_channels.c.channel).where(alert_channels.c.paused_until > now)
    return (
        select(outbox)
        .where(outbox.c.channel == channel, outbox.c.channel.not_in(paused))
        .where(_WAITING, outbox.c.due_at <= now, _free(now), ~overtakes, ~digested)
        .order_by((outbox.c.level == Severity.CRITICAL).desc(), outbox.c.due_at, outbox.c.sequence)
        .with_for_update(skip_locked=True)
    )


def _take(connection: Connection, head: Row[Any], now: datetime, lease_s: float) -> Claimed:
    """Lease the newest message of a lane, with the news of all that waits before it."""
    lane = same_lane(head)
    waiting = connection.execute(
        select(outbox).where(lane, _WAITING).order_by(outbox.c.sequence)
    ).all()
    newest = waiting[-1]
    _merge(connection, waiting[:-1], newest.delivery_id, now)
    tells = {event for row in waiting for event in row.tells.split("+")}
    # Whether a message of the lane has arrived, by itself or within another.
    carrier = outbox.alias("delivered")
    carried = exists().where(
        carrier.c.delivery_id == outbox.c.merged_into, carrier.c.status.in_(_DELIVERED)
    )
    within = (outbox.c.status == DeliveryStatus.MERGED) & carried
    arrived = exists().where(lane, or_(outbox.c.status.in_(_DELIVERED), within))
    if DIGEST not in tells and not connection.execute(select(arrived)).scalar():
        # An incident of which this recipient has no message yet is always reported as fired.
        tells.add(AlertEvent.FIRED.value)
    thread = connection.execute(
        select(outbox.c.remote_ref)
        .where(lane, outbox.c.remote_ref.is_not(None))
        .order_by(outbox.c.sequence)
        .limit(1)
    ).scalar()
    values = {
        "token": newest.token + 1,
        "attempts": max(row.attempts for row in waiting) + 1,
        "lease_until": now + timedelta(seconds=lease_s),
        "tells": "+".join(sorted(tells)),
        # A lease that ran out means that its holder died, perhaps after it had sent.
        "possible_duplicate": newest.possible_duplicate or newest.lease_until is not None,
    }
    connection.execute(
        update(outbox).where(outbox.c.delivery_id == newest.delivery_id).values(**values)
    )
    names = ("delivery_id", "channel", "recipient", "snapshot", "created_at")
    return Claimed(
        **{name: getattr(newest, name) for name in names},
        token=values["token"],
        attempt=values["attempts"],
        tells=frozenset(tells),
        possible_duplicate=values["possible_duplicate"],
        lease_until=values["lease_until"],
        thread=thread or "",
        digest=carried_by(connection, newest),
    )


def carried_by(connection: Connection, carrier: Row[Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the newest snapshot of each other lane in *carrier*, the first to begin first."""
    rows = connection.execute(
        select(outbox.c.incident_id, outbox.c.snapshot)
        .where(
            outbox.c.status == DeliveryStatus.MERGED,
            outbox.c.merged_into == carrier.delivery_id,
            outbox.c.incident_id != carrier.incident_id,
        )
        .order_by(outbox.c.created_at, outbox.c.incident_id, outbox.c.sequence)
    )
    return tuple({row.incident_id: row.snapshot for row in rows}.values())


def same_lane(of: Any, among: FromClause = outbox) -> ColumnElement[bool]:
    """Select the messages of the lane that a row, or a row of another table, is in."""
    names = ("incident_id", "channel", "recipient")
    return and_(*(among.c[name] == getattr(of, name) for name in names))


def _merge(connection: Connection, older: Sequence[Row[Any]], into: str, now: datetime) -> None:
    ids = [row.delivery_id for row in older]
    if ids:
        merged = {"status": DeliveryStatus.MERGED, "finished_at": now, "merged_into": into}
        connection.execute(
            update(outbox).where(outbox.c.delivery_id.in_(ids)).values(**merged, lease_until=None)
        )
        # What one of them carried is carried by the newer one now.
        connection.execute(
            update(outbox).where(outbox.c.merged_into.in_(ids)).values(merged_into=into)
        )


def _finish(connection: Connection, claimed: Claimed, changes: dict[str, Any]) -> bool:
    mine = and_(
        outbox.c.delivery_id == claimed.delivery_id,
        outbox.c.token == claimed.token,
        _WAITING,
    )
    result = connection.execute(update(outbox).where(mine).values(**changes, lease_until=None))
    return result.rowcount == 1


def tokens(connection: Connection, channel: str, rate: ChannelRate, now: datetime) -> float:
    """
    Return how many messages may go at once on a channel now.

    The bucket is kept in the store, so that all dispatchers draw from the same one.
    """
    row = connection.execute(
        select(alert_channels.c.tokens, alert_channels.c.tokens_at)
        .where(alert_channels.c.channel == channel)
        .with_for_update()
    ).first()
    if row is None or row.tokens is None or row.tokens_at is None:
        return rate.burst
    # A clock that was set back takes nothing out.
    passed_s: float = max(0.0, (now - row.tokens_at).total_seconds())
    return min(rate.burst, float(row.tokens) + passed_s * rate.per_minute / 60)


@dataclass(frozen=True, slots=True)
class RecipientThrottle:
    """
    A recipient who has had many messages in an hour; the rest comes as a digest.

    The daily or weekly digest is not throttled.
    """

    channel: str
    recipient: str
    count: int
    last_at: datetime

    @property
    def is_for(self) -> ColumnElement[bool]:
        """Select the messages to this recipient."""
        return and_(outbox.c.channel == self.channel, outbox.c.recipient == self.recipient)

    def unthrottled(self) -> ColumnElement[bool]:
        """Select the messages that go out one by one all the same."""
        if self.count >= MOST_CRITICAL_AN_HOUR:
            return or_(~self.is_for, outbox.c.event == DIGEST)
        return or_(~self.is_for, outbox.c.level == Severity.CRITICAL, outbox.c.event == DIGEST)


def throttled_recipients(
    connection: Connection, channel: str, now: datetime
) -> list[RecipientThrottle]:
    """Return the recipients who have had more messages in the last hour than anybody reads."""
    count = func.count()
    query = (
        select(outbox.c.channel, outbox.c.recipient, count, func.max(outbox.c.finished_at))
        .where(outbox.c.channel == channel, outbox.c.status.in_(_DELIVERED))
        .where(outbox.c.finished_at > now - _HOUR)
        .group_by(outbox.c.channel, outbox.c.recipient)
        .having(count >= MOST_AN_HOUR)
    )
    return [RecipientThrottle(*row) for row in connection.execute(query)]


def oldest_waiting(connection: Connection) -> dict[str, datetime]:
    """Return since when the oldest message of each channel has waited."""
    first = func.min(outbox.c.created_at)
    rows = connection.execute(
        select(outbox.c.channel, first).where(_WAITING).group_by(outbox.c.channel)
    )
    return {channel: at for channel, at in rows if at is not None}


def dead_letters_since(connection: Connection, since: datetime) -> int:
    """Return how many messages were given up since then and neither retried nor dropped."""
    dead = (outbox.c.status == DeliveryStatus.DEAD) & (outbox.c.finished_at >= since)
    return connection.execute(select(func.count()).where(dead)).scalar_one()
