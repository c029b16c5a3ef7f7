"""A lease: at most one scheduler at work, without a lock service."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, case, select, text
from sqlalchemy.sql.elements import ColumnElement

from monitor.errors import LeaseLostError
from monitor.store.engine import Store, insert_new
from monitor.store.tables import leases


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act, until it expires; the token grows with each new owner."""

    name: str
    owner: str
    token: int


def process_name(pid: int) -> str:
    """Return how the names of a process' leases on this host begin."""
    return f"{socket.gethostname()}-{pid}-"


def new_owner() -> str:
    """Return a name for this process that no other has."""
    return f"{process_name(os.getpid())}{uuid.uuid4().hex[:8]}"


def acquire(store: Store, name: str, owner: str, *, ttl_s: float) -> Lease | None:
    """
    Take the lease, or keep it, for *ttl_s* seconds of the database's clock.

    Returns None while another owner holds it. Clocks of hosts do not matter.
    """
    with store.write() as connection:
        now_s = database_time(connection)
        row = {"name": name, "owner": "", "token": 0, "expires_at_s": 0.0}
        insert_new(connection, leases, [row], returning=leases.c.name)
        mine = leases.c.owner == owner
        token = connection.execute(
            leases.update()
            .where((leases.c.name == name) & (mine | (leases.c.expires_at_s < now_s)))
            .values(
                owner=owner,
                token=case((mine, leases.c.token), else_=leases.c.token + 1),
                expires_at_s=now_s + ttl_s,
            )
            .returning(leases.c.token)
        ).scalar()
    return None if token is None else Lease(name, owner, int(token))


def release(store: Store, lease: Lease) -> None:
    """Give the lease back, so that no process has to wait for it to expire."""
    with store.write() as connection:
        connection.execute(leases.update().where(_held(lease)).values(expires_at_s=0.0, owner=""))


def fence(connection: Connection, lease: Lease) -> None:
    """
    Make the transaction depend on the lease: first statement of everything written under it.

    Raises
    ------
    LeaseLostError
        If another owner has it now, as after a long pause of this process.
    """
    # An update, not a select: on PostgreSQL it also locks out a takeover until the commit.
    held = connection.execute(leases.update().where(_held(lease)).values(token=lease.token))
    if held.rowcount != 1:
        raise LeaseLostError(f"the lease {lease.name!r} went to another process; nothing written")


def _held(lease: Lease) -> ColumnElement[bool]:
    return (
        (leases.c.name == lease.name)
        & (leases.c.owner == lease.owner)
        & (leases.c.token == lease.token)
    )


def database_time(connection: Connection) -> float:
    """Return the time in epoch seconds by the database's clock, which all hosts share."""
    if connection.dialect.name == "postgresql":
        sql = text("SELECT extract(epoch FROM clock_timestamp())")
    else:
        sql = text("SELECT (julianday('now') - 2440587.5) * 86400.0")
    return float(connection.execute(sql).scalar_one())


def database_now(connection: Connection) -> datetime:
    """Return the time by the database's clock."""
    return datetime.fromtimestamp(database_time(connection), UTC)


def current_owner(connection: Connection, name: str) -> str | None:
    """Return who holds the lease right now; None when it is free or has expired."""
    held = leases.c.expires_at_s >= database_time(connection)
    return connection.execute(select(leases.c.owner).where((leases.c.name == name) & held)).scalar()
