"""Empty the outbox: claim, send outside any transaction, finish; one thread a channel."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection, Row, and_, exists, or_, select, update

from alerts import outbox
from alerts.channels.base import Channel, Receipt, rate_of
from alerts.digest import digest_message
from alerts.message import Message, digest_lines, render
from alerts.notifier import delivery_id
from alerts.routing import Recipient
from alerts.snapshot import Snapshot
from monitor.errors import DeliveryError, SettingsError
from monitor.models.alerting import DIGEST, AlertEvent, DeliveryStatus, Level
from monitor.report.digest import Digest
from monitor.store.alert_tables import outbox as outbox_alert_tables
from monitor.store.engine import Store, insert_new
from monitor.store.lease import database_now

_log = structlog.get_logger("groundwatch.alerts")
#: A send may take two exchanges and a slow name server; a lease must outlast that.
_LEASE_TIMEOUTS = 3
#: So many failures in a row end a channel's turn.
_MOST_FAILURES = 3


def _database_clock() -> None:
    """Leave the time to the database."""


def _always() -> bool:
    return True


class Dispatcher:
    """
    Sends what is due; any number may run at once, in any process.

    A lease lasts longer than one send may take, so that only a process that died or
    was paused for long loses one; what it held is sent again under the same id. The
    time is the database's, which all hosts share, unless a *clock* is given.
    """

    def __init__(
        self,
        store: Store,
        channels: Mapping[str, Channel],
        rng: random.Random,
        *,
        clock: Callable[[], datetime | None] = _database_clock,
        lease_s: float = 60.0,
        limit: int = 100,
    ) -> None:
        self._store = store
        self._channels = channels
        self._clock = clock
        self._rng = rng
        longest_s = max((channel.timeout_s for channel in channels.values()), default=0.0)
        self._lease_s = max(lease_s, _LEASE_TIMEOUTS * longest_s)
        self._limit = limit

    def run_once(self, may_go_on: Callable[[], bool] = _always) -> Counter[str]:
        """
        Send up to *limit* messages on each channel, and count how they ended.

        A channel that hangs, or fails a few times in a row, is left alone until the
        next run. *may_go_on* is asked before each message, from several threads; what is
        being sent is finished anyway.
        Counts: ``sent``, ``accepted``, ``retry``, ``dead``, ``lost_lease``.
        """
        counts: Counter[str] = Counter()
        buried = outbox.bury(self._store, self._clock(), tuple(self._channels))
        if buried:
            counts["dead"] = buried
            _log.error("alert_deliveries_given_up", count=buried)
        addresses = {name: channel.addresses for name, channel in self._channels.items()}
        fell_back = fall_back(self._store, self._clock(), addresses)
        if fell_back:
            _log.warning("alert_fell_back", count=fell_back)
        if self._channels:
            drain = partial(self._drain, may_go_on=may_go_on)
            with ThreadPoolExecutor(len(self._channels), "groundwatch-send") as pool:
                for outcomes in pool.map(drain, self._channels.values()):
                    counts += outcomes
        return counts

    def _drain(self, channel: Channel, may_go_on: Callable[[], bool]) -> Counter[str]:
        outcomes: Counter[str] = Counter()
        failures, patience_until = 0, time.monotonic() + channel.timeout_s
        for _ in range(self._limit):
            if not may_go_on():
                break
            due = outbox.claim(
                self._store,
                self._clock(),
                self._lease_s,
                1,
                [channel.name],
                rate=rate_of(channel),
            )
            if not due:
                break
            outcome = self._deliver(channel, due[0])
            outcomes[outcome] += 1
            failures = failures + 1 if outcome == "retry" else 0
            hangs = failures > 0 and time.monotonic() >= patience_until
            if hangs or failures >= _MOST_FAILURES:
                break
        return outcomes

    def _deliver(self, channel: Channel, item: outbox.Claimed) -> str:
        """Send one message, and say how it ended."""
        try:
            message = _write(item)
            # Who was paused meanwhile must not overtake what others have sent since.
            if not outbox.holds(self._store, item, self._clock()):
                return self._lost(item)
            receipt = _send(channel, item, message)
        except DeliveryError as error:
            return self._failed(item, error)
        return self._sent(item, receipt)

    def _sent(self, item: outbox.Claimed, receipt: Receipt) -> str:
        if not outbox.finish_sent(
            self._store, item, self._clock(), confirmed=receipt.confirmed, ref=receipt.ref
        ):
            return self._lost(item)
        outcome = "sent" if receipt.confirmed else "accepted"
        _log.info(f"alert_{outcome}", delivery_id=item.delivery_id, attempt=item.attempt,
                  channel=item.channel)  # fmt: skip
        return outcome

    def _failed(self, item: outbox.Claimed, error: DeliveryError) -> str:
        wait_s = delay_s(item.attempt, self._rng)
        status = outbox.finish_failed(self._store, item, self._clock(), error, wait_s)
        if status is None:
            return self._lost(item)
        outcome = "dead" if status is DeliveryStatus.DEAD else "retry"
        _log.warning(f"alert_{outcome}", delivery_id=item.delivery_id, attempt=item.attempt,
                     channel=item.channel, error_code=error.code)  # fmt: skip
        return outcome

    def _lost(self, item: outbox.Claimed) -> str:
        _log.warning("alert_lease_lost", delivery_id=item.delivery_id, channel=item.channel)
        return "lost_lease"


def _write(item: outbox.Claimed) -> Message:
    """Make the message from what is stored; nothing was sent when that fails."""
    if DIGEST in item.tells:
        return _write_digest(item)
    try:
        snapshot = Snapshot.model_validate(item.snapshot)
        tells = {AlertEvent(event) for event in item.tells}
    except ValueError:
        # Its text would hold what is stored.
        raise _unreadable() from None
    try:
        return render(
            snapshot,
            tells,
            recipient=item.recipient,
            may_repeat=item.possible_duplicate,
            thread=item.thread,
            digest=digest_lines(_readable(item.digest)),
        )
    except Exception as error:  # noqa: BLE001 - as above
        raise _unexpected(error, "rendering", ambiguous=False) from None


def _write_digest(item: outbox.Claimed) -> Message:
    try:
        digest = Digest.model_validate(item.snapshot)
    except ValueError:
        raise _unreadable() from None
    try:
        return digest_message(
            digest, item.delivery_id, recipient=item.recipient, may_repeat=item.possible_duplicate
        )
    except Exception as error:  # noqa: BLE001 - as above
        raise _unexpected(error, "rendering", ambiguous=False) from None


def _unreadable() -> DeliveryError:
    return DeliveryError(
        "the stored message cannot be read", code="unreadable_snapshot", transient=False
    )


def _readable(stored: Iterable[Mapping[str, Any]]) -> list[Snapshot]:
    """Read what can be read: one that cannot must not hold up the others in its digest."""
    found = []
    for each in stored:
        with suppress(ValueError):
            found.append(Snapshot.model_validate(each))
    return found


def _send(channel: Channel, item: outbox.Claimed, message: Message) -> Receipt:
    try:
        return channel.send(message, item.delivery_id, item.attempt)
    except DeliveryError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may hold a secret; its class does not
        raise _unexpected(error, "unexpected", ambiguous=True) from None


def _unexpected(error: Exception, what: str, *, ambiguous: bool) -> DeliveryError:
    code = f"{what}:{type(error).__name__}"
    return DeliveryError(f"{what} error", code=code[:100], ambiguous=ambiguous)


# --- backoff ---
# How long to wait before a delivery is tried again.


#: The longest wait after each failed attempt, in seconds; the last one from then on.
STEPS_S = (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0)


def delay_s(attempt: int, rng: random.Random) -> float:
    """Draw the wait after a failed *attempt* (counted from 1), anywhere up to its step."""
    return rng.uniform(0.0, STEPS_S[min(attempt, len(STEPS_S)) - 1])


# --- dead letters ---
# What becomes of messages that do not get through: another channel, another try, or the end.


#: What is critical and has not got through for so long goes to the fallback as well.
FALL_BACK_AFTER = timedelta(minutes=5)
_DEAD = outbox_alert_tables.c.status == DeliveryStatus.DEAD
_WAITING = outbox_alert_tables.c.status == DeliveryStatus.WAITING
_DELIVERED = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)


def fall_back(store: Store, now: datetime | None, addresses: Mapping[str, Sequence[str]]) -> int:
    """
    Send to the fallback channel what its own channel does not take; say how many rows.

    That is what was given up, and what is critical and waits for five minutes.
    *addresses* are those of each channel that there is.
    """
    with store.write() as connection:
        now = now or database_now(connection)
        late = and_(
            _WAITING,
            outbox_alert_tables.c.level == Level.CRITICAL,
            outbox_alert_tables.c.created_at <= now - FALL_BACK_AFTER,
        )
        rows = connection.execute(
            select(outbox_alert_tables).where(
                outbox_alert_tables.c.fallback.in_(list(addresses)), or_(_DEAD, late)
            )
        ).all()
        copies = [
            _copy(row, Recipient(row.fallback, address), now)
            for row in rows
            for address in addresses[row.fallback]
        ]
        written = insert_new(
            connection, outbox_alert_tables, copies, returning=outbox_alert_tables.c.delivery_id
        )
        done = [row.delivery_id for row in rows]
        if done:
            connection.execute(
                update(outbox_alert_tables)
                .where(outbox_alert_tables.c.delivery_id.in_(done))
                .values(fallback=None)
            )
    return len(written)


def retry(connection: Connection, name: str, now: datetime) -> str:
    """
    Try a message again that was given up; give its id.

    Raises
    ------
    SettingsError
        If there is none of that name, or its recipient knows newer things by now.
    """
    row = _find(connection, name)
    if row.status != DeliveryStatus.DEAD:
        raise SettingsError(f"message {row.delivery_id} was not given up: it is {row.status}")
    newer = exists().where(
        outbox_alert_tables.c.incident_id == row.incident_id,
        outbox_alert_tables.c.channel == row.channel,
        outbox_alert_tables.c.recipient == row.recipient,
        outbox_alert_tables.c.sequence > row.sequence,
        outbox_alert_tables.c.status.in_(_DELIVERED),
    )
    if connection.execute(select(newer)).scalar():
        raise SettingsError(
            f"newer news of the same incident has arrived there since; let it go with:"
            f" groundwatch alerts outbox drop {row.delivery_id}"
        )
    values = {"status": DeliveryStatus.WAITING, "due_at": now, "finished_at": None, "attempts": 0}
    mine = outbox_alert_tables.c.delivery_id == row.delivery_id
    connection.execute(update(outbox_alert_tables).where(mine).values(**values))
    return str(row.delivery_id)


def drop(connection: Connection, name: str, now: datetime) -> str:
    """
    Let go of a message that waits or was given up; give its id.

    Raises
    ------
    SettingsError
        If there is none of that name, or it has arrived already.
    """
    row = _find(connection, name)
    if row.status not in {DeliveryStatus.DEAD, DeliveryStatus.WAITING}:
        raise SettingsError(f"message {row.delivery_id} cannot be dropped: it is {row.status}")
    # The token makes whoever is sending it right now fail to finish it.
    values = {"status": DeliveryStatus.DROPPED, "finished_at": now, "token": row.token + 1}
    mine = outbox_alert_tables.c.delivery_id == row.delivery_id
    connection.execute(update(outbox_alert_tables).where(mine).values(**values, lease_until=None))
    return str(row.delivery_id)


def _find(connection: Connection, name: str) -> Row[Any]:
    matches = outbox_alert_tables.c.delivery_id.startswith(name, autoescape=True)
    rows = connection.execute(select(outbox_alert_tables).where(matches).limit(2)).all()
    if len(name) < 4 or len(rows) != 1:  # noqa: PLR2004 - fewer name nothing for sure
        problem = "several messages are" if len(rows) > 1 else "no message is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch alerts outbox ls --dead")
    return rows[0]


def _copy(row: Row[Any], to: Recipient, now: datetime) -> dict[str, Any]:
    note = f"sent here because {row.channel} does not take messages"
    return {
        "delivery_id": delivery_id(row.incident_id, row.sequence, to),
        "incident_id": row.incident_id,
        "sequence": row.sequence,
        "channel": to.channel,
        "recipient": to.address,
        "event": row.event,
        "tells": row.tells,
        "level": row.level,
        "snapshot": {**row.snapshot, "note": note},
        "status": DeliveryStatus.WAITING.value,
        "attempts": 0,
        "token": 0,
        "created_at": now,
        "due_at": now,
        "possible_duplicate": False,
        "fallback": None,
    }
