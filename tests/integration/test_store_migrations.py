"""Migrations lead to exactly the tables that the program knows, on both databases."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from monitor.errors import SettingsError, StoreError, StoreUnavailableError
from monitor.store.engine import HEAD, Store, _config, check_schema, migrate
from monitor.store.tables import metadata


def test_migrations_make_the_tables_that_the_program_knows(store):
    with store.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": "groundwatch_schema", "compare_type": True}
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
