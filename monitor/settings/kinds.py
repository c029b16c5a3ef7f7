"""Kinds of values that settings have, and what is wrong with the others."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
)

from .addresses import REDIS_URL_FORMS, is_redis_url

_LONGEST_S = 10 * 365 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,18})\s*([smhdw])", re.IGNORECASE)


def parse_duration_s(text: str) -> int:
    """Return a duration such as 90s, 15m, 24h or 7d in seconds; raise ValueError for others."""
    match = _DURATION.fullmatch(text.strip())
    if not match or int(match[1]) == 0:
        raise ValueError(f"Invalid duration {text[:40]!r}: expected 90s, 15m, 24h or 7d")
    seconds = int(match[1]) * _UNITS_S[match[2].lower()]
    if seconds > _LONGEST_S:
        raise ValueError(f"Invalid duration {text[:40]!r}: longer than ten years")
    return seconds


def parse_time(text: str, now: datetime) -> datetime:
    """
    Return the time that *text* names, in UTC: ISO 8601, or a duration such as 30m for so long ago.

    Raises
    ------
    ValueError
        If it names none; the message shows what one looks like. A time without a zone is UTC.
    """
    if _DURATION.fullmatch(text.strip()):
        return now - timedelta(seconds=parse_duration_s(text))
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"Invalid time {text[:40]!r}: expected 2026-11-21T14:05, with +01:00 if not in UTC,"
            " or, for so long ago, 90s, 30m, 24h or 7d"
        ) from None


def split_commas(value: object) -> object:
    """Split text at commas; leave anything else as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def an_http_url(value: SecretStr) -> SecretStr:
    """Check a web address."""
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _port_is_valid(parts):
        raise ValueError("should be a web address such as https://hooks.slack.com/services/...")
    return value


def a_redis_url(value: str) -> str:
    """Check the address of a Redis."""
    if not is_redis_url(value):
        raise ValueError(f"should be {REDIS_URL_FORMS}")
    return value


def an_smtp_url(value: SecretStr) -> SecretStr:
    """Check the address of a mail server."""
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
    """Check email addresses."""
    for address in value:
        if not re.fullmatch(r"[^@\s]+@[^@\s]+", address):
            raise ValueError(f"{address!r} is not an email address such as oncall@example.org")
    return value


def dimensions(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of dimensions of segments."""
    for name in value:
        if len(name) > 60 or not name.isprintable() or "=" in name:  # noqa: PLR2004
            raise ValueError(f"{name!r} is not a name of a tag: at most 60 characters, without =")
    return tuple(dict.fromkeys(value))


def a_reference(value: str) -> str:
    """Check what drift is measured against."""
    days = re.fullmatch(r"(\d{4}-\d\d-\d\d)/(\d{4}-\d\d-\d\d)", value)
    try:
        in_order = days is not None and date.fromisoformat(days[1]) < date.fromisoformat(days[2])
    except ValueError:
        in_order = False
    if value in {"trailing", "same_hour"} or re.fullmatch(r"release:.+", value) or in_order:
        return value
    raise ValueError(
        "should be trailing, same_hour, release:NAME or a span of days 2026-11-01/2026-11-08"
    )


def a_zone(value: str) -> str:
    """Check the name of a time zone."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{value!r} is not a time zone such as Europe/Stockholm or UTC") from None
    return value


def a_home(value: Path) -> Path:
    """Make the path of a folder whole."""
    return value.expanduser().absolute()


Names = Annotated[tuple[str, ...], BeforeValidator(split_commas)]
Rate = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500)]
Dollars = Annotated[float, Field(gt=0, le=1e9)]
