"""The servers that the other tests stand on are real."""

import redis
from sqlalchemy import text


def test_redis_answers(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()


def test_both_databases_write_and_read(store):
    with store.write() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE t (x INTEGER)"))
        connection.execute(text("INSERT INTO t VALUES (1)"))
        assert connection.execute(text("SELECT x FROM t")).scalar_one() == 1
