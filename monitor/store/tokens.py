"""Tokens of the page and the API: made once, known by their hashes, revoked by name."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import ColumnElement, Connection, or_, select, true, update

from monitor.errors import SettingsError
from monitor.store.engine import rows_of
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
        "secret_hash": _hash_of(secret), "name": name, "role": role, "apps": sorted(apps),
        "scopes": sorted(scopes), "created_by": created_by[:200], "created_at": now,
        "expires_at": expires_at,
    }  # fmt: skip
    connection.execute(tokens.insert(), [row])
    return secret


def find_token(connection: Connection, secret: str, now: datetime) -> Token | None:
    """Return the live token of a secret."""
    found = _read(connection, tokens.c.secret_hash == _hash_of(secret))
    return next((token for token in found if token.is_live(now)), None)


def read_tokens(connection: Connection) -> list[Token]:
    """Return all tokens, the newest first."""
    return _read(connection, true())


def _read(connection: Connection, wanted: ColumnElement[bool]) -> list[Token]:
    query = select(tokens).where(wanted).order_by(tokens.c.created_at.desc(), tokens.c.name)
    return [Token.model_validate(row) for row in rows_of(connection, query)]


def revoke_token(connection: Connection, name: str, now: datetime) -> bool:
    """Revoke the live token of a name, from now on; return whether there was one."""
    c = tokens.c
    live = c.revoked_at.is_(None) & or_(c.expires_at.is_(None), c.expires_at > now)
    query = update(tokens).where(c.name == name, live).values(revoked_at=now)
    return connection.execute(query).rowcount > 0


def _hash_of(secret: str) -> str:
    # Of 256 random bits: no salt and no slow hash could make them harder to guess.
    return hashlib.sha256(secret.encode()).hexdigest()
