"""One door to SQLite and PostgreSQL: connections, and transactions that read or write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    String,
    Table,
    column,
    create_engine,
    event,
    inspect,
    select,
    table,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
)

from monitor.errors import RowRefusedError, SettingsError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from alembic.config import Config


_SQLITE_PRAGMAS = (
    # Before the journal mode, or it is ignored; a file that is there already keeps what it has.
    "PRAGMA auto_vacuum=INCREMENTAL",
    "PRAGMA journal_mode=WAL",
    # An alert that was decided must survive a power cut: 2 ms a commit buys that.
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=30000",
    "PRAGMA foreign_keys=ON",
    # SQLite's own default. A connection keeps what its cache ever took, the operating system has
    # the file in memory as well, and another process that writes empties it: 16 times as much made
    # no commit and no evaluation faster, in a file of 1.7 GB.
    "PRAGMA cache_size=-2000",
    "PRAGMA journal_size_limit=67108864",
)


class Store:
    """
    A database, lazily connected.

    A writing transaction on SQLite begins with BEGIN IMMEDIATE: one that reads
    first and writes later would fail with SQLITE_BUSY_SNAPSHOT whatever the
    time-out. Never hold a transaction while scoring or sending.
    """

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self._writer = self.engine.execution_options(groundwatch_write=True)
        # SQLite's readers see one state by themselves.
        self._reader = (
            self.engine.execution_options(isolation_level="REPEATABLE READ")
            if self.is_postgresql
            else self.engine
        )

    @property
    def is_postgresql(self) -> bool:
        """Whether the database is PostgreSQL rather than SQLite."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that commits at the end of the block, or not at all."""
        with self._reachable(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction in which every read sees the same state."""
        with self._reachable(), self._reader.begin() as connection:
            yield connection

    def check_reachable(self) -> None:
        """
        Look whether the database answers.

        Raises
        ------
        StoreUnavailableError
            If it does not.
        """
        with self.read() as connection:
            connection.execute(select(1))

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (DataError, IntegrityError) as error:
            raise RowRefusedError(
                f"the database refuses a value ({type(error.orig).__name__})"
            ) from None
        except DatabaseError as error:
            where = self.engine.url.render_as_string(hide_password=True)
            raise StoreUnavailableError(
                f"the database at {where} cannot be used: {error.orig};"
                " check GROUNDWATCH_DATABASE_URL"
            ) from error


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
            raise SettingsError(
                f"GROUNDWATCH_DATABASE_URL: {parsed.get_backend_name()} is not supported;"
                " use sqlite:///FILE or postgresql+psycopg://..."
            )
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(parsed, pool_pre_ping=parsed.get_backend_name() != "sqlite")
    except (ArgumentError, NoSuchModuleError):
        raise SettingsError(
            "GROUNDWATCH_DATABASE_URL: not a database address;"
            " use sqlite:///FILE or postgresql+psycopg://user:password@host/name"
        ) from None
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    return engine


def _prepare_sqlite(engine: Engine) -> None:
    if engine.url.database:
        # Transcripts are nobody else's business.
        Path(engine.url.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        for pragma in _SQLITE_PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("groundwatch_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# --- upsert ---
# Inserts that are safe to repeat, on SQLite and PostgreSQL alike.


Row = Mapping[str, Any]
Insert = sqlite.Insert | postgresql.Insert


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Row], *, returning: Column[Any]
) -> set[Any]:
    """Insert the rows that are not there yet; tell which ones those were."""
    if not rows:
        return set()
    statement = _insert(connection.dialect.name, table).on_conflict_do_nothing()
    return set(connection.execute(statement.returning(returning), list(rows)).scalars())


def add(connection: Connection, table: Table, rows: Iterable[Row], *, sums: Sequence[str]) -> None:
    """
    Add to the columns *sums* of existing rows, or insert the rows.

    Rows are written in the order of their keys, so that two writers can never wait
    for each other in a circle.
    """
    keys = _keys(table)
    ordered = sorted(rows, key=lambda row: [row[key] for key in keys])
    if not ordered:
        return
    connection.execute(_adding(connection.dialect.name, table, tuple(sums)), ordered)


def put(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows, or replace what is there under the same key."""
    if not rows:
        return
    keys = _keys(table)
    new = tuple(name for name in rows[0] if name not in keys)
    connection.execute(
        _replacing(connection.dialect.name, table, new),
        sorted(rows, key=lambda row: [row[key] for key in keys]),
    )


# Writing such a statement costs more than running it does, and there are few of them.
@lru_cache(maxsize=256)
def _adding(dialect: str, table: Table, sums: tuple[str, ...]) -> Insert:
    statement = _insert(dialect, table)
    merged = {name: table.c[name] + statement.excluded[name] for name in sums}
    return statement.on_conflict_do_update(index_elements=_keys(table), set_=merged)


@lru_cache(maxsize=256)
def _replacing(dialect: str, table: Table, new: tuple[str, ...]) -> Insert:
    statement = _insert(dialect, table)
    replaced = {name: statement.excluded[name] for name in new}
    return statement.on_conflict_do_update(index_elements=_keys(table), set_=replaced)


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _insert(dialect: str, table: Table) -> Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


# --- migrate ---
# Bring the tables of a store to the version this program needs.


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
