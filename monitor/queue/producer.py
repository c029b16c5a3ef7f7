"""
Connections to Redis, and the hook's: a batch of samples and the counters in one transaction.

`pool_of` goes from the address to connections: plain, TLS, a socket, or the current master.

A batch is packed here in one go, and the answers read in one go from redis-py's own socket: 16 µs a
sampled call instead of 28 with redis-py's pipeline (-43 %), on two shared virtual cores of an AMD
EPYC, Python 3.11, redis-py 8.1, samples of 5 kB. A fast path stays only if it saves a fifth of the
CPU that one sampled call costs the app, on the caller's and the hook's thread together. The plain
implementation is the reference in ``tests/integration/test_fast_producer.py``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..errors import QueueError, QueueUnavailableError
from ..settings.kinds import sentinels_of
from . import names

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0
COUNTERS_KEPT_S = 7 * 86_400
#: The stream's own bound, above the hooks' limit: it holds when counters are late.
_MAXLEN_FACTOR = 1.2
_LONGEST_TEXT = 200
#: What users said waits in Redis up to this many; the scheduler takes it every second.
_MOST_FEEDBACK = 100_000
#: An entry has three fields: version, app, body.
_FIELDS = 3

_SENTINEL_TIMEOUT_S = 1.0
_untyped: Any = redis.connection

Entry = Mapping[bytes, bytes]


class Answer(NamedTuple):
    """What Redis says to a batch."""

    backlog: int  #: samples that wait in the stream now
    sample_rate: float | None  #: the rate that the workers ask for; None where they ask for none
    experiments: bytes | None = None  #: shares of the variants, as the scheduler published them


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
        self._xadd = begin_command(b"XADD", stream, b"MAXLEN", b"~", bound, b"*", more=2 * _FIELDS)
        stream = names.FEEDBACK.encode()
        self._xadd_feedback = begin_command(
            b"XADD", stream, b"MAXLEN", b"~", b"%d" % _MOST_FEEDBACK, b"*", more=2 * _FIELDS
        )
        try:
            self._pool: Any = pool_of(
                url,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_timeout=ANSWER_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                **_bounded(),
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
        feedback: Sequence[Entry] = (),
        experiments: bool = False,
        counters: Mapping[str, str | int],
        heartbeat_at_ms: int,
    ) -> Answer:
        """
        Append the entries and the *feedback*, and replace the hook's counters, all or nothing.

        With *experiments* the answer has the shares of the app's variants; an app that has none
        does not ask, because its user of Redis may not be allowed to.

        Raises
        ------
        QueueUnavailableError
            If Redis did not confirm; whether it has written is then unknown, and
            sending the same again does no harm.
        """
        key, now = names.hook(hook_id), heartbeat_at_ms
        # MULTI, so that the counters never count samples that are not there.
        packed = [pack_command("MULTI")]
        for entry in entries:
            packed += (self._xadd, *pack_pairs(entry))
        for entry in feedback:
            packed += (self._xadd_feedback, *pack_pairs(entry))
        rest = [
            pack_command("HSET", key, *itertools.chain(*counters.items()), "heartbeat_at_ms", now),
            pack_command("EXPIRE", key, COUNTERS_KEPT_S),
            pack_command("ZADD", names.HOOKS, now, hook_id),
            pack_command("GET", names.rate(app)),
            *([pack_command("GET", names.experiments(app))] if experiments else []),
            pack_command("XLEN", names.SAMPLES),
            pack_command("EXEC"),
        ]
        with self._connected() as connection:
            connection.send_packed_command([b"".join([*packed, *rest])])
            results = read_answers(connection, 1 + len(entries) + len(feedback) + len(rest))
            backlog = results.pop()
            shares = results.pop() if experiments else None
            rate = results.pop()
            # What else has failed, such as counters under a key of another type, is not a reason
            # to send the samples again.
            for answer in (*results[: len(entries) + len(feedback)], backlog):
                if isinstance(answer, redis.ResponseError):
                    raise answer
        try:
            asked = float(rate) if isinstance(rate, bytes) else None
        except ValueError:  # whatever else stands there asks for nothing
            asked = None
        return Answer(int(backlog), asked, shares if isinstance(shares, bytes) else None)

    def arrived(self, hook_id: str) -> int:
        """
        Return how much this Redis has ever received of a hook: samples and feedback together.

        Their counters are written with them, all or nothing, so a Redis that came back without
        its last writes says less than it once confirmed. 0 where reading them is forbidden.

        Raises
        ------
        QueueUnavailableError
            If Redis does not answer.
        """
        with self._connected() as connection:
            connection.send_packed_command(
                [pack_command("HMGET", names.hook(hook_id), "sent", "feedback:sent")]
            )
            try:
                found = connection.read_response()
            except redis.ResponseError:
                return 0
            return sum(int(n) for n in found if n is not None and n.isdigit())

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """Connect if need be; whatever fails drops the connection and hides names and passwords."""
        try:
            if self._connection is None:
                self._connection = self._pool.make_connection()
                self._connection.connect()
            yield self._connection
        except Exception as error:  # noqa: BLE001  # redis-py, the resolver and TLS raise their own
            self.close()
            text = " ".join(str(error).split())
            for secret in self._secrets:
                text = text.replace(secret, "***")
            described = f"{type(error).__name__}: {text}"[:_LONGEST_TEXT]
            raise QueueUnavailableError(described) from None

    def close(self) -> None:
        """Drop the connection; the next send opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it may be broken, which is why it is dropped
                connection.disconnect()


def _bounded() -> dict[str, Any]:
    """
    Return options of a connection that refuses a longer answer than Redis gives.

    While a connection is set up redis-py's parser reads, which has no bound; answers to batches
    are read by `read_answers`. It extends two private classes: where a redis-py has none of them,
    or other ones, connections go without the bound rather than not at all.
    """
    try:
        from redis._parsers.resp2 import _RESP2Parser  # noqa: PLC0415  # may have moved
        from redis._parsers.socket import SocketBuffer  # noqa: PLC0415
    except ImportError:
        return {}

    class BoundedBuffer(SocketBuffer):
        def read(self, length: int, *args: Any, **options: Any) -> bytes:
            _check_length(length)
            return super().read(length, *args, **options)

        def _read_from_socket(self, *args: Any, **options: Any) -> bool:
            held = getattr(self, "_buffer", None)
            _check_length(held.getbuffer().nbytes if isinstance(held, BytesIO) else 0)
            return super()._read_from_socket(*args, **options)

    class BoundedParser(_RESP2Parser):
        def on_connect(self, connection: Any) -> None:
            super().on_connect(connection)  # type: ignore[no-untyped-call]
            with contextlib.suppress(AttributeError, TypeError):
                self._buffer: Any = BoundedBuffer(
                    cast("Any", self._sock), self.socket_read_size, connection.socket_timeout
                )

    return {"parser_class": BoundedParser}


def _check_length(n_bytes: int) -> None:
    if n_bytes > _MOST_BYTES:
        raise redis.ConnectionError("the answer is too long")


def _secrets(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    found = {part for part in (parts.password, parts.username) if part}
    found |= {value for name, value in parse_qsl(parts.query) if name.endswith("password")}
    return tuple(found | {unquote(part) for part in found})


# --- commands as bytes, and the answers to a transaction ---

_LINE_END = b"\r\n"
_CHUNK = 65_536
_SHORT = 500
#: Far above the answers to a batch, which are some forty bytes a command.
_MOST_BYTES = 1_000_000


class _IncompleteError(Exception):
    """More bytes must come."""


def pack_command(*parts: str | float) -> bytes:
    """Pack one whole command."""
    return begin_command(*(str(part).encode("utf-8", "replace") for part in parts), more=0)


def begin_command(*parts: bytes, more: int) -> bytes:
    """Pack the beginning of a command that *more* parts will follow."""
    whole = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n" % (len(parts) + more) + whole


def pack_pairs(fields: Mapping[bytes, bytes]) -> list[bytes]:
    """Pack keys and values, for the end of a command, in few pieces; long ones are not copied."""
    pieces: list[bytes] = []
    short = b""
    for key, value in fields.items():
        short += b"$%d\r\n%b\r\n$%d\r\n" % (len(key), key, len(value))
        if len(value) < _SHORT:
            short += value
        else:
            pieces += short, value
            short = b""
        short += _LINE_END
    return [*pieces, short]


def read_answers(connection: Any, commands: int) -> list[Any]:
    """
    Read the answers to *commands* commands, MULTI and EXEC among them; return what EXEC gave.

    A command that failed while EXEC ran, as those on a key of another type do, gives its error
    as its answer: the other ones have had their effect.

    Raises
    ------
    redis.ResponseError
        If Redis refused any of them, and so did none; every answer has been read then.
    redis.ConnectionError, OSError
        If the connection ended, or was silent for too long.
    """
    # redis-py reads an answer a call, which costs more than making the sample did. Between two
    # transactions nothing is buffered in its parser, so that its socket can be read here.
    sock = getattr(connection, "_sock", None)
    answers: list[Any] | None = None
    if sock is None:
        answers = []
        for _ in range(commands):
            try:
                answers.append(connection.read_response())
            except redis.ResponseError as error:
                answers.append(error)
    received = b""
    while answers is None:
        chunk = sock.recv(_CHUNK)  # type: ignore[union-attr]
        if not chunk:
            raise redis.ConnectionError("Redis closed the connection")
        received += chunk
        _check_length(len(received))
        # Redis answers in pieces; trying to read each of them would be a waste.
        if received.endswith(_LINE_END) and received.count(_LINE_END) >= commands:
            with contextlib.suppress(_IncompleteError):
                answers = parse_answers(received, commands)
    for answer in answers:
        if isinstance(answer, redis.ResponseError):
            raise answer
    found = answers[-1]
    if not isinstance(found, list) or len(found) != commands - 2:
        raise redis.ResponseError("the answer is not that of a transaction")
    return found


def parse_answers(received: bytes, count: int) -> list[Any]:
    """Read *count* answers in the protocol's second version; errors are given, not raised."""
    answers: list[Any] = []
    at = 0
    # What Redis says to all but the last command of a transaction, unless it refuses one.
    queued = b"+OK\r\n" + b"+QUEUED\r\n" * (count - 2)
    if count > 1 and received.startswith(queued):
        answers, at = [b"OK", *[b"QUEUED"] * (count - 2)], len(queued)
    for _ in range(count - len(answers)):
        answer, at = _item(received, at)
        answers.append(answer)
    return answers


def _item(received: bytes, at: int) -> tuple[Any, int]:
    """Read the answer that begins at *at*; return where the next one begins."""
    end = received.find(_LINE_END, at)
    if end < 0:
        raise _IncompleteError
    kind, line, at = received[at], received[at + 1 : end], end + 2
    if kind == ord("+"):
        return line, at
    if kind == ord("-"):
        return redis.ResponseError(line.decode("utf-8", "replace")), at
    number = int(line)
    if kind == ord(":"):
        return number, at
    if number < 0:
        return None, at
    if kind == ord("*"):
        items: list[Any] = []
        for _ in range(number):
            item, at = _item(received, at)
            items.append(item)
        return items, at
    if len(received) < at + number + 2:
        raise _IncompleteError
    return received[at : at + number], at + number + 2


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
        If it cannot be read; the message may quote a part.
    """
    found = sentinels_of(url) if "+sentinel://" in url else None
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
        If the address cannot be read; the message may quote a part.
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
