"""Commands packed by hand are what redis-py packs, and answers are read whole or not at all."""

import contextlib
import socket
import threading

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from monitor.queue import producer

TRANSACTION = (
    b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$15\r\n1700000000000-0\r\n:7\r\n$-1\r\n"
)
REFUSED = b"+OK\r\n-OOM command not allowed\r\n+QUEUED\r\n-EXECABORT discarded\r\n"
QUEUED = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n"  # two commands, to which EXEC has two answers
FAILED = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-WRONGTYPE no stream\r\n:1\r\n"


class Connection:
    """A connection whose other end is ours."""

    def __init__(self):
        self._sock, self.server = socket.socketpair()
        self._sock.settimeout(0.2)


class OtherConnection:
    """A connection without a socket that could be read, which hands out one answer a call."""

    def __init__(self, answers):
        self.read_response = iter(answers).__next__


@pytest.fixture
def connection():
    made = Connection()
    yield made
    made._sock.close()
    made.server.close()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)))
def test_command_is_packed_as_redis_py_packs_it(parts):
    packed = redis.Connection().pack_command("SET", *parts)
    assert producer.pack_command("SET", *parts) == b"".join(packed)


def test_command_may_be_packed_in_two_steps():
    begin = producer.begin_command(b"XADD", b"s", b"*", more=4)
    rest = b"".join(producer.pack_pairs({b"a": b"1", b"bb": b""}))
    assert begin + rest == producer.pack_command("XADD", "s", "*", "a", "1", "bb", "")


def test_reply_of_exec_is_returned(connection):
    connection.server.sendall(TRANSACTION)
    assert producer.read_answers(connection, 5) == [b"1700000000000-0", 7, None]


def test_truncated_replies_are_never_taken_as_complete():
    for at in range(len(TRANSACTION)):
        with pytest.raises(producer._IncompleteError):
            producer.parse_answers(TRANSACTION[:at], 5)


@pytest.mark.parametrize("at", range(1, len(TRANSACTION), 25))
def test_reply_may_arrive_in_pieces(connection, at):
    connection.server.sendall(TRANSACTION[:at])
    with pytest.raises(TimeoutError):
        producer.read_answers(connection, 5)
    connection.server.sendall(TRANSACTION)
    assert producer.read_answers(connection, 5) == [b"1700000000000-0", 7, None]


def test_empty_replies_are_distinguished_from_missing_ones():
    answers = b"$0\r\n\r\n*0\r\n$-1\r\n*-1\r\n:-7\r\n"
    assert producer.parse_answers(answers, 5) == [b"", [], None, None, -7]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (REFUSED, "OOM"),
        (b"+OK\r\n" * 4, "transaction"),
        (QUEUED + b"*1\r\n:1\r\n", "transaction"),
        (QUEUED + b"*3\r\n:1\r\n:2\r\n:3\r\n", "transaction"),
    ],
)
def test_first_error_reply_is_raised(connection, answer, why):
    connection.server.sendall(answer)
    with pytest.raises(redis.ResponseError, match=why):
        producer.read_answers(connection, 4)


def test_closed_connection_raises_a_connection_error(connection):
    connection.server.sendall(TRANSACTION[:20])
    connection.server.close()
    with pytest.raises(redis.ConnectionError):
        producer.read_answers(connection, 5)


def test_replies_are_read_one_by_one_without_a_socket():
    answers = [b"OK", b"QUEUED", b"QUEUED", [b"id", 1]]
    assert producer.read_answers(OtherConnection(answers), 4) == [b"id", 1]


def test_endless_reply_is_refused_before_it_fills_memory(connection):
    def flood():
        with contextlib.suppress(OSError):
            while True:
                connection.server.sendall(b"$999999999\r\n" + b"x" * 60_000)

    flooding = threading.Thread(target=flood)
    flooding.start()
    with pytest.raises(redis.ConnectionError, match="too long"):
        producer.read_answers(connection, 5)
    connection._sock.close()
    flooding.join()
