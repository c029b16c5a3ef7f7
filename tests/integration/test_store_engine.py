"""The database behind the door: what is written, what is wrong with a file, and reading only."""

import os
import subprocess
from contextlib import closing
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from monitor.errors import StoreUnavailableError
from monitor.store import engine
from monitor.store.engine import Store, insert_new, put
from monitor.store.schema import file_problems, migrate
from monitor.store.tables import dimensions, hooks

TOLD = {"seen": 1, "größer": [1.5, None, "日本"]}


def row(counters):
    return {
        "hook_id": "h", "app": "shop", "host": "web", "pid": 1, "heartbeat_at_ms": 1,
        "counters": counters,
    }  # fmt: skip


def counters_of(store):
    with store.read() as connection:
        return connection.execute(select(hooks.c.counters)).scalar()


def test_json_is_stored_compactly(sqlite_url):
    with closing(Store(sqlite_url)) as store:
        migrate(store)
        with store.write() as connection:
            put(connection, hooks, [row(TOLD)])
            stored = connection.exec_driver_sql("SELECT counters FROM groundwatch_hooks").scalar()
        assert stored == '{"seen":1,"größer":[1.5,null,"日本"]}'
        assert counters_of(store) == TOLD


def test_last_of_two_rows_with_one_key_wins(store):
    with store.write() as connection:
        put(connection, hooks, [row({"seen": 1}), row({"seen": 2})])
    assert counters_of(store) == {"seen": 2}


def test_half_of_a_surrogate_pair_does_not_stop_a_transaction(store):
    with store.write() as connection:
        put(connection, hooks, [row({"\ud83d": 1})])
    assert counters_of(store) == {"?": 1}


def test_insert_new_returns_only_the_new_rows(store):
    rows = [{"app": "shop", "dimension": name, "census": {}} for name in ("release", "user")]
    column = dimensions.c.dimension
    with store.write() as connection:
        assert insert_new(connection, dimensions, rows[:1], returning=column) == {"release"}
        assert insert_new(connection, dimensions, rows, returning=column) == {"user"}


def test_sqlite_is_configured_for_durable_commits_and_concurrent_readers(tmp_path):
    expected = {
        "journal_mode": "wal", "synchronous": 2, "busy_timeout": 30_000, "foreign_keys": 1,
        "page_size": 8192, "auto_vacuum": 2,
    }  # fmt: skip
    with closing(Store(f"sqlite:///{tmp_path / 'new.db'}")) as store:
        migrate(store)
        with store.read() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in expected
            }
    assert found == expected


def test_sqlite_is_opened_and_read_while_another_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_SQLITE_BUSY_TIMEOUT_S", 0.0)
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with closing(Store(url)) as store, closing(Store(url)) as other:
        migrate(store)
        with store.write() as connection:
            put(connection, hooks, [row(TOLD)])
            assert counters_of(other) is None


def test_folders_of_a_new_database_are_private_to_their_owner(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'a' / 'b' / 'new.db'}")) as store:
        migrate(store)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_intact_database_has_no_file_problems(store):
    assert file_problems(store) == []


def test_damaged_file_is_found(tmp_path):
    file = tmp_path / "store.db"
    with closing(Store(f"sqlite:///{file}")) as store:
        migrate(store)
        with store.write() as connection:
            rows = [row({"x" * 200: n}) | {"hook_id": f"h{n}"} for n in range(500)]
            put(connection, hooks, rows)
        with closing(store.engine.raw_connection()) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            page = raw.execute(
                "SELECT rootpage FROM sqlite_master WHERE name = 'groundwatch_hooks'"
            ).fetchone()[0]
    with file.open("r+b") as damaged:
        damaged.seek((page - 1) * 4096)
        damaged.write(b"\xff" * 64)
    with closing(Store(f"sqlite:///{file}")) as store:
        assert file_problems(store)
    from monitor.cli.doctor import check_store
    from monitor.settings import Settings

    result = next(check_store(Settings(database_url=f"sqlite:///{file}")))
    assert (result.what, result.ok) == ("store", False)
    assert "restore a backup" in result.advice


def test_doctor_reports_an_unreachable_database_in_one_line():
    from monitor.cli.doctor import check_store, found_by
    from monitor.settings import Settings

    settings = Settings(database_url="postgresql+psycopg://ann:SECRET@127.0.0.1:1/gw")
    (result,) = found_by(check_store, settings)
    assert "Connection refused; check GROUNDWATCH_DATABASE_URL" in result.found
    assert "\n" not in result.found
    assert (result.ok, result.advice) == (False, "")  # `up` would not start it


@pytest.fixture
def read_only_folder(tmp_path):
    """A folder that is mounted for reading at the end of the ``with`` that is given."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(
            ["mount", *options, str(folder)], capture_output=True, check=False, timeout=10
        )
        return done.returncode == 0

    if os.geteuid() != 0 or not mount("-t", "tmpfs", "-o", "size=20m", "tmpfs"):
        pytest.skip("only root can mount a file system")
    try:
        yield folder, lambda: mount("-o", "remount,ro")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, timeout=10)


def test_store_opens_on_a_read_only_file_system(read_only_folder):
    folder, make_read_only = read_only_folder
    url = f"sqlite:///{folder}/store.db"
    with closing(Store(url)) as store:
        migrate(store)
        with store.write() as connection:
            put(connection, hooks, [row(TOLD)])
    assert make_read_only()
    with closing(Store(url)) as store:
        assert counters_of(store) == TOLD
        with pytest.raises(StoreUnavailableError), store.write() as connection:
            put(connection, hooks, [row({})])


def test_statuses_are_read_from_a_read_only_file_system(read_only_folder):
    from monitor.settings import Settings
    from workers.reports import read_report, read_status

    folder, make_read_only = read_only_folder
    settings = Settings(database_url=f"sqlite:///{folder}/store.db", home=folder)
    with closing(Store(settings.sql_url)) as store:
        migrate(store)
    assert make_read_only()
    now = datetime.now(UTC)
    with closing(Store(settings.sql_url)) as store:
        assert read_status(store, settings, now=now).apps == []
        assert read_report(store, settings, now=now, window_s=3600).apps == []
