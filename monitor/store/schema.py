"""The database as a whole: the version of its tables, whether the file is whole, and a copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, String, column, inspect, select, table

from monitor.errors import SettingsError, StoreError, StoreUnavailableError
from monitor.store.engine import Store

if TYPE_CHECKING:
    from alembic.config import Config

_VERSION_TABLE = "groundwatch_schema"
#: The revision of the tables that this program knows; a constant, so that a check costs nothing.
HEAD = "0027"


def migrate(store: Store) -> tuple[str | None, str]:
    """
    Upgrade the tables; return the revision before and after.

    Safe to call from several processes at once: they take turns.
    """
    from alembic import command  # noqa: PLC0415

    with store.write() as connection:
        if store.is_postgresql:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7246931)")
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
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    known = {item.revision for item in ScriptDirectory.from_config(_config()).walk_revisions()}
    where = store.engine.url.render_as_string(hide_password=True)
    if found is None or found in known:
        state = "has no tables yet" if found is None else "is of an older version"
        raise StoreError(f"the store at {where} {state}; run: groundwatch migrate")
    raise StoreError(f"the store at {where} was made by a newer groundwatch; upgrade this one")


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


def file_problems(store: Store) -> list[str]:
    """
    Return what SQLite's own quick check finds wrong with the file; empty when it is whole.

    Reads the whole file, without its indexes. PostgreSQL checks its pages itself.
    """
    if store.is_postgresql:
        return []
    try:
        with store.read() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(10)").scalars().all()
    except StoreUnavailableError as error:
        return [str(error)]
    return [] if found == ["ok"] else [str(line) for line in found]


def copy_to(store: Store, path: Path) -> None:
    """
    Write a whole copy of a SQLite database to *path* while others write to the original.

    Raises
    ------
    SettingsError
        If *path* exists, cannot be written, or this is PostgreSQL, which has pg_dump.
    StoreUnavailableError
        If the copy is not whole; nothing is left at *path* then.
    """
    if store.is_postgresql:
        raise SettingsError("this copies SQLite only; for PostgreSQL use pg_dump --format=custom")
    if path.exists():
        raise SettingsError(f"{path} exists already; name a new file")
    part = path.with_name(f".{path.name}.part")
    try:
        part.touch(mode=0o600)
        with closing(sqlite3.connect(part)) as copy:
            with closing(store.engine.raw_connection()) as original:
                driver: Any = original.driver_connection
                driver.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            problems = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problems != "ok":
            raise StoreUnavailableError(f"the copy is not whole: {problems}")
        part.rename(path)
    except (OSError, sqlite3.Error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingsError(f"cannot write {path}: {why}") from None
    finally:
        part.unlink(missing_ok=True)
