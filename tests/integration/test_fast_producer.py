"""What the hand-packed transaction does to Redis is what redis-py's own pipeline does."""

import socket
import threading

import pytest
import redis

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.producer import COUNTERS_KEPT_S, Answer, Producer

LIMIT = 1_000
ENTRIES = [
    {b"v": b"1", b"app": b"bot", b"body": b"short"},
    {b"v": b"1", b"app": "bøt\r\n".encode(), b"body": b"x" * 70_000},
    {b"v": b"1", b"app": b"", b"body": b"\x00\xff"},
]
COUNTERS = {"app": "bøt", "seen": 7, "sampled": 3, "sent": 3, "dropped:queue_full": 1}


def plain(client, entries, *, app, hook_id, feedback, counters, heartbeat_at_ms):
    """Send as `Producer.send` does, without anything of our own but the commands."""
    with client.pipeline(transaction=True) as pipe:
        for entry in entries:
            pipe.xadd(names.SAMPLES, entry, maxlen=int(LIMIT * 1.2), approximate=True)
        for said in feedback:
            pipe.xadd(names.FEEDBACK, said)
        pipe.hset(names.hook(hook_id), mapping={**counters, "heartbeat_at_ms": heartbeat_at_ms})
        pipe.expire(names.hook(hook_id), COUNTERS_KEPT_S)
        pipe.zadd(names.HOOKS, {hook_id: heartbeat_at_ms})
        pipe.get(names.rate(app))
        pipe.get(names.experiments(app))
        pipe.xlen(names.SAMPLES)
        *_, rate, experiments, backlog = pipe.execute()
    return Answer(backlog, None if rate is None else float(rate), experiments)


def state(client):
    return (
        [fields for _, fields in client.xrange(names.SAMPLES)],
        [fields for _, fields in client.xrange(names.FEEDBACK)],
        client.hgetall(names.hook("h")),
        client.ttl(names.hook("h")),
        client.zrange(names.HOOKS, 0, -1, withscores=True),
    )


@pytest.mark.parametrize("entries", [[], ENTRIES[:1], ENTRIES])
@pytest.mark.parametrize("rate", [None, "0.25"])
def test_fast_transaction_has_the_effect_and_reply_of_the_plain_one(redis_url, entries, rate):
    about = {
        "app": "bøt", "hook_id": "h", "counters": COUNTERS, "heartbeat_at_ms": 1_700_000_000,
        "feedback": entries[1:],
    }  # fmt: skip
    found = []
    with redis.Redis.from_url(redis_url) as client:
        producer = Producer(redis_url, queue_limit=LIMIT)
        for send in (producer.send, lambda *args, **more: plain(client, *args, **more)):
            client.flushdb()
            if rate is not None:
                client.set(names.rate("bøt"), rate)
            found.append((send(entries, **about), state(client)))
        producer.close()
    assert found[0] == found[1]


def test_stream_is_trimmed_at_a_fifth_above_its_limit(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("stream-node-max-entries", 1)  # else Redis cuts whole nodes of a hundred
        try:
            producer = Producer(redis_url, queue_limit=10)
            about = {"app": "bot", "hook_id": "h", "counters": COUNTERS, "heartbeat_at_ms": 1}
            assert producer.send(ENTRIES[:1] * 20, **about).backlog == 12
            producer.close()
        finally:
            client.config_set("stream-node-max-entries", 100)


@pytest.mark.parametrize(
    ("rate", "shares", "expected"),
    [(b"0.25", b"{}", (0.25, b"{}")), (b"fast", None, (None, None)), (None, b"x", (None, b"x"))],
)
def test_reply_has_the_requested_rate_and_shares(redis_url, rate, shares, expected):
    with redis.Redis.from_url(redis_url) as client:
        for key, value in ((names.rate("bot"), rate), (names.experiments("bot"), shares)):
            if value is not None:
                client.set(key, value)
    producer = Producer(redis_url, queue_limit=LIMIT)
    about = {"app": "bot", "hook_id": "h", "counters": COUNTERS, "heartbeat_at_ms": 1}
    asked = producer.send(ENTRIES, experiments=True, **about)
    others = producer.send([], **about)
    producer.close()
    assert asked == (len(ENTRIES), *expected)
    assert others == (len(ENTRIES), expected[0], None)


def test_password_is_removed_from_a_quoted_error():
    """Whether Redis, or what stands in its place, says it as it was sent or as it was written."""

    def refuse(server):
        connection = server.accept()[0]
        with connection:
            connection.recv(65_536)
            connection.sendall(b"-ERR ann may not use open sesame, written open%20sesame\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        refusing = threading.Thread(target=refuse, args=(server,))
        refusing.start()
        url = f"redis://ann:open%20sesame@127.0.0.1:{server.getsockname()[1]}/0"
        producer = Producer(url, queue_limit=LIMIT)
        with pytest.raises(QueueUnavailableError) as caught:
            producer.send([], app="a", hook_id="h", counters=COUNTERS, heartbeat_at_ms=0)
        refusing.join()
    assert "*** may not use ***, written ***" in str(caught.value)
