"""One door to SQLite and PostgreSQL: connections, and transactions that read or write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
)

from monitor.errors import RowRefusedError, SettingsError, StoreUnavailableError

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
