"""Celery's words for the address of Redis, so that its messages go where the samples are."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import quote

import redis

from monitor.queue import names
from monitor.queue.address import Place, place_of

#: Redis may restart under us: never block for ever on a frozen one.
_TRANSPORT = {
    "global_keyprefix": names.CELERY_PREFIX,
    "socket_timeout": 15,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
}


def broker_conf(url: str) -> dict[str, Any]:
    """
    Say in Celery's settings what *url* says: TLS, user and password, sentinels.

    kombu leaves the certificate of a ``rediss://`` unchecked where nobody speaks of it, so
    what redis-py does by default is spelled out here.
    """
    place = place_of(url)
    conf: dict[str, Any] = {"broker_transport_options": dict(_TRANSPORT)}
    if place.tls:
        given = {key: value for key, value in place.options.items() if key.startswith("ssl_")}
        conf["broker_use_ssl"] = {
            "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True, **given
        }  # fmt: skip
    if place.sentinels:
        asked = dict(place.sentinel_options) | ({"ssl": True} if place.tls else {})
        conf["broker_transport_options"] |= {
            "master_name": place.master_name,
            "sentinel_kwargs": {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, **asked},
        }
    return {"broker_url": _broker_url(place), **conf}


def _broker_url(place: Place) -> str:
    options = place.options
    login = ":".join(quote(options.get(key, ""), safe="") for key in ("username", "password"))
    login = "" if login == ":" else f"{login}@"
    db = options.get("db", 0)
    if place.sentinels:
        nodes = (f"sentinel://{login}{_bracketed(h)}:{port}/{db}" for h, port in place.sentinels)
        return ";".join(nodes)
    if options.get("connection_class") is redis.UnixDomainSocketConnection:
        return f"redis+socket://{login}{options['path']}?virtual_host={db}"
    host = _bracketed(options.get("host", "localhost"))
    return f"redis://{login}{host}:{options.get('port', 6379)}/{db}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
