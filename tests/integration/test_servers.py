"""The servers that the other tests stand on are real."""

import pytest
import redis
from sqlalchemy import text

from monitor.errors import StoreUnavailableError
from monitor.store.engine import Store


def test_redis_answers_a_ping(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()


def test_both_databases_write_and_read(store):
    with store.write() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE t (x INTEGER)"))
        connection.execute(text("INSERT INTO t VALUES (1)"))
        assert connection.execute(text("SELECT x FROM t")).scalar_one() == 1


def test_required_tls_to_postgresql_is_enforced(postgres_url):
    # The server of the tests speaks none, so who insists on it is turned away.
    for asked, reached in (("?sslmode=disable", True), ("?sslmode=require", False)):
        store = Store(postgres_url + asked)
        if reached:
            store.check_reachable()
        else:
            with pytest.raises(StoreUnavailableError):
                store.check_reachable()
        store.close()
