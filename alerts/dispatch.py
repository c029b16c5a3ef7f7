"""
Empty the outbox: claim, send outside any transaction, finish; one thread a channel.

`Dispatcher.run_once` is the whole way of a message out of the outbox. Below it stands what becomes
of messages that do not get through: the fallback channel, another try, or dropped by hand; and
`wiring_from` makes channels and routing from the settings.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection, Row, and_, exists, or_, select, update

from alerts import outbox
from alerts.channels.base import Channel
from alerts.channels.email import EmailChannel
from alerts.channels.slack import SlackChannel
from alerts.digest import digest_message
from alerts.message import Example, Message, digest_lines, render
from alerts.model import Snapshot
from alerts.outbox import waiting_row
from alerts.routing import Recipient, RoutingConfig
from monitor.errors import DeliveryError, GroundwatchError, SettingsError
from monitor.models.alerting import DIGEST, AlertEvent, DeliveryStatus, Severity
from monitor.report.digest import Digest
from monitor.retry import backoff_s
from monitor.settings import Settings
from monitor.store.alert_tables import outbox as messages
from monitor.store.engine import Store, database_now, insert_new
from monitor.store.samples import read_sample

_log = structlog.get_logger("groundwatch.alerts")
#: A send may take two exchanges and a slow name server; a lease must outlast that.
_LEASE_TIMEOUTS = 3
#: So many failures in a row end a channel's turn.
_MOST_FAILURES = 3
#: The wait after a first failed attempt, and the longest one, in seconds.
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 1800.0


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
        clock: Callable[[], datetime | None] = lambda: None,
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

    def run_once(self, may_go_on: Callable[[], bool] = lambda: True) -> Counter[str]:
        """
        Send up to *limit* messages on each channel, and count how they ended.

        A channel that hangs, or fails a few times in a row, is not called until the next run.
        *may_go_on* is called before each message, from several threads; what is being sent is
        finished anyway. Counted are ``sent``, ``accepted``, ``retry``, ``dead``, ``lost_lease``.
        """
        counts: Counter[str] = Counter()
        dead = outbox.give_up_undeliverable(self._store, self._clock(), tuple(self._channels))
        if dead:
            counts["dead"] = dead
            _log.error("alert_deliveries_given_up", count=dead)
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
        """Send what is due on one channel."""
        outcomes: Counter[str] = Counter()
        failures, hangs_at = 0, time.monotonic() + channel.timeout_s
        for _ in range(self._limit):
            if not may_go_on():
                break
            item = outbox.claim(
                self._store, self._clock(), self._lease_s, channel.name, channel.rate
            )
            if item is None:
                break
            outcome = self._deliver(channel, item)
            outcomes[outcome] += 1
            failures = failures + 1 if outcome == "retry" else 0
            hangs = failures > 0 and time.monotonic() >= hangs_at
            if hangs or failures >= _MOST_FAILURES:
                break
        return outcomes

    def _deliver(self, channel: Channel, item: outbox.Claimed) -> str:
        """Send one message; return how it ended."""
        error_code = None
        try:
            message = self._render(item)
            # Who was paused meanwhile must not overtake what others have sent since.
            receipt = None
            if outbox.holds(self._store, item, self._clock()):
                try:
                    receipt = channel.deliver(message, item.delivery_id)
                except DeliveryError:
                    raise
                except Exception as error:  # noqa: BLE001 - its text may hold a secret
                    raise _unexpected(error, "unexpected", ambiguous=True) from None
        except DeliveryError as error:
            error_code = error.code
            wait_s = backoff_s(
                item.attempt, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S,
                uniform=self._rng.uniform,
            )  # fmt: skip
            status = outbox.finish_failed(self._store, item, self._clock(), error, wait_s)
            dead = status is DeliveryStatus.DEAD
            outcome = "lost_lease" if status is None else "dead" if dead else "retry"
        else:
            outcome = "lost_lease"
            if receipt is not None and outbox.finish_sent(
                self._store, item, self._clock(), confirmed=receipt.confirmed, ref=receipt.ref
            ):
                outcome = "sent" if receipt.confirmed else "accepted"
        log = _log.info if outcome in {"sent", "accepted"} else _log.warning
        about = {} if error_code is None else {"error_code": error_code}
        log(f"alert_{outcome}", delivery_id=item.delivery_id, attempt=item.attempt,
            channel=item.channel, **about)  # fmt: skip
        return outcome

    def _render(self, item: outbox.Claimed) -> Message:
        """Write the message from what is stored; nothing was sent when that fails."""
        about: Any = {"recipient": item.recipient, "may_repeat": item.possible_duplicate}
        try:
            if DIGEST in item.tells:
                digest = Digest.model_validate(item.snapshot)
            else:
                snapshot = Snapshot.model_validate(item.snapshot)
                tells = {AlertEvent(event) for event in item.tells}
        except ValueError:
            # Its text would hold what is stored.
            raise DeliveryError(
                "the stored message cannot be read", code="unreadable_snapshot", transient=False
            ) from None
        try:
            if DIGEST in item.tells:
                return digest_message(digest, item.delivery_id, **about)
            # Read what can be read: one that cannot must not hold up the others in its digest.
            found = []
            for each in item.digest:
                with suppress(ValueError):
                    found.append(Snapshot.model_validate(each))
            shown = None
            if snapshot.example_id:
                # The alert must go out, with an example or without.
                with suppress(ValueError, GroundwatchError), self._store.read() as connection:
                    shown = read_sample(connection, snapshot.example_id)
            return render(
                snapshot, tells, thread=item.thread, digest=digest_lines(found),
                example=Example.of(shown, snapshot) if shown else None, **about,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - as above
            raise _unexpected(error, "rendering", ambiguous=False) from None


def _unexpected(error: Exception, what: str, *, ambiguous: bool) -> DeliveryError:
    code = f"{what}:{type(error).__name__}"
    return DeliveryError(f"{what} error", code=code[:100], ambiguous=ambiguous)


#: What is critical and has not got through for so long goes to the fallback as well.
FALL_BACK_AFTER = timedelta(minutes=5)
_DEAD = messages.c.status == DeliveryStatus.DEAD
_WAITING = messages.c.status == DeliveryStatus.WAITING
_DELIVERED = (DeliveryStatus.SENT, DeliveryStatus.ACCEPTED)


def fall_back(store: Store, now: datetime | None, addresses: Mapping[str, Sequence[str]]) -> int:
    """
    Copy to the fallback channel what its own channel does not take; return how many messages.

    That is what was given up, and what is critical and has waited for five minutes. *addresses*
    are those of each channel that there is.
    """
    with store.write() as connection:
        now = now or database_now(connection)
        late = and_(
            _WAITING,
            messages.c.level == Severity.CRITICAL,
            messages.c.created_at <= now - FALL_BACK_AFTER,
        )
        rows = connection.execute(
            select(messages).where(messages.c.fallback.in_(list(addresses)), or_(_DEAD, late))
        ).all()
        copies = []
        for row in rows:
            note = f"sent here because the channel {row.channel} takes no messages"
            about, level = (row.incident_id, row.sequence), Severity(row.level)
            for address in addresses[row.fallback]:
                to, stored = Recipient(row.fallback, address), {**row.snapshot, "note": note}
                copy = waiting_row(about, row.event, level, stored, to, now=now)
                copies.append(copy | {"tells": row.tells})
        written = insert_new(connection, messages, copies, returning=messages.c.delivery_id)
        done = [row.delivery_id for row in rows]
        if done:
            copied = update(messages).where(messages.c.delivery_id.in_(done))
            connection.execute(copied.values(fallback=None))
    return len(written)


def retry(connection: Connection, name: str, now: datetime) -> str:
    """
    Try a message again that was given up; return its id.

    Raise SettingsError if there is none of that name, or its recipient has got newer messages
    since.
    """
    row = _find(connection, name)
    if row.status != DeliveryStatus.DEAD:
        raise SettingsError(f"message {row.delivery_id} was not given up: it is {row.status}")
    newer = exists().where(
        outbox.same_lane(row),
        messages.c.sequence > row.sequence,
        messages.c.status.in_(_DELIVERED),
    )
    if connection.execute(select(newer)).scalar():
        raise SettingsError(
            f"a newer message about the same incident has arrived there since; drop this one with:"
            f" groundwatch alerts outbox drop {row.delivery_id}"
        )
    values = {"status": DeliveryStatus.WAITING, "due_at": now, "finished_at": None, "attempts": 0}
    mine = messages.c.delivery_id == row.delivery_id
    connection.execute(update(messages).where(mine).values(**values))
    return str(row.delivery_id)


def drop(connection: Connection, name: str, now: datetime) -> str:
    """
    Drop a message that waits or was given up; return its id.

    Raise SettingsError if there is none of that name, or it has arrived already.
    """
    row = _find(connection, name)
    if row.status not in {DeliveryStatus.DEAD, DeliveryStatus.WAITING}:
        raise SettingsError(f"message {row.delivery_id} cannot be dropped: it is {row.status}")
    # The token makes whoever is sending it right now fail to finish it.
    values = {"status": DeliveryStatus.DROPPED, "finished_at": now, "token": row.token + 1}
    mine = messages.c.delivery_id == row.delivery_id
    connection.execute(update(messages).where(mine).values(**values, lease_until=None))
    return str(row.delivery_id)


def _find(connection: Connection, name: str) -> Row[Any]:
    matches = messages.c.delivery_id.startswith(name, autoescape=True)
    rows = connection.execute(select(messages).where(matches).limit(2)).all()
    if len(name) < 4 or len(rows) != 1:  # noqa: PLR2004 - fewer name nothing for sure
        problem = "several messages are" if len(rows) > 1 else "no message is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch alerts outbox ls --dead")
    return rows[0]


# --- the channels and the routing that the settings describe ---


class Wiring(NamedTuple):
    """The channels by name, and who is notified of what through them."""

    channels: dict[str, Channel]
    plan: RoutingConfig


def wiring_from(settings: Settings) -> Wiring:
    """
    Make the channels and the routing; without a routes file everyone is notified of everything.

    Raise SettingsError if the routes file has mistakes, with a line for each.
    """
    channels = channels_from(settings)
    if settings.alerts_file is None:
        return Wiring(channels, RoutingConfig.everyone(recipients_of(channels)))
    from alerts.routes_file import read_routes_file  # noqa: PLC0415  # few have one

    def scored_metrics() -> list[str]:
        # Imported only for files with rules: it takes as long as everything else.
        from monitor.scoring.registry import resolve_metrics  # noqa: PLC0415

        return [metric.name for metric in resolve_metrics(settings)]

    timeout_s = settings.delivery_timeout_s
    return Wiring(
        *read_routes_file(settings.alerts_file, channels, timeout_s, scored=scored_metrics)
    )


def channels_from(settings: Settings) -> dict[str, Channel]:
    """Make the channels that the settings declare; the routes file adds its own."""
    timeout_s, found = settings.delivery_timeout_s, dict[str, Channel]()
    if settings.slack_webhook_url is not None:
        found["slack"] = SlackChannel(settings.slack_webhook_url, timeout_s=timeout_s)
    if settings.smtp_url is not None:
        found["email"] = EmailChannel(
            settings.smtp_url,
            sender=settings.email_from,
            recipients=settings.email_to,
            timeout_s=timeout_s,
        )
    for channel in found.values():
        channel.explanations = settings.alert_explanations
    return found


def recipients_of(channels: Mapping[str, Channel]) -> list[Recipient]:
    """Return every recipient of these channels."""
    return [Recipient(c.name, address) for c in channels.values() for address in c.addresses]
