"""What becomes of messages that do not get through: another channel, another try, or the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, or_, select, update

from alerts.announce import delivery_id
from alerts.channels.base import Recipient
from monitor.errors import SettingsError
from monitor.models.alerting import DeliveryStatus, Level
from monitor.store.alert_tables import outbox
from monitor.store.engine import Store
from monitor.store.lease import database_now
from monitor.store.upsert import insert_new

#: What is critical and has not got through for so long goes to the fallback as well.
FALL_BACK_AFTER = timedelta(minutes=5)
_DEAD = outbox.c.status == DeliveryStatus.DEAD
_WAITING = outbox.c.status == DeliveryStatus.WAITING
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
            outbox.c.level == Level.CRITICAL,
            outbox.c.created_at <= now - FALL_BACK_AFTER,
        )
        rows = connection.execute(
            select(outbox).where(outbox.c.fallback.in_(list(addresses)), or_(_DEAD, late))
        ).all()
        copies = [
            _copy(row, Recipient(row.fallback, address), now)
            for row in rows
            for address in addresses[row.fallback]
        ]
        written = insert_new(connection, outbox, copies, returning=outbox.c.delivery_id)
        done = [row.delivery_id for row in rows]
        if done:
            connection.execute(
                update(outbox).where(outbox.c.delivery_id.in_(done)).values(fallback=None)
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
        outbox.c.incident_id == row.incident_id,
        outbox.c.channel == row.channel,
        outbox.c.recipient == row.recipient,
        outbox.c.sequence > row.sequence,
        outbox.c.status.in_(_DELIVERED),
    )
    if connection.execute(select(newer)).scalar():
        raise SettingsError(
            f"newer news of the same incident has arrived there since; let it go with:"
            f" groundwatch alerts outbox drop {row.delivery_id}"
        )
    values = {"status": DeliveryStatus.WAITING, "due_at": now, "finished_at": None, "attempts": 0}
    mine = outbox.c.delivery_id == row.delivery_id
    connection.execute(update(outbox).where(mine).values(**values))
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
    mine = outbox.c.delivery_id == row.delivery_id
    connection.execute(update(outbox).where(mine).values(**values, lease_until=None))
    return str(row.delivery_id)


def _find(connection: Connection, name: str) -> Row[Any]:
    matches = outbox.c.delivery_id.startswith(name, autoescape=True)
    rows = connection.execute(select(outbox).where(matches).limit(2)).all()
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
