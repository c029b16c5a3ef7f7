"""Where Redis is, and addresses without their passwords."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
_SENTINEL = "+sentinel"
_SENTINEL_PORT = 26379
#: What an address of Redis should look like, for people who gave another.
REDIS_URL_FORMS = (
    "redis://host:6379/0, rediss://... (TLS), unix:///path"
    " or redis+sentinel://host:26379,host:26379/MASTER/0"
)


def resolve_redis_url(redis_url: str | None, home: Path) -> str:
    """Find Redis: the setting, else the address `groundwatch up` left in *home*, else port 6379."""
    if redis_url:
        return redis_url
    try:
        return redis_url_file(home).read_text(encoding="utf-8").strip() or DEFAULT_REDIS_URL
    except OSError:
        return DEFAULT_REDIS_URL


def redis_url_file(home: Path) -> Path:
    """Name the file in which `groundwatch up` leaves the address of its Redis."""
    return home / "redis.url"


def masked_url(url: str) -> str:
    """Give an address without its password; any other text as it is."""
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
    """Say whether an address of Redis has one of the forms in ``REDIS_URL_FORMS``."""
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
        raise ValueError(f"should be {scheme}://host:26379,host:26379/MASTER/0")
    master_url = f"{scheme.removesuffix(_SENTINEL)}://{login}{at}master/{db or 0}"
    return Sentinels(tuple(nodes), unquote(name), master_url + question + options)
