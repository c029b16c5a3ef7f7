"""Real servers for every test: Redis, PostgreSQL; started once, emptied between tests."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import count, cycle
from pathlib import Path
from typing import Any

import certifi
import hypothesis
import pytest
import redis
import structlog
from sqlalchemy import Connection, Engine, create_engine

from monitor.settings import PREFIX
from monitor.store.engine import Store
from monitor.store.schema import HEAD, migrate
from monitor.store.tables import metadata
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from support.warm import Warm

DATABASES = 1_024  #: so many tests later one is used again, and the hooks of then have ended

# A busy machine is not the fault of the code: time is measured in benchmarks. And what a change
# breaks must not depend on the draw: `--hypothesis-profile default` draws anew.
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Two a core: half of the time a test waits for processes of its own."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """
    Leave what is collected out of the search for garbage: it lasts as long as the run.

    Workers begin at other files each, so that in a fresh clone one compiles what all read.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker and config.args == config.getini("testpaths"):
        files = sorted(map(str, Path(__file__).parent.rglob("test_*.py")))
        first = len(files) * int(worker["workerid"][2:]) // worker["workercount"]
        config.args = files[first:] + files[:first]
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Which part of a run a room is spread over.
SPREAD = {"acceptance": 0.5, "statistics": 0.5, "property": 0.6, "architecture": 0.8}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix files that wait for processes with those that compute: or cores wait, then tests do."""
    rooms: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted({item.path for item in items}):
        rooms[path.relative_to(Path(__file__).parent).parts[0]].append(path)
    place = {
        path: number / len(paths) * SPREAD.get(room, 1.0)
        for room, paths in rooms.items()
        for number, path in enumerate(paths)
    }
    items.sort(key=lambda item: (place[item.path], item.path))


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Commands that run in the tests' process set logs up; the stream of one test ends with it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    """No setting of the developer's machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(PREFIX) or name in {"OPENAI_API_KEY", "OPENAI_BASE_URL"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("GROUNDWATCH_HOME", str(next(homes)))


@pytest.fixture(scope="session", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let clients of HTTP trust one root instead of all, which take each 30 ms to read."""
    roots, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERT")
    file = tmp_path_factory.mktemp("roots") / "one.pem"
    file.write_text(f"{roots}{end}IFICATE-----\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet; most tests make none."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


class Compiled(dict[tuple[object, ...], object]):
    """Statements of all stores of one dialect: each test opens its own, and none compiles anew."""

    def get(self, key: tuple[object, ...], default: object = None) -> object:
        return super().get(key[1:], default)  # the first is the engine's own dialect

    def __setitem__(self, key: tuple[object, ...], statement: object) -> None:
        super().__setitem__(key[1:], statement)


@pytest.fixture(scope="session", autouse=True)
def compiled_once() -> Iterator[None]:
    """Half of what a small test of the store costs is the compilation of its statements."""
    caches: defaultdict[str, Compiled] = defaultdict(Compiled)

    def create(*given: Any, **options: Any) -> Engine:
        made = create_engine(*given, **options)
        made.update_execution_options(compiled_cache=caches[made.dialect.name])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.store.engine.create_engine", create)
        yield


@pytest.fixture(scope="session")
def warm_groundwatch() -> Iterator[str]:
    """The path of a program that is ``groundwatch``, but for the time that imports take."""
    with Warm() as warm:
        yield warm.command


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(
        tmp_path_factory.mktemp("redis"), durable=False, databases=DATABASES
    ) as server:
        yield server


@pytest.fixture(scope="session")
def redis_urls(redis_server: RedisServer) -> Iterator[str]:
    """One database after the other: what an earlier test left running writes to another one."""
    place = redis_server.url.removesuffix("/0")
    return cycle(f"{place}/{number}" for number in range(1, DATABASES))


@pytest.fixture
def redis_url(redis_urls: Iterator[str]) -> str:
    """The address of a real, empty Redis."""
    url = next(redis_urls)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A real PostgreSQL: the URL given, else the machine's own, else the one from the wheel."""
    given = os.environ.get("TEST_POSTGRES_URL")  # no setting of ours, which tests would not see
    if given:
        yield given
        return
    # Not below pytest's folder: where root runs tests, the next session to begin shuts it to the
    # other user as whom this one runs.
    with (
        tempfile.TemporaryDirectory(prefix="postgres-") as folder,
        PostgresServer(Path(folder), durable=False) as server,
    ):
        yield server.url


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str) -> str:
    store = Store(postgres_server)
    migrate(store)
    store.close()
    return postgres_server


@pytest.fixture(scope="session")
def clear_postgres(migrated_postgres: str) -> Iterator[Callable[[], None]]:
    """Empty what holds a row, and no other: to truncate a table makes new files."""
    names = [*(table.name for table in metadata.sorted_tables), "groundwatch_sample_terms"]
    filled = " UNION ALL ".join(f"SELECT '{n}' WHERE EXISTS (SELECT FROM {n})" for n in names)
    counted = (
        "SELECT format('ALTER SEQUENCE %%I RESTART', sequencename) FROM pg_sequences"
        " WHERE schemaname = current_schema() AND last_value IS NOT NULL"
    )
    store = Store(migrated_postgres)

    def clear() -> None:
        with store.write() as connection:
            if tables := connection.exec_driver_sql(filled).scalars().all():
                connection.exec_driver_sql(f"TRUNCATE {', '.join(tables)} CASCADE")
            for restart in connection.exec_driver_sql(counted).scalars():
                connection.exec_driver_sql(restart)
            connection.exec_driver_sql("UPDATE groundwatch_schema SET version_num = %s", (HEAD,))

    yield clear
    store.close()


@pytest.fixture
def postgres_url(migrated_postgres: str, clear_postgres: Callable[[], None]) -> str:
    """The address of a real PostgreSQL with all tables, empty."""
    clear_postgres()
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


@pytest.fixture
def connection(sqlite_url: str) -> Iterator[Connection]:
    """A writing transaction on an empty SQLite store."""
    with closing(Store(sqlite_url)) as store, store.write() as connection:
        yield connection


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store with all tables, on each of the two databases."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    store = Store(request.getfixturevalue(name))
    yield store
    store.close()
