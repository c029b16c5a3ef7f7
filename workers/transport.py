"""
Celery's transport over Redis, without its notes about what is not yet acknowledged.

Our messages are empty wake-ups, sent again when nobody acts on them. Noting each in Redis
until it is acknowledged buys nothing and costs hearing: when Redis is away at the moment
of an acknowledgement, kombu (5.7) logs the error and counts the message as in work for
ever. A worker with as many of those as processes takes no message any more, and does not
notice that its connection is gone either.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis, virtual

_HERE = {"redis": "Transport", "rediss": "Transport", "sentinel": "SentinelTransport"}


class WakeUps(virtual.QoS):
    """Messages that were delivered and not yet begun, known to this process alone."""

    #: A wake-up that dies with us is sent again.
    restore_at_shutdown = False

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: ARG002  # kombu's
        """Forget it."""
        self.ack(delivery_tag)


class Channel(redis.Channel):
    """A channel to one server."""

    QoS: Any = WakeUps


class Transport(redis.Transport):
    """The transport to one server."""

    Channel = Channel


class SentinelChannel(redis.SentinelChannel):
    """A channel to the master that sentinels name."""

    QoS: Any = WakeUps


class SentinelTransport(redis.SentinelTransport):
    """The transport to the master that sentinels name."""

    Channel = SentinelChannel


def use_here() -> None:
    """Have this process use it for all addresses; kombu chooses anew at each change of node."""
    TRANSPORT_ALIASES.update({name: f"{__name__}:{kind}" for name, kind in _HERE.items()})
