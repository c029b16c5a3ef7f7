"""Tokens of the page and the API: made once, known by their hashes, revoked by name."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Connection, Row, or_, select, update

from monitor.errors import SettingsError
from monitor.store.tables import tokens


class Token(BaseModel):
    """What is known of a token; its secret is not."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: str = Field(description="What it may read: viewer, reader, operator.")
    apps: tuple[str, ...] = Field(description="The only apps that it sees; none: all.")
    scopes: tuple[str, ...] = Field(description="What it may write besides what its role may.")
    created_by: str
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None

    def is_live(self, now: datetime) -> bool:
        """Return whether the token lets anybody in."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def create_token(
    connection: Connection,
    name: str,
    *,
    role: str,
    apps: Collection[str],
    scopes: Collection[str],
    created_by: str,
    now: datetime,
    expires_at: datetime | None = None,
) -> str:
    """
    Store a new token and return its secret, which nobody can read again.

    Raises
    ------
    SettingsError
        If a live token has this name: it must be revoked first.
    """
    if any(token.name == name and token.is_live(now) for token in read_tokens(connection)):
        raise SettingsError(
            f"a token named {name!r} exists; revoke it first: groundwatch tokens revoke {name}"
        )
    secret = f"gw_{secrets.token_urlsafe(32)}"
    row = {
        "secret_hash": _hash_of(secret),
        "name": name,
        "role": role,
        "apps": sorted(apps),
        "scopes": sorted(scopes),
        "created_by": created_by[:200],
        "created_at_ms": _ms(now),
        "expires_at_ms": expires_at and _ms(expires_at),
    }
    connection.execute(tokens.insert(), [row])
    return secret


def find_token(connection: Connection, secret: str, now: datetime) -> Token | None:
    """Return the live token of a secret."""
    query = select(tokens).where(tokens.c.secret_hash == _hash_of(secret))
    row = connection.execute(query).first()
    found = None if row is None else _token(row)
    return found if found is not None and found.is_live(now) else None


def read_tokens(connection: Connection) -> list[Token]:
    """Return all tokens, the newest first."""
    query = select(tokens).order_by(tokens.c.created_at_ms.desc(), tokens.c.name)
    return [_token(row) for row in connection.execute(query)]


def revoke_token(connection: Connection, name: str, now: datetime) -> bool:
    """Revoke the live token of a name, from now on; return whether there was one."""
    live = (
        tokens.c.revoked_at_ms.is_(None),
        or_(tokens.c.expires_at_ms.is_(None), tokens.c.expires_at_ms > _ms(now)),
    )
    query = update(tokens).where(tokens.c.name == name, *live).values(revoked_at_ms=_ms(now))
    return connection.execute(query).rowcount > 0


def _hash_of(secret: str) -> str:
    # Of 256 random bits: no salt and no slow hash could make them harder to guess.
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: Row[Any]) -> Token:
    times = {
        name: None if (ms := getattr(row, f"{name}_ms")) is None else _time(ms)
        for name in ("created_at", "expires_at", "revoked_at")
    }
    kept = ("name", "role", "apps", "scopes", "created_by")
    return Token.model_validate({name: getattr(row, name) for name in kept} | times)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
