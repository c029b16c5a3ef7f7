"""A worker with a Redis that is guarded, and with one that is replaced while samples arrive."""

import os
import re
import signal
import ssl
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
import trustme
from sqlalchemy import func, select

import monitor
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.store.engine import Store
from monitor.store.tables import samples
from support.redis_family import RedisFamily
from support.tls_front import TlsFront
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
TEXT = "Refunds are paid back to the original card within five working days."


@contextmanager
def worker(redis_url, store_url, home):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor", "worker", "--processes", "1"],
        env=keep | {
            "GROUNDWATCH_HOME": str(home),
            "GROUNDWATCH_REDIS_URL": redis_url,
            "GROUNDWATCH_DATABASE_URL": store_url,
            "GROUNDWATCH_ABANDONED_AFTER_S": "1",
            "GROUNDWATCH_ENABLED": "false",
        },
        stdout=subprocess.DEVNULL, stderr=sys.stderr,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=200)


def stored(store_url):
    with closing(Store(store_url)) as store, store.read() as connection:
        return connection.execute(select(func.count()).select_from(samples)).scalar_one()


def give(hook, n, every_s=0.0):
    for _ in range(n):
        hook.sample(query="How are refunds paid?", contexts=[TEXT], output=TEXT)
        time.sleep(every_s)


@pytest.fixture
def guarded(redis_server, redis_url, tmp_path):
    """The Redis of the tests behind TLS with client certificates, and the manual's users."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "client.pem")
    )
    manual = (ROOT / "docs" / "redis.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```acl\n(.*?)```", manual, re.DOTALL)
    users = [line.split()[1:] for line in block.splitlines()]
    with TlsFront(context, to_port=redis_server.port) as door, closing(connect(redis_url)) as admin:
        for name, *rules in users:
            admin.execute_command("ACL", "SETUSER", name, "reset", *rules)
        admin.execute_command("ACL", "LOG", "RESET")
        tls = f"ssl_ca_certs={tmp_path}/ca.pem&ssl_certfile={tmp_path}/client.pem"
        yield lambda user: f"rediss://{user}:PASSWORD@127.0.0.1:{door.port}/0?{tls}", admin
        for name, *_ in users:
            admin.execute_command("ACL", "DELUSER", name)


def test_worker_runs_with_the_redis_rights_of_the_manual(guarded, sqlite_url, tmp_path):
    address, admin = guarded

    def denied():
        return admin.execute_command("ACL", "LOG")

    with worker(address("groundwatch-worker"), sqlite_url, tmp_path / "home"):
        hook = monitor.Hook(app="shop", sample_rate=1.0, redis_url=address("groundwatch-app"))
        give(hook, 20)
        assert hook.flush(60)
        hook.close(1)
        wait_until(lambda: stored(sqlite_url) == 20 or denied())
    wait_until(lambda: admin.xlen(names.SAMPLES) == 0)
    assert denied() == []


def test_samples_arrive_after_a_redis_failover(sqlite_url, tmp_path):
    # Patient sentinels: a machine that is busy is not a master that died.
    family = RedisFamily(tmp_path, down_after_ms=3_000)
    with family, worker(family.url, sqlite_url, tmp_path / "home"):
        wait_until(family.knows_replica)
        hook = monitor.Hook(app="shop", sample_rate=1.0, redis_url=family.url)
        give(hook, 300)
        assert hook.flush(60)
        # Held back by the client, so that each server's own state decides what is there.
        with redis.Redis(port=family.primary.port) as primary:
            primary.set("caught up", 1)
            assert primary.wait(1, 60_000) == 1
        give(hook, 300, every_s=0.002)
        family.primary.kill()
        while family.master_port() != family.replica.port:
            give(hook, 10, every_s=0.005)
        give(hook, 300)
        assert hook.flush(60)
        stats = hook.stats()
        hook.close(1)
        assert not stats["dropped"]
        with closing(connect(family.url)) as client:
            wait_until(lambda: client.xlen(names.SAMPLES) == 0)
        lost = stats["sent"] - stored(sqlite_url)
        # Only what the primary confirmed in its last moment, before the replica had it.
        assert 0 <= lost <= 300, f"{lost} of {stats['sent']} lost"
        assert stats["sent"] >= 900
