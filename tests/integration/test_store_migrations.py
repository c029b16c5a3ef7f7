"""Migrations lead to exactly the tables that the program knows, on both databases."""

from contextlib import closing

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from monitor.errors import SettingsError, StoreError, StoreUnavailableError
from monitor.store.engine import HEAD, Store, _config, check_schema, migrate
from monitor.store.reconcile import sums_of_store
from monitor.store.tables import metadata


def test_migrations_make_the_tables_that_the_program_knows(store):
    with store.read() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "groundwatch_schema",
                "compare_type": True,
                # A virtual table of SQLite, and one of PostgreSQL that is like no other's.
                "include_name": lambda name, kind, _: (
                    kind != "table" or not name.startswith("groundwatch_sample_terms")
                ),
            },
        )
        assert compare_metadata(context, metadata) == []


def test_every_table_has_our_name(store):
    names = inspect(store.engine).get_table_names()
    assert len(names) > 10
    assert all(name.startswith("groundwatch_") for name in names)


def test_migrating_again_changes_nothing(store):
    before, after = migrate(store)
    assert before == after


def test_head_is_the_newest_revision():
    assert ScriptDirectory.from_config(_config()).get_current_head() == HEAD


def test_store_without_tables_says_what_to_run(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'new.db'}")
    with pytest.raises(StoreError, match="run: groundwatch migrate"):
        check_schema(store)
    store.close()


def test_store_of_a_newer_program_is_refused(store):
    with store.write() as connection:
        connection.execute(text("UPDATE groundwatch_schema SET version_num = 'from-the-future'"))
    with pytest.raises(StoreError, match="newer groundwatch"):
        check_schema(store)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("not a url", "not a database address"),
        ("mysql://localhost/x", "mysql is not supported"),
        ("nonsense://localhost/x", "not"),
    ],
)
def test_wrong_address_says_which_setting_to_correct(url, message):
    with pytest.raises(SettingsError, match=f"GROUNDWATCH_DATABASE_URL: .*{message}"):
        Store(url)


def test_unreachable_database_is_one_clear_line_without_the_password():
    store = Store("postgresql+psycopg://user:hunter2@127.0.0.1:9/x?connect_timeout=2")
    with pytest.raises(StoreUnavailableError, match="check GROUNDWATCH_DATABASE_URL") as caught:
        migrate(store)
    store.close()
    assert "hunter2" not in str(caught.value)


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_store(request, tmp_path):
    """A store without any table, on each of the two databases."""
    if request.param == "sqlite":
        with closing(Store(f"sqlite:///{tmp_path / 'bare.db'}")) as store:
            yield store
        return
    with closing(Store(request.getfixturevalue("postgres_server"))) as server:
        url = server.engine.url
        alone = create_engine(url, isolation_level="AUTOCOMMIT")
        with alone.connect() as connection:
            connection.exec_driver_sql("DROP DATABASE IF EXISTS bare")
            connection.exec_driver_sql("CREATE DATABASE bare")
        bare = url.set(database="bare").render_as_string(hide_password=False)
        with closing(Store(bare)) as store:
            yield store
        with alone.connect() as connection:
            connection.exec_driver_sql("DROP DATABASE bare WITH (FORCE)")
        alone.dispose()


def stream_sums(store):
    query = "SELECT sum_wy, past_wy, sum_w - past_w FROM groundwatch_streams"
    with store.read() as connection:
        return connection.execute(text(query)).one()


def test_books_balance_after_an_upgrade_from_a_schema_without_sums_of_streams(bare_store):
    """Written by the program of that time: a stream of 200 scores, none of them in its sums."""
    with bare_store.write() as connection:
        command.upgrade(_config(connection), "0002")
        connection.execute(text(
            "INSERT INTO groundwatch_streams"
            " (app, metric, segment, evaluator_version, n_total, last_bucket_s)"
            " VALUES ('shop', 'groundedness', '*', 'local-1', 400, 120)"
        ))  # fmt: skip
        for start_s in (60, 120):
            connection.execute(text(
                "INSERT INTO groundwatch_buckets (stream_id, start_s, n, passed, failed, skipped,"
                " sum_w, sum_w2, sum_wy, sum_w2y, sum_x, sum_x2, sum_wx, cost_microusd)"
                f" SELECT stream_id, {start_s}, 200, 100, 0, 0, 200, 200, 100, 100, 100, 100,"
                " 100, 0 FROM groundwatch_streams"
            ))  # fmt: skip
    migrate(bare_store)
    with bare_store.read() as connection:
        sums = [item for item in sums_of_store(connection, since_s=0) if "streams" in item.check]
    assert [item.where for item in sums if not item.holds] == []
    # Readers, who leave the past out, see no news.
    assert stream_sums(bare_store) == (200, 200, 0)
    migrate(bare_store)
    assert stream_sums(bare_store) == (200, 200, 0)
