"""Bring the tables of a store to the version this program needs."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from monitor.errors import StoreError
from monitor.store.engine import Store

_VERSION_TABLE = "groundwatch_schema"
#: The revision of the tables that this program knows; a constant, so that a check costs nothing.
HEAD = "0001"


def migrate(store: Store) -> tuple[str | None, str]:
    """
    Upgrade the tables; return the revision before and after.

    Safe to call from several processes at once: they take turns.
    """
    with store.write() as connection:
        _take_turns(connection)
        before = _revision(connection)
        command.upgrade(_config(connection), "head")
    return before, HEAD


def check_schema(store: Store) -> None:
    """
    Check that the tables are those this program knows.

    Raises
    ------
    StoreError
        If they are missing, older or newer; the message says what to run.
    """
    with store.read() as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    where = store.engine.url.render_as_string(hide_password=True)
    if found is None or found in _known_revisions():
        state = "has no tables yet" if found is None else "is of an older version"
        raise StoreError(f"the store at {where} {state}; run: groundwatch migrate")
    raise StoreError(f"the store at {where} was made by a newer groundwatch; upgrade this one")


def _take_turns(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7246931)")


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})
    return context.get_current_revision()


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _known_revisions() -> set[str]:
    script = ScriptDirectory.from_config(_config())
    return {revision.revision for revision in script.walk_revisions()}
