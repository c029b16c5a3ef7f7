"""The outbox: claim the head of a lane under a lease, and finish it under the same token."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
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
from sqlalchemy.dialects import postgresql, sqlite

from alerts.channels.base import Rate
from monitor.errors import DeliveryError
from monitor.models.alerting import DIGEST, AlertEvent, DeliveryStatus, Level
from monitor.store.alert_tables import alert_channels, outbox
from monitor.store.engine import Store
from monitor.store.lease import database_now

#: After this a message is old news: it is given up, with the reason of its last failure.
GIVE_UP_AFTER = timedelta(hours=24)
#: An item whose dispatchers keep dying is given up after as many attempts and the time above.
_MOST_CRASHES = 5
_WAITING = outbox.c.status == DeliveryStatus.WAITING
_MOST_IN_DIGEST = 1000
_DELIVERED = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)


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
    digest: tuple[Mapping[str, Any], ...] = ()  #: snapshots of other lanes, told in a line each


def claim(
    store: Store,
    now: datetime | None,
    lease_s: float,
    limit: int,
    channels: Collection[str] | None = None,
    *,
    rate: Rate | None = None,
) -> list[Claimed]:
    """
    Take up to *limit* due messages, critical ones first, at most one a lane.

    A lane is one incident, channel and recipient; only its oldest waiting message can
    be taken, so nothing overtakes. What waits behind it is merged: the newest message
    is sent in place of all, under its own id, so that an id always has one content.
    With a *rate* no more than it allows are taken of the one channel. Who has had many
    messages in an hour gets the rest as one digest every now and then.

    Here and below *now* is None for the database's clock, the only one that all
    dispatchers share.
    """
    with store.write() as connection:
        now = now or database_now(connection)
        level, channel = 0.0, ""
        if rate is not None:
            assert channels is not None
            (channel,) = channels
            level = tokens(connection, channel, rate, now)
            limit = min(limit, int(level))
        if limit <= 0:
            return []
        throttles = throttled_recipients(connection, channels, now)
        due = _due(now, limit, channels).where(
            *(throttle.not_held_back() for throttle in throttles)
        )
        taken = [_take(connection, head, now, lease_s) for head in connection.execute(due).all()]
        for throttle in throttles:
            if len(taken) < limit and throttle.may_digest(now):
                taken += _digest(connection, throttle, now, lease_s)
        if rate is not None and taken:
            spend(connection, channel, level - len(taken), now)
        return taken


def holds(store: Store, claimed: Claimed, now: datetime | None) -> bool:
    """Say whether the message is still this process's alone: it may have been paused for long."""
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
    """Note that the message was taken; False if another process holds it by now."""
    status = DeliveryStatus.SENT if confirmed else DeliveryStatus.ACCEPTED
    with store.write() as connection:
        now = now or database_now(connection)
        note_success(connection, claimed.channel, now)
        changes = {"status": status, "finished_at": now, "error_code": None, "remote_ref": ref}
        return _finish(connection, claimed, changes)


def finish_failed(
    store: Store, claimed: Claimed, now: datetime | None, error: DeliveryError, delay_s: float
) -> DeliveryStatus | None:
    """
    Note a failed attempt: to be tried after *delay_s*, or dead when that cannot help.

    Returns the status, or None if another process holds the message by now. An error
    with ``retry_after_s`` pauses the whole channel for that long.
    """
    pause_s = error.retry_after_s
    with store.write() as connection:
        now = now or database_now(connection)
        changes = _after_failure(claimed, now, error, max(delay_s, pause_s or 0.0))
        paused_until = None if pause_s is None else now + timedelta(seconds=pause_s)
        note_failure(connection, claimed.channel, now, error.code, paused_until)
        if not _finish(connection, claimed, changes):
            return None
    return DeliveryStatus(changes.get("status", DeliveryStatus.WAITING))


def bury(store: Store, now: datetime | None, channels: Collection[str]) -> int:
    """
    Give up what nobody can send, once it is old; say how many that were.

    That is: what waits for a channel that is not in the settings any more, and what
    was never finished because its dispatchers died.
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


def _after_failure(
    claimed: Claimed, now: datetime, error: DeliveryError, wait_s: float
) -> dict[str, Any]:
    """Say what changes: given up when trying again cannot help or it is old news, else later."""
    if not error.transient:
        changes = _dead(error.code, now)
    elif now - claimed.created_at >= GIVE_UP_AFTER:
        changes = _dead(f"gave_up_after_24h:{error.code}", now)
    else:
        changes = {"due_at": now + timedelta(seconds=wait_s), "error_code": error.code}
    return {**changes, "possible_duplicate": True} if error.ambiguous else changes


def _dead(code: Any, now: datetime) -> dict[str, Any]:
    return {"status": DeliveryStatus.DEAD, "finished_at": now, "error_code": code}


def _free(now: datetime) -> Any:
    return or_(outbox.c.lease_until.is_(None), outbox.c.lease_until <= now)


def _due(now: datetime, limit: int, channels: Collection[str] | None) -> Select[Any]:
    older = outbox.alias("older")
    overtakes = exists().where(
        older.c.incident_id == outbox.c.incident_id,
        older.c.channel == outbox.c.channel,
        older.c.recipient == outbox.c.recipient,
        older.c.sequence < outbox.c.sequence,
        older.c.status == DeliveryStatus.WAITING,
    )
    # What was put into a digest has not been told before the digest has.
    absorbed, carrier = outbox.alias("absorbed"), outbox.alias("carrier")
    digested = exists().where(
        absorbed.c.incident_id == outbox.c.incident_id,
        absorbed.c.channel == outbox.c.channel,
        absorbed.c.recipient == outbox.c.recipient,
        absorbed.c.status == DeliveryStatus.MERGED,
        carrier.c.delivery_id == absorbed.c.merged_into,
        carrier.c.incident_id != absorbed.c.incident_id,
        carrier.c.status == DeliveryStatus.WAITING,
    )
    query = (
        select(outbox)
        .where(_WAITING, outbox.c.due_at <= now, _free(now), ~overtakes, ~digested)
        .where(outbox.c.channel.not_in(paused(now)))
        .order_by((outbox.c.level == Level.CRITICAL).desc(), outbox.c.due_at, outbox.c.sequence)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return query if channels is None else query.where(outbox.c.channel.in_(channels))


def _take(connection: Connection, head: Row[Any], now: datetime, lease_s: float) -> Claimed:
    lane = _lane(head)
    waiting = connection.execute(
        select(outbox).where(lane, _WAITING).order_by(outbox.c.sequence)
    ).all()
    newest = waiting[-1]
    _merge(connection, waiting[:-1], newest.delivery_id, now)
    announced = connection.execute(select(exists().where(lane, _was_delivered())))
    thread = connection.execute(
        select(outbox.c.remote_ref)
        .where(lane, outbox.c.remote_ref.is_not(None))
        .order_by(outbox.c.sequence)
        .limit(1)
    )
    tells = _tells(waiting, announced=bool(announced.scalar()))
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
    return Claimed(
        delivery_id=newest.delivery_id,
        token=values["token"],
        attempt=values["attempts"],
        channel=newest.channel,
        recipient=newest.recipient,
        tells=tells,
        snapshot=newest.snapshot,
        possible_duplicate=values["possible_duplicate"],
        created_at=newest.created_at,
        lease_until=values["lease_until"],
        thread=thread.scalar() or "",
        digest=_absorbed(connection, newest),
    )


def _digest(
    connection: Connection, throttle: RecipientThrottle, now: datetime, lease_s: float
) -> list[Claimed]:
    """Take one message of a throttle, and let it carry the news of all the others."""
    heads = connection.execute(
        _due(now, _MOST_IN_DIGEST, [throttle.channel]).where(
            throttle.is_for, outbox.c.event != DIGEST
        )
    ).all()
    if not heads:
        return []
    first, *others = heads
    # What is being retried has its content already.
    if first.attempts == 0:
        for other in others:
            waiting = connection.execute(select(outbox).where(_lane(other), _WAITING)).all()
            _merge(connection, waiting, _newest(connection, first), now)
    return [_take(connection, first, now, lease_s)]


def _lane(row: Row[Any]) -> ColumnElement[bool]:
    return and_(
        outbox.c.incident_id == row.incident_id,
        outbox.c.channel == row.channel,
        outbox.c.recipient == row.recipient,
    )


def _newest(connection: Connection, head: Row[Any]) -> str:
    query = select(outbox.c.delivery_id).where(_lane(head), _WAITING)
    return str(connection.execute(query.order_by(outbox.c.sequence.desc()).limit(1)).scalar_one())


def _absorbed(connection: Connection, carrier: Row[Any]) -> tuple[Mapping[str, Any], ...]:
    """Read the newest of each other lane that this message carries, the first to begin first."""
    mine = (outbox.c.merged_into == carrier.delivery_id) & (
        outbox.c.incident_id != carrier.incident_id
    )
    rows = connection.execute(
        select(outbox.c.incident_id, outbox.c.snapshot)
        .where(outbox.c.status == DeliveryStatus.MERGED, mine)
        .order_by(outbox.c.created_at, outbox.c.incident_id, outbox.c.sequence)
    )
    return tuple({row.incident_id: row.snapshot for row in rows}.values())


def _was_delivered() -> ColumnElement[bool]:
    """Say whether a message has reached its recipient, by itself or within another."""
    carrier = outbox.alias("delivered")
    carried = exists().where(
        carrier.c.delivery_id == outbox.c.merged_into, carrier.c.status.in_(_DELIVERED)
    )
    return or_(
        outbox.c.status.in_(_DELIVERED), and_(outbox.c.status == DeliveryStatus.MERGED, carried)
    )


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


def _tells(waiting: Sequence[Row[Any]], *, announced: bool) -> frozenset[str]:
    """Collect the news; an incident that this recipient never heard of is always told as fired."""
    news = {event for row in waiting for event in row.tells.split("+")}
    if DIGEST in news:
        return frozenset(news)
    return frozenset(news if announced else news | {AlertEvent.FIRED.value})


def _finish(connection: Connection, claimed: Claimed, changes: dict[str, Any]) -> bool:
    mine = and_(
        outbox.c.delivery_id == claimed.delivery_id,
        outbox.c.token == claimed.token,
        _WAITING,
    )
    result = connection.execute(update(outbox).where(mine).values(**changes, lease_until=None))
    return result.rowcount == 1


# --- channel health ---
# How each channel does: last success, last failure, and until when it asked to be left alone.


def note_success(connection: Connection, channel: str, now: datetime) -> None:
    """Write down that the channel took a message."""
    _note(connection, channel, {"last_success_at": now})


def note_failure(
    connection: Connection, channel: str, now: datetime, code: str, paused_until: datetime | None
) -> None:
    """Write down that the channel refused a message, and how long it wants to be left alone."""
    values: dict[str, Any] = {"last_failure_at": now, "last_error_code": code}
    if paused_until is not None:
        values["paused_until"] = paused_until
    _note(connection, channel, values)


def paused(now: datetime) -> Select[Any]:
    """Select the names of the channels that may not be used yet."""
    return select(alert_channels.c.channel).where(alert_channels.c.paused_until > now)


def tokens(connection: Connection, channel: str, rate: Rate, now: datetime) -> float:
    """
    Say how many messages may go at once on a channel now.

    The bucket is kept in the store, so that all dispatchers draw from the same one.
    """
    row = connection.execute(
        select(alert_channels.c.tokens, alert_channels.c.tokens_at)
        .where(alert_channels.c.channel == channel)
        .with_for_update()
    ).first()
    if row is None or row.tokens is None or row.tokens_at is None:
        return rate.burst
    # A clock that was set back must not empty the bucket.
    passed_s = max(0.0, (now - row.tokens_at).total_seconds())
    return min(rate.burst, float(row.tokens + passed_s * rate.per_minute / 60))


def spend(connection: Connection, channel: str, left: float, now: datetime) -> None:
    """Note what is left in the bucket of a channel."""
    _note(connection, channel, {"tokens": left, "tokens_at": now})


def _note(connection: Connection, channel: str, values: dict[str, Any]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(alert_channels).values(channel=channel, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["channel"], set_=values))


# --- throttles ---
# Who has had many messages in an hour: the rest comes as a digest, and nothing is dropped.


#: Messages an hour to one recipient; what is critical goes on up to the second number.
MOST_AN_HOUR = 30
MOST_CRITICAL_AN_HOUR = 60
#: Above that, everything that waits goes out as one message, this far apart.
DIGEST_EVERY = timedelta(minutes=10)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RecipientThrottle:
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


def throttled_recipients(
    connection: Connection, channels: Collection[str] | None, now: datetime
) -> list[RecipientThrottle]:
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
    return [RecipientThrottle(*row) for row in connection.execute(query)]
