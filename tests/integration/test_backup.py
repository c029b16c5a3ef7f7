"""A backup is whole, whatever is written meanwhile, and works as a store."""

import stat
import threading

import pytest
from sqlalchemy import func, select

from monitor.errors import SettingsError
from monitor.store.engine import Store
from monitor.store.schema import check_schema, copy_to, file_problems
from monitor.store.tables import evaluations, samples
from monitor.store.write import record
from tests.integration.test_store_apps import NOW, result


def rows(store):
    with store.read() as connection:
        return tuple(
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (samples, evaluations)
        )


def write(store, n):
    for _ in range(n):
        with store.write() as connection:
            record(connection, [result("shop") for _ in range(5)], now=NOW, bucket_s=60)


def test_copy_made_during_writes_is_complete_and_private(sqlite_url, tmp_path):
    store, path = Store(sqlite_url), tmp_path / "copy.db"
    write(store, 4)
    writer = threading.Thread(target=write, args=(store, 40))
    writer.start()
    copy_to(store, path)
    writer.join()
    assert [each.name for each in tmp_path.glob("*copy.db*")] == ["copy.db"]
    copy = Store(f"sqlite:///{path}")
    check_schema(copy)
    assert file_problems(copy) == []
    n_samples, n_evaluations = rows(copy)
    assert 20 <= n_samples == n_evaluations <= 220
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_copy_works_as_an_independent_store(sqlite_url, tmp_path):
    store, path = Store(sqlite_url), tmp_path / "copy.db"
    write(store, 2)
    copy_to(store, path)
    copy = Store(f"sqlite:///{path}")
    write(copy, 1)
    assert (rows(store), rows(copy)) == ((10, 10), (15, 15))


def test_existing_file_is_not_overwritten(sqlite_url, tmp_path):
    path = tmp_path / "copy.db"
    path.write_text("mine")
    with pytest.raises(SettingsError, match="exists already"):
        copy_to(Store(sqlite_url), path)
    assert path.read_text() == "mine"


def test_missing_folder_is_named(sqlite_url, tmp_path):
    with pytest.raises(SettingsError, match="cannot write"):
        copy_to(Store(sqlite_url), tmp_path / "none" / "copy.db")


def test_postgresql_backup_names_its_own_tool(postgres_url, tmp_path):
    with pytest.raises(SettingsError, match="pg_dump"):
        copy_to(Store(postgres_url), tmp_path / "copy.db")
