"""A Redis that answers and refuses to write, as one whose disk is full or replicas are gone."""

import os
import subprocess
import sys
import time
from contextlib import closing

from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from monitor.queue.wire import encode
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.testing import make_sample
from support.redis_server import RedisServer

PATIENCE_S = 150


def wait_until(happened, process):
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_worker_resumes_once_redis_accepts_writes_again(sqlite_url, tmp_path):
    with RedisServer(tmp_path / "redis", durable=False) as server:
        environment = os.environ | {
            "GROUNDWATCH_HOME": str(tmp_path),
            "GROUNDWATCH_REDIS_URL": server.url,
            "GROUNDWATCH_DATABASE_URL": sqlite_url,
        }
        worker = subprocess.Popen(
            [sys.executable, "-m", "monitor", "worker", "--processes", "1"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            with closing(connect(server.url)) as client, closing(Store(sqlite_url)) as store:
                wait_until(lambda: live_workers(client, now_s=time.time()), worker)
                client.config_set("min-replicas-to-write", 1)
                # Its consumer and its pump have both been refused, more than once.
                wait_until(lambda: refused(client) > 5, worker)
                client.config_set("min-replicas-to-write", 0)
                client.xadd(names.SAMPLES, encode(make_sample()))
                wait_until(lambda: scored(store), worker)
        finally:
            worker.terminate()
            worker.communicate(timeout=200)


def refused(client):
    return client.info("errorstats").get("errorstat_NOREPLICAS", {}).get("count", 0)


def scored(store):
    with store.read() as connection:
        totals = read_totals(connection).get("support-bot", {})
    return totals.get(Booking(Kind.SCORED, ""), 0) == 1
