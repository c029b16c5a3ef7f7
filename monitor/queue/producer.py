"""The hook's connection to Redis: a batch of samples and the counters in one transaction."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..errors import QueueError, QueueUnavailableError
from . import names
from .address import pool_of
from .fast import resp

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0
COUNTERS_KEPT_S = 7 * 86_400
#: The stream's own bound, above the hooks' limit: it holds when counters are late.
_MAXLEN_FACTOR = 1.2
_LONGEST_TEXT = 200
#: An entry has three fields: version, app, body.
_FIELDS = 3

Entry = Mapping[bytes, bytes]


class Answer(NamedTuple):
    """What Redis says to a batch."""

    backlog: int  #: samples that wait in the stream now
    sample_rate: float | None  #: the rate that the workers ask for; None where they ask for none


class Producer:
    """
    Writes to one Redis; not for several threads at once.

    Nothing is tried twice here: redis-py's own ten retries would block for a
    minute, and when to try again is for the caller to say. Commands are packed
    here, because redis-py's packing costs more than all the rest of a batch;
    connecting, TLS, names and passwords, time-outs and replies stay redis-py's.
    """

    def __init__(self, url: str, *, queue_limit: int) -> None:
        self._secrets = _secrets(url)
        self._connection: Any = None
        stream, bound = names.SAMPLES.encode(), b"%d" % (queue_limit * _MAXLEN_FACTOR)
        self._xadd = resp.start(b"XADD", stream, b"MAXLEN", b"~", bound, b"*", more=2 * _FIELDS)
        try:
            self._pool: Any = pool_of(
                url,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_timeout=ANSWER_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except Exception:  # noqa: BLE001  # parsers quote the address, which may hold a password
            raise QueueError(
                "the Redis address cannot be read: it should look like redis://host:6379/0"
            ) from None

    def send(
        self,
        entries: Sequence[Entry],
        *,
        app: str,
        hook_id: str,
        counters: Mapping[str, str | int],
        heartbeat_at_ms: int,
    ) -> Answer:
        """
        Append the entries and replace the hook's counters, all or nothing.

        Raises
        ------
        QueueUnavailableError
            If Redis did not confirm; whether it has written is then unknown, and
            sending the same again does no harm.
        """
        key, now = names.hook(hook_id), heartbeat_at_ms
        # MULTI, so that the counters never tell of samples that are not there.
        packed = [resp.pack("MULTI")]
        for entry in entries:
            packed += (self._xadd, *resp.pairs(entry))
        rest = [
            resp.pack("HSET", key, *itertools.chain(*counters.items()), "heartbeat_at_ms", now),
            resp.pack("EXPIRE", key, COUNTERS_KEPT_S),
            resp.pack("ZADD", names.HOOKS, now, hook_id),
            resp.pack("GET", names.rate(app)),
            resp.pack("XLEN", names.SAMPLES),
            resp.pack("EXEC"),
        ]
        try:
            if self._connection is None:
                self._connection = self._pool.make_connection()
                self._connection.connect()
            self._connection.send_packed_command([b"".join([*packed, *rest])])
            results = resp.results(self._connection, 1 + len(entries) + len(rest))
            *_, rate, backlog = results
            # What else has failed, such as counters under a key of another type, is no reason
            # to send the samples again.
            for answer in (*results[: len(entries)], backlog):
                if isinstance(answer, redis.ResponseError):
                    raise answer  # noqa: TRY301  # described below
        except Exception as error:  # noqa: BLE001  # redis-py, the resolver and TLS raise their own
            self.close()
            text = " ".join(str(error).split())
            for secret in self._secrets:
                text = text.replace(secret, "***")
            described = f"{type(error).__name__}: {text}"[:_LONGEST_TEXT]
            raise QueueUnavailableError(described) from None
        try:
            asked = float(rate) if isinstance(rate, bytes) else None
        except ValueError:  # whatever else stands there asks for nothing
            asked = None
        return Answer(int(backlog), asked)

    def close(self) -> None:
        """Drop the connection; the next send opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it may be broken, which is why it is dropped
                connection.disconnect()


def _secrets(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    found = {part for part in (parts.password, parts.username) if part}
    found |= {value for name, value in parse_qsl(parts.query) if name.endswith("password")}
    return tuple(found | {unquote(part) for part in found})
