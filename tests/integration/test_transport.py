"""Wake-ups through Celery's transport: nothing of them stays in Redis, and nobody goes deaf."""

from contextlib import closing

import kombu
import pytest
import redis

from support.redis_server import RedisServer
from workers import celery
from workers.celery import broker_conf

QUEUE = "wake-ups"


@pytest.fixture(autouse=True)
def ours():
    celery.use_transport()


def connection(url):
    conf = broker_conf(url)
    return kombu.Connection(conf["broker_url"], transport_options=conf["broker_transport_options"])


def wake(url):
    with connection(url) as other:
        other.Producer().publish({}, routing_key=QUEUE, declare=[kombu.Queue(QUEUE)])


def hear(here):
    """Take one message as a worker does, which may hold one at a time."""
    heard = []
    consumer = here.Consumer(
        kombu.Queue(QUEUE), callbacks=[lambda _, message: heard.append(message)]
    )
    consumer.qos(prefetch_count=1)
    consumer.consume()
    here.drain_events(timeout=60)
    return heard[0]


def test_unacknowledged_messages_leave_no_keys(redis_url):
    wake(redis_url)
    with connection(redis_url) as here, closing(redis.Redis.from_url(redis_url)) as client:
        message = hear(here)
        assert not [key for key in client.keys("groundwatch:celery:*") if b"unacked" in key]
        message.ack()


def test_consumer_that_could_not_acknowledge_receives_the_next_message(tmp_path):
    """Redis dies between a delivery and its acknowledgement; kombu alone would be deaf."""
    with RedisServer(tmp_path) as server, connection(server.url) as here:
        wake(server.url)
        message = hear(here)
        server.kill()
        message.ack()
        assert message.channel.qos.can_consume()
        with pytest.raises(here.connection_errors):
            here.drain_events(timeout=60)
        server.start()
        wake(server.url)
        with connection(server.url) as again:
            hear(again).ack()


def test_sentinel_transport_stays_after_switching_sentinels():
    conf = broker_conf("redis+sentinel://a:1,b:2/groundwatch/0")
    here = kombu.Connection(conf["broker_url"])
    here.switch(conf["broker_url"].split(";")[1])
    assert here.get_transport_cls() is celery.SentinelTransport
