"""Kinds of values that settings have: what is wrong with others; what an address says."""

from __future__ import annotations

import ipaddress
import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, SecretStr

_LONGEST_S = 10 * 365 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([smhdw])", re.IGNORECASE)
_OBJECTIVE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:points?|pts|%)\s+in\s+(\d+\s*[smhdw])\s*")
DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
_SENTINEL = "+sentinel"
_SENTINEL_PORT = 26379
#: What an address of Redis should look like, for people who gave another.
REDIS_URL_FORMS = (
    "redis://host:6379/0, rediss://... (TLS), unix:///path"
    " or redis+sentinel://host:26379,host:26379/MASTER/0"
)


def parse_duration_s(text: str) -> int:
    """Return a duration such as 90s, 15m, 24h or 7d in seconds; raise ValueError for others."""
    seconds = parse_seconds(text)
    if "." in text or seconds == 0:
        raise ValueError(f"Invalid duration {text[:40]!r}: expected 90s, 15m, 24h or 7d")
    return int(seconds)


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration that may also be 0s or 1.5m; raise ValueError for others."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"Invalid duration {text[:40]!r}: expected 90s, 15m, 24h or 7d")
    seconds = float(match[1]) * _UNITS_S[match[2].lower()]
    if seconds > _LONGEST_S:
        raise ValueError(f"Invalid duration {text[:40]!r}: longer than ten years")
    return seconds


def parse_objective(text: str) -> tuple[float, int]:
    """
    Return the fall of the pass rate, in (0, 1), and the seconds in which it is to be found.

    Raise ValueError unless *text* reads as ``15 points in 2h``.
    """
    match = _OBJECTIVE.fullmatch(text)
    if not match or not 0 < float(match[1]) < 100:  # noqa: PLR2004
        raise ValueError(f"Invalid objective {text[:40]!r}: expected 15 points in 2h")
    return float(match[1]) / 100, parse_duration_s(match[2])


def parse_time(text: str, now: datetime) -> datetime:
    """
    Return the time that *text* names, in UTC: ISO 8601, or how long ago, "30m" or "30m ago".

    Raises
    ------
    ValueError
        If it names none; the message shows what one looks like. A time without a zone is UTC.
    """
    ago = text.strip().removesuffix(" ago")
    if _DURATION.fullmatch(ago.strip()):
        return now - timedelta(seconds=parse_seconds(ago))
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"Invalid time {text[:40]!r}: expected 2026-11-21T14:05, with +01:00 if not in UTC,"
            " or, for so long ago, 90s, 30m, 24h or 7d"
        ) from None


def split_commas(value: Any) -> Any:
    """Split text at commas; leave anything else as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def read_json(value: Any) -> Any:
    """Read text as JSON; leave anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"expected JSON; {where}: {error.msg}") from None


def an_http_url(value: SecretStr) -> SecretStr:
    """Check a web address."""
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _port_is_valid(parts):
        raise ValueError("expected a web address such as https://hooks.slack.com/services/...")
    return value


def a_redis_url(value: str) -> str:
    """Check the address of a Redis."""
    if not is_redis_url(value):
        raise ValueError(f"expected {REDIS_URL_FORMS}")
    return value


def an_smtp_url(value: SecretStr) -> SecretStr:
    """Check the address of a mail server."""
    parts = urlsplit(value.get_secret_value())
    known = parts.scheme in {"smtp", "smtps", "smtp+plain"}
    if not known or not parts.hostname or not _port_is_valid(parts):
        raise ValueError(
            "expected smtp://user:password@host:587 (STARTTLS), smtps://... (TLS from the start)"
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
        "expected trailing, same_hour, release:NAME or a span of days 2026-11-01/2026-11-08"
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


def masked_url(url: str) -> str:
    """Return an address without its password; any other text as it is."""
    url = re.sub(r"^([a-z][a-z0-9+.-]*://[^:/@]*):.*@", r"\1:***@", url, flags=re.IGNORECASE)
    return re.sub(r"([?&][a-z_]*password=)[^&#]*", r"\1***", url, flags=re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether *host*, an address or a name, means this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_addressed_here(host_header: str) -> bool:
    """Return whether a request's ``Host`` means this machine only; False if it is malformed."""
    try:
        return is_loopback(urlsplit(f"//{host_header}").hostname or "")
    except ValueError:
        return False


def is_redis_url(url: str) -> bool:
    """Return whether an address of Redis has one of the forms in ``REDIS_URL_FORMS``."""
    try:
        return sentinels_of(url) is not None or url.startswith(("redis://", "rediss://", "unix://"))
    except ValueError:
        return False


class Sentinels(NamedTuple):
    """The sentinels that know which Redis is the master, and how that master is spoken to."""

    nodes: tuple[tuple[str, int], ...]
    master_name: str
    master_url: str  #: ``redis`` or ``rediss``, with a host that stands for whoever is the master


def sentinels_of(url: str) -> Sentinels | None:
    """
    Read ``redis+sentinel://user:password@host:26379,host/master/0``; None for any other address.

    Raises
    ------
    ValueError
        If hosts or the name of the master are missing; the message quotes nothing.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in {"redis" + _SENTINEL, "rediss" + _SENTINEL}:
        return None
    whole, question, options = rest.partition("?")
    login, at, place = whole.rpartition("@")
    hosts, _, path = place.partition("/")
    name, _, db = path.partition("/")
    nodes = []
    for node in filter(None, hosts.split(",")):
        try:
            parts = urlsplit(f"//{node}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host:
            raise ValueError("a sentinel should be host:26379 or [::1]:26379")
        nodes.append((host, port or _SENTINEL_PORT))
    if not nodes or not name or not (db or "0").isdigit():
        raise ValueError(f"expected {scheme}://host:26379,host:26379/MASTER/0")
    master_url = f"{scheme.removesuffix(_SENTINEL)}://{login}{at}master/{db or 0}"
    return Sentinels(tuple(nodes), unquote(name), master_url + question + options)


Names = Annotated[tuple[str, ...], BeforeValidator(split_commas)]
Rate = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500)]
Dollars = Annotated[float, Field(gt=0, le=1e9)]
