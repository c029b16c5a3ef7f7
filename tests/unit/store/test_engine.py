"""The door to the database: addresses, inserts that are safe to repeat, errors, whole copies."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, text
from sqlalchemy.dialects import postgresql, sqlite

from monitor.errors import (
    RowRefusedError,
    SettingsError,
    StoreError,
    StoreUnavailableError,
)
from monitor.store.engine import Store, add, batched, compact_json, insert, insert_new, put, rows_of
from monitor.store.engine import _fits_json as fits_json
from monitor.store.engine import _statement as statement
from monitor.store.schema import HEAD, check_schema, copy_to, file_problems
from monitor.store.tables import buckets, dimensions, hooks, streams, totals

NAMES = ("app", "metric", "segment", "evaluator_version")
SUMS = ("n_total", "sum_w", "sum_w2", "sum_wy", "past_n", "past_w", "past_w2", "past_wy")


def total(app="shop", kind="seen", reason="", count=1):
    return {"app": app, "kind": kind, "reason": reason, "count": count}


def stream(app="shop", n_total=1, last_bucket_s=60):
    key = dict(zip(NAMES, (app, "m", "*", "v"), strict=True))
    return key | dict.fromkeys(SUMS, 0) | {"n_total": n_total, "last_bucket_s": last_bucket_s}


def counts_of(connection):
    return {row["app"]: row["count"] for row in rows_of(connection, select(totals))}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://u:hunter2@host/name", "mysql is not supported"),
        ("hunter2", "not a database address"),
        ("sqlite+hunter2:///x.db", "not a database address"),
    ],
)
def test_address_of_another_database_is_refused_without_its_password(url, why):
    with pytest.raises(SettingsError, match=why) as caught:
        Store(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_addresses_of_postgresql_have_the_one_driver_and_readers_see_one_state(scheme):
    with closing(Store(f"{scheme}://u:hunter2@host/name")) as store:
        assert store.engine.url.drivername == "postgresql+psycopg"
        assert store.is_postgresql
        assert store.engine.url.password == "hunter2"
        options = store._reader.get_execution_options()
        assert options["isolation_level"] == "REPEATABLE READ"
        assert store.engine.pool._pre_ping


def test_sqlite_pool_does_not_ping_before_transactions(store):
    assert not store.is_postgresql
    assert not store.engine.pool._pre_ping


def test_only_write_transactions_lock_at_their_start(store, sqlite_url):
    with closing(Store(sqlite_url)) as other, store.read(), other.write() as connection:
        insert(connection, totals, [total()])
        third = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), timeout=0)
        with closing(third), pytest.raises(sqlite3.OperationalError, match="locked"):
            third.execute("BEGIN IMMEDIATE")


def test_reads_in_one_transaction_see_one_snapshot(store, sqlite_url):
    with closing(Store(sqlite_url)) as other, store.read() as reader:
        assert counts_of(reader) == {}
        with other.write() as writer:
            insert(writer, totals, [total()])
        assert counts_of(reader) == {}
    with store.read() as reader:
        assert counts_of(reader) == {"shop": 1}


def test_duplicate_row_is_refused_without_printing_its_values(store):
    with (
        pytest.raises(RowRefusedError, match=r"refuses a value \(IntegrityError\)"),
        store.write() as c,
    ):
        insert(c, totals, [total(reason="secret"), total(reason="secret")])


def test_unusable_database_is_named_without_its_password(tmp_path):
    (tmp_path / "store.db").write_text("no database, but long enough to be read as one" * 9)
    with closing(Store(f"sqlite:///{tmp_path}/store.db")) as store:
        with pytest.raises(StoreUnavailableError, match="cannot be used") as caught:
            store.check_reachable()
        assert "GROUNDWATCH_DATABASE_URL" in str(caught.value)
        [problem] = file_problems(store)
        assert "store.db cannot be used" in problem


def test_add_sums_counts_and_keeps_the_greater_value(connection):
    found = []
    for n, last in ((2, 120), (3, 60), (5, 180), (7, 120)):
        rows = [stream("shop", n, last), stream("bot", n, last)]
        found = add(
            connection, streams, rows, sums=["n_total"], latest=["last_bucket_s"], key=NAMES,
            returning=[streams.c.app, streams.c.n_total, streams.c.last_bucket_s],
        )  # fmt: skip
    assert sorted(map(tuple, found)) == [("bot", 17, 180), ("shop", 17, 180)]


def test_add_uses_the_primary_key_unless_another_is_given(connection):
    for _ in range(2):
        assert add(connection, totals, [total("b"), total("a")], sums=["count"]) == []
    assert counts_of(connection) == {"a": 2, "b": 2}


def test_rows_are_written_in_the_order_of_their_keys(store):
    """So that two writers never wait for each other in a circle."""
    with store.write() as connection:
        rows = [stream(app) for app in "cab"]
        found = add(
            connection,
            streams,
            rows,
            sums=["n_total"],
            key=NAMES,
            returning=[streams.c.stream_id, streams.c.app],
        )
    assert [app for _, app in sorted(map(tuple, found))] == ["a", "b", "c"]


def test_empty_lists_write_nothing(connection):
    assert insert_new(connection, totals, [], returning=totals.c.app) == set()
    assert add(connection, totals, [], sums=["count"]) == []
    put(connection, totals, [])


def test_put_replaces_every_column_but_the_key(connection):
    put(connection, totals, [total(count=3), total("bot", count=4)])
    put(connection, totals, [total(count=1)])
    assert counts_of(connection) == {"shop": 1, "bot": 4}


def test_postgresql_receives_rows_as_one_value_if_columns_allow():
    names = ("app", "dimension", "census")
    made = statement("postgresql", dimensions, names, key=("app", "dimension"))
    sql = str(made.compile(dialect=postgresql.dialect()))
    assert "jsonb_to_recordset" in sql
    assert "DO UPDATE SET census = excluded.census" in sql
    assert "app = excluded.app" not in sql
    assert all(fits_json(table) for table in (dimensions, hooks, buckets, totals))


@pytest.mark.parametrize(
    ("dialect", "greatest"), [(sqlite.dialect(), "max("), (postgresql.dialect(), "greatest(")]
)
def test_each_dialect_uses_its_own_greatest_function(dialect, greatest):
    made = statement(
        dialect.name, streams, ("app", "n_total", "last_bucket_s"), key=NAMES, sums=("n_total",),
        latest=("last_bucket_s",),
    )  # fmt: skip
    assert greatest in str(made.compile(dialect=dialect))


def test_long_lists_are_batched_completely():
    assert list(batched(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batched([], 2)) == []


def test_json_encodes_bytes_and_times_in_plain_form():
    value = {"b": b"\x00\xff", "t": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "ü": [1.5]}
    assert compact_json(value) == '{"b":"AP8=","t":1000,"ü":[1.5]}'


def test_copy_is_complete_private_and_a_single_file(store, tmp_path):
    with store.write() as connection:
        insert(connection, totals, [total()])
    copy = tmp_path / "copy" / "c.db"
    copy.parent.mkdir()
    copy_to(store, copy)
    assert [path.name for path in copy.parent.iterdir()] == ["c.db"]
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as read:
        assert read.execute("SELECT app FROM groundwatch_totals").fetchall() == [("shop",)]
        assert read.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_copy_overwrites_no_file_and_leaves_none_on_failure(store, tmp_path):
    (tmp_path / "there").write_text("kept")
    with pytest.raises(SettingsError, match="exists already"):
        copy_to(store, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "kept"
    with pytest.raises(SettingsError, match="cannot write"):
        copy_to(store, tmp_path / "no" / "folder")


def test_postgresql_copy_names_its_own_tool(tmp_path):
    with closing(Store("postgresql://h/n")) as store, pytest.raises(SettingsError, match="pg_dump"):
        copy_to(store, tmp_path / "copy")


@pytest.mark.parametrize(
    ("revision", "why"),
    [("0001", "older version; run: groundwatch migrate"), ("9999", "newer groundwatch; upgrade")],
)
def test_tables_of_another_version_are_refused_with_what_to_do(store, revision, why):
    check_schema(store)
    with store.write() as connection:
        connection.execute(text("UPDATE groundwatch_schema SET version_num = :v"), {"v": revision})
    with pytest.raises(StoreError, match=why):
        check_schema(store)


def test_store_without_tables_says_how_to_make_them(tmp_path):
    why = "has no tables yet; run: groundwatch migrate"
    with (
        closing(Store(f"sqlite:///{tmp_path}/new.db")) as new,
        pytest.raises(StoreError, match=why),
    ):
        check_schema(new)


def test_revision_is_that_of_the_newest_migration(store):
    with store.read() as connection:
        assert (
            connection.execute(text("SELECT version_num FROM groundwatch_schema")).scalar() == HEAD
        )
