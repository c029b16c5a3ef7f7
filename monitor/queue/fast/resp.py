"""Redis commands as bytes: packed in one go, and the answers to a transaction read in one go."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import redis

_LINE_END = b"\r\n"
_CHUNK = 65_536
_SHORT = 500
#: Far above the answers to a batch, which are some forty bytes a command.
_MOST_BYTES = 1_000_000


class _IncompleteError(Exception):
    """More bytes must come."""


def pack(*parts: str | float) -> bytes:
    """Pack one whole command."""
    return start(*(str(part).encode("utf-8", "replace") for part in parts), more=0)


def start(*parts: bytes, more: int) -> bytes:
    """Pack the beginning of a command that *more* parts will follow."""
    whole = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n" % (len(parts) + more) + whole


def pairs(fields: Mapping[bytes, bytes]) -> list[bytes]:
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


def results(connection: Any, commands: int) -> list[Any]:
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
        answers = [_one(connection) for _ in range(commands)]
    received = b""
    while answers is None:
        chunk = sock.recv(_CHUNK)  # type: ignore[union-attr]
        if not chunk:
            raise redis.ConnectionError("Redis closed the connection")
        received += chunk
        if len(received) > _MOST_BYTES:  # whoever answers, it is no Redis
            raise redis.ConnectionError("the answer is too long")
        # Redis answers in pieces; trying to read each of them would be a waste.
        if received.endswith(_LINE_END) and received.count(_LINE_END) >= commands:
            with contextlib.suppress(_IncompleteError):
                answers = parse(received, commands)
    for answer in answers:
        if isinstance(answer, redis.ResponseError):
            raise answer
    found = answers[-1]
    if not isinstance(found, list) or len(found) != commands - 2:
        raise redis.ResponseError("the answer is not that of a transaction")
    return found


def _one(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def parse(received: bytes, count: int) -> list[Any]:
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
