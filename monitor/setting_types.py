"""What a setting may be: lists, addresses, rates; each refuses what it is not, and says why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field, SecretStr


def split_commas(value: object) -> object:
    """Read a list that is written with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def an_http_url(value: SecretStr) -> SecretStr:
    """Accept the address of a web page, and nothing else."""
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _port_is_valid(parts):
        raise ValueError("should be a web address such as https://hooks.slack.com/services/...")
    return value


def a_redis_url(value: str) -> str:
    """Accept the address of a Redis."""
    if urlsplit(value).scheme not in {"redis", "rediss", "unix"}:
        raise ValueError("should be redis://host:6379/0, rediss://... (TLS) or unix:///path")
    return value


def an_smtp_url(value: SecretStr) -> SecretStr:
    """Accept the address of a mail server."""
    parts = urlsplit(value.get_secret_value())
    known = parts.scheme in {"smtp", "smtps", "smtp+plain"}
    if not known or not parts.hostname or not _port_is_valid(parts):
        raise ValueError(
            "should be smtp://user:password@host:587 (STARTTLS), smtps://... (TLS from the start)"
            " or smtp+plain://host:25 (no encryption, for a relay on this machine);"
            " in a password, # / ? and @ are written as %23 %2F %3F and %40"
        )
    return value


def _port_is_valid(parts: SplitResult) -> bool:
    try:
        _ = parts.port
    except ValueError:
        return False
    return True


def addresses(value: tuple[str, ...]) -> tuple[str, ...]:
    """Accept email addresses."""
    for address in value:
        if not re.fullmatch(r"[^@\s]+@[^@\s]+", address):
            raise ValueError(f"{address!r} is no email address such as oncall@example.org")
    return value


def a_home(value: Path) -> Path:
    """Make a path absolute."""
    return value.expanduser().absolute()


Names = Annotated[tuple[str, ...], BeforeValidator(split_commas)]
Rate = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]
Dollars = Annotated[float, Field(gt=0, le=1e9)]
