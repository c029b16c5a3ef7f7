"""TLS and ACLs on the way to Redis: for the hook, the workers and Celery's own connection."""

import re
import ssl
from contextlib import closing
from pathlib import Path

import pytest
import redis
import trustme
from kombu.exceptions import OperationalError

import monitor
from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import Consumer, connect
from monitor.queue.producer import Producer
from monitor.settings import Settings
from support.tls_front import TlsFront
from workers.celery import make_app

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"


def by_hook(url):
    Producer(url, queue_limit=10).send(
        [], app="bot", hook_id="h", counters={"seen": 1}, heartbeat_at_ms=1
    )


def by_worker(url):
    with closing(connect(url, timeout_s=2)) as client:
        Consumer(client, "w").ensure_group()


def by_celery(url):
    with make_app(Settings(redis_url=url)).connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        connection.default_channel.client.ping()


REFUSED = (QueueUnavailableError, OperationalError, redis.ConnectionError)
everyone = pytest.mark.parametrize("use", [by_hook, by_worker, by_celery])


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """The CA's certificate, and a client's certificate and key, as PEM files."""
    folder = tmp_path_factory.mktemp("tls")
    client = authority.issue_cert("client@example.org")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    client.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    client.private_key_pem.write_to_path(str(folder / "client.key"))
    trustme.CA().cert_pem.write_to_path(str(folder / "other-ca.pem"))
    return folder


def front(authority, server, name):
    """Put TLS that asks for a client certificate in front of the server of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return TlsFront(context, to_port=server.port)


@pytest.fixture(scope="module")
def door(authority, redis_server):
    with front(authority, redis_server, "127.0.0.1") as listening:
        yield listening


def address(door, files, *, ca="ca.pem", client=True):
    own = f"&ssl_certfile={files}/client.pem&ssl_keyfile={files}/client.key" if client else ""
    return f"rediss://127.0.0.1:{door.port}/0?ssl_ca_certs={files}/{ca}{own}"


@everyone
def test_redis_with_a_private_ca_and_a_client_certificate_connects(use, door, files, redis_url):
    use(address(door, files))


@everyone
def test_server_of_an_unknown_authority_is_refused(use, door, files):
    with pytest.raises(REFUSED):
        use(address(door, files, ca="other-ca.pem"))


@everyone
def test_connection_without_a_client_certificate_is_refused(use, door, files):
    with pytest.raises(REFUSED):
        use(address(door, files, client=False))


@everyone
def test_server_with_a_mismatched_certificate_name_is_refused(use, authority, redis_server, files):
    with (
        front(authority, redis_server, "elsewhere.example") as elsewhere,
        pytest.raises(REFUSED),
    ):
        use(address(elsewhere, files))


def acl_lines():
    """Read the users that docs/redis.md prints."""
    (block,) = re.findall(r"```acl\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line.split() for line in block.splitlines()]


@pytest.fixture
def guarded(redis_url):
    """The Redis of the tests with the users of the manual, and nobody else's right."""
    with closing(redis.Redis.from_url(redis_url)) as admin:
        for _, name, *rules in acl_lines():
            admin.execute_command("ACL", "SETUSER", name, "reset", *rules)
        admin.execute_command("ACL", "LOG", "RESET")
        yield lambda user: redis_url.replace("redis://", f"redis://{user}:PASSWORD@")
        for _, name, *_ in acl_lines():
            admin.execute_command("ACL", "DELUSER", name)


def test_manual_defines_an_app_user_and_a_worker_user():
    assert [words[:2] for words in acl_lines()] == [
        ["user", "groundwatch-app"], ["user", "groundwatch-worker"]
    ]  # fmt: skip


def test_app_user_can_send_samples_and_receive_a_rate(guarded, redis_url):
    with closing(redis.Redis.from_url(redis_url)) as admin:
        admin.set(names.rate("bot"), "0.5")
        hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url=guarded("groundwatch-app"))
        for number in range(20):
            hook.sample(query="q", output=f"o{number}")
        hook.flush(60)
        assert (hook.stats()["sent"], hook.stats()["sample_rate"]) == (20, 0.5)
        hook.close(1)
        assert admin.xlen(names.SAMPLES) == 20
        assert admin.execute_command("ACL", "LOG") == []


def test_samples_arrive_without_the_right_to_read_shares(guarded, redis_url):
    url = guarded("groundwatch-app")
    keys = [f"~{names.SAMPLES}", f"~{names.HOOKS}", "~groundwatch:hook:*", "%R~groundwatch:rate:*"]
    with closing(redis.Redis.from_url(redis_url)) as admin:
        admin.execute_command("ACL", "SETUSER", "groundwatch-app", "resetkeys", *keys)
        hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url=url)
        hook.choose("prompt", "user-1", variants=["a", "b"])
        hook.sample(query="q", output="o")
        assert hook.flush(60)
        hook.close(1)
        assert admin.xlen(names.SAMPLES) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("XRANGE", names.SAMPLES, "-", "+"),
        ("XREADGROUP", "GROUP", "g", "c", "STREAMS", names.SAMPLES, ">"),
        ("XTRIM", names.SAMPLES, "MAXLEN", "0"),
        ("HGETALL", names.hook("another")),
        ("SET", names.rate("bot"), "1"),
        ("DEL", names.SAMPLES),
        ("GET", "another:key"),
        ("EVAL", "return 1", "0"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
    ],
)
def test_user_of_the_app_can_neither_read_nor_destroy(guarded, command):
    with (
        closing(redis.Redis.from_url(guarded("groundwatch-app"))) as app,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        app.execute_command(*command)


@pytest.mark.parametrize(
    "command",
    [("GET", "another:key"), ("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("ACL", "LIST")],
)
def test_worker_user_has_no_rights_beyond_our_keys(guarded, command):
    with (
        closing(redis.Redis.from_url(guarded("groundwatch-worker"))) as worker,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        worker.execute_command(*command)
