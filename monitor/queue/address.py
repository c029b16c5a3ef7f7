"""From the address of Redis to connections: plain, TLS, a socket, or whoever is the master now."""

from __future__ import annotations

from typing import Any, NamedTuple

import redis
from redis import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..settings.kinds import sentinels_of

_SENTINEL_TIMEOUT_S = 1.0
_untyped: Any = connection


class Place(NamedTuple):
    """
    Where Redis is, as options of redis-py.

    ``options`` are those of a connection to the server itself: user, password, db, TLS.
    With sentinels, they ask for ``master_name`` first, with options of their own.
    """

    options: dict[str, Any]
    tls: bool
    sentinels: tuple[tuple[str, int], ...] = ()
    sentinel_options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    master_name: str = ""


def place_of(url: str) -> Place:
    """
    Read an address.

    Raises
    ------
    ValueError
        If it cannot be read; the message may quote a part of it.
    """
    found = sentinels_of(url)
    options = _untyped.parse_url(found.master_url if found else url)
    tls = options.get("connection_class") is redis.SSLConnection
    if found is None:
        return Place(options, tls)
    own = {
        name: options.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in options
    }
    for name in ("host", "connection_class"):
        options.pop(name, None)
    secured = {name: value for name, value in options.items() if name.startswith("ssl_")}
    return Place(options, tls, found.nodes, own | secured, found.master_name)


def pool_of(url: str, **options: Any) -> redis.ConnectionPool:
    """
    Make a pool of connections to the Redis at *url*; *options* are redis-py's.

    Behind sentinels, every connection that is opened asks them who the master is, and is
    given up when its server says that it no longer is.

    Raises
    ------
    ValueError
        If the address cannot be read; the message may quote a part of it.
    """
    place = place_of(url)
    if not place.sentinels:
        return redis.ConnectionPool.from_url(url, **options)
    # Here, because few apps need it.
    from redis import sentinel  # noqa: PLC0415

    untyped: Any = sentinel
    asked = untyped.Sentinel(
        place.sentinels,
        sentinel_kwargs={
            "socket_timeout": _SENTINEL_TIMEOUT_S,
            "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
            # The next sentinel is the second try.
            "retry": Retry(NoBackoff(), 0),
            "ssl": place.tls,
            **place.sentinel_options,
        },
    )
    pool: redis.ConnectionPool = untyped.SentinelConnectionPool(
        place.master_name, asked, ssl=place.tls, **{**place.options, **options}
    )
    return pool
