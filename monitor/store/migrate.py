"""Bring the tables of a store to the version this program needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, String, column, inspect, select, table

from monitor.errors import StoreError
from monitor.store.engine import Store

if TYPE_CHECKING:
    from alembic.config import Config

_VERSION_TABLE = "groundwatch_schema"
#: The revision of the tables that this program knows; a constant, so that a check costs nothing.
HEAD = "0009"


def migrate(store: Store) -> tuple[str | None, str]:
    """
    Upgrade the tables; return the revision before and after.

    Safe to call from several processes at once: they take turns.
    """
    from alembic import command  # noqa: PLC0415

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
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    query = select(column("version_num", String)).select_from(table(_VERSION_TABLE))
    return connection.execute(query).scalar()


def _config(connection: Connection | None = None) -> Config:
    # Here, because checking the schema, which every command does, needs no Alembic.
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _known_revisions() -> set[str]:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    script = ScriptDirectory.from_config(_config())
    return {revision.revision for revision in script.walk_revisions()}
