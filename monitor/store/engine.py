"""
One door to SQLite and PostgreSQL: connections, transactions, upserts and the schema's version.

`Store` opens transactions that read or write; `insert_new`, `add` and `put` are the
inserts that are safe to repeat; `migrate` and `check_schema` see to the tables.
"""

from __future__ import annotations

import json
import os
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    bindparam,
    cast,
    column,
    create_engine,
    event,
    func,
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
from monitor.store.columns import EpochTime, PackedColumn, epoch_ms

if TYPE_CHECKING:
    from alembic.config import Config

Row = Mapping[str, Any]
_Bytes = LargeBinary | PackedColumn

_VERSION_TABLE = "groundwatch_schema"
#: The revision of the tables that this program knows; a constant, so that a check costs nothing.
HEAD = "0023"
_SQLITE_PRAGMAS = (
    # These two before the journal mode, or they are ignored; an old file keeps what it has.
    # A packed sample takes some 2 kB, and of pages of 4 kB half would stay empty.
    "PRAGMA page_size=8192",
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
    time-out. Never hold a transaction while scoring or sending. An SQLite file that
    may not be written, as on a read-only file system, is opened for reading.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
            if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
                raise SettingsError(
                    f"GROUNDWATCH_DATABASE_URL: {parsed.get_backend_name()} is not supported;"
                    " use sqlite:///FILE or postgresql+psycopg://..."
                )
            if parsed.drivername in {"postgresql", "postgres"}:
                parsed = parsed.set(drivername="postgresql+psycopg")
            is_sqlite = parsed.get_backend_name() == "sqlite"
            engine = create_engine(
                parsed, pool_pre_ping=not is_sqlite, json_serializer=compact_json
            )
        except (ArgumentError, NoSuchModuleError):
            raise SettingsError(
                "GROUNDWATCH_DATABASE_URL: not a database address;"
                " use sqlite:///FILE or postgresql+psycopg://user:password@host/name"
            ) from None
        if is_sqlite:
            _prepare_sqlite(engine)
        self.engine = engine
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
        """
        Open a transaction that commits at the end of the block, or not at all.

        Raises
        ------
        RowRefusedError
            If the database refuses a value.
        StoreUnavailableError
            If the database cannot be used.
        """
        with self._translated(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction in which every read sees the same state; raises as `write` does."""
        with self._translated(), self._reader.begin() as connection:
            yield connection

    def check_reachable(self) -> None:
        """Raise StoreUnavailableError unless the database answers."""
        with self.read() as connection:
            connection.execute(select(1))

    def problems(self) -> list[str]:
        """
        Return what SQLite's own quick check finds wrong with the file; empty when it is whole.

        Reads the whole file, without its indexes. PostgreSQL checks its pages itself.
        """
        if self.is_postgresql:
            return []
        try:
            with self.read() as connection:
                found = connection.exec_driver_sql("PRAGMA quick_check(10)").scalars().all()
        except StoreUnavailableError as error:
            return [str(error)]
        return [] if found == ["ok"] else [str(line) for line in found]

    def copy_to(self, path: Path) -> None:
        """
        Write a whole copy of a SQLite database to *path* while others write to the original.

        Raises
        ------
        SettingsError
            If *path* exists, cannot be written, or this is PostgreSQL, which has pg_dump.
        StoreUnavailableError
            If the copy is not whole; nothing is left at *path* then.
        """
        if self.is_postgresql:
            raise SettingsError(
                "this copies SQLite only; for PostgreSQL use pg_dump --format=custom"
            )
        if path.exists():
            raise SettingsError(f"{path} exists already; name a new file")
        part = path.with_name(f".{path.name}.part")
        try:
            part.touch(mode=0o600)
            with closing(sqlite3.connect(part)) as copy:
                with closing(self.engine.raw_connection()) as original:
                    driver: Any = original.driver_connection
                    driver.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
                problems = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problems != "ok":
                raise StoreUnavailableError(f"the copy is not whole: {problems}")
            part.rename(path)
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(f"cannot write {path}: {error}") from None
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
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


def compact_json(value: Any) -> str:
    """
    Return JSON without spaces, in characters that every database takes.

    Bytes are in base64, times in epoch milliseconds.
    """
    text = json.dumps(
        value,
        separators=(",", ":"),
        ensure_ascii=False,
        default=lambda v: b64encode(v).decode() if isinstance(v, bytes) else epoch_ms(v),
    )
    # Half of a surrogate pair, which no database takes, becomes a question mark.
    return text.encode("utf-8", "replace").decode()


def _prepare_sqlite(engine: Engine) -> None:
    file = Path(engine.url.database) if engine.url.database else None
    if file is not None:
        # Transcripts are private.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read_only() -> bool:
        return file is not None and file.exists() and not os.access(file, os.W_OK)

    @event.listens_for(engine, "do_connect")
    def open_file(_dialect: Any, _record: Any, args: Any, options: Any) -> None:
        if file is not None and read_only():
            # Without a log beside it nothing can be missing from the file, and none can be made.
            whole = not file.with_name(f"{file.name}-wal").exists()
            args[0] = f"file:{quote(str(file))}?mode=ro" + ("&immutable=1" if whole else "")
            options["uri"] = True

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        for pragma in () if read_only() else _SQLITE_PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("groundwatch_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def batched(values: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of at most *size* values: databases bound the length of a list in a query."""
    every = list(values)
    for first in range(0, len(every), size):
        yield every[first : first + size]


def rows_of(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query by the keys of their columns."""
    keys = query.selected_columns.keys()
    return [dict(zip(keys, row, strict=True)) for row in connection.execute(query)]


def insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, none of which is there."""
    _write(connection, table, rows)


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Row], *, returning: Column[Any]
) -> set[Any]:
    """Insert the rows that are not there yet; return the values of *returning* of those."""
    found = _write(connection, table, rows, skip=True, returning=(returning,))
    return {row[0] for row in found}


def add(
    connection: Connection,
    table: Table,
    rows: Iterable[Row],
    *,
    sums: Sequence[str],
    latest: Sequence[str] = (),
    key: Sequence[str] = (),
    returning: Sequence[Column[Any]] = (),
) -> Sequence[Any]:
    """
    Add to the columns *sums* of existing rows, or insert the rows; return *returning* of all.

    Columns *latest* keep what is greater. Rows are written in the order of their *key*, the
    primary one unless it is named, so that two writers can never wait for each other in a circle.
    """
    key = tuple(key) or tuple(table.primary_key.columns.keys())
    ordered = sorted(rows, key=lambda row: [row[name] for name in key])
    return _write(
        connection, table, ordered, key=key, sums=tuple(sums), latest=tuple(latest),
        returning=tuple(returning),
    )  # fmt: skip


def put(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert the rows, or replace what is there under the same key; of two the later one stays."""
    key = tuple(table.primary_key.columns.keys())
    by_key = {tuple(row[name] for name in key): row for row in rows}
    _write(connection, table, [by_key[place] for place in sorted(by_key)], key=key)


def _write(
    connection: Connection, table: Table, rows: Sequence[Row], **conflict: Any
) -> Sequence[Any]:
    """Write rows; *conflict* says what becomes of one whose key is there, as for `_statement`."""
    if not rows:
        return []
    dialect = connection.dialect.name
    given: Any = list(rows)
    if dialect == "postgresql" and _fits_json(table):
        given = {"rows": compact_json(given)}
    statement = _statement(dialect, table, tuple(rows[0]), **conflict)
    found = connection.execute(statement, given)
    return found.all() if conflict.get("returning") else []


# Writing such a statement costs more than running it does, and there are few of them.
@lru_cache(maxsize=256)
def _statement(
    dialect: str,
    table: Table,
    names: tuple[str, ...],
    *,
    skip: bool = False,
    key: tuple[str, ...] = (),
    sums: tuple[str, ...] = (),
    latest: tuple[str, ...] = (),
    returning: tuple[Column[Any], ...] = (),
) -> Any:
    """Return an INSERT; a row whose *key* is there is skipped, summed or replaced."""
    statement: Any = (
        sqlite.insert(table) if dialect == "sqlite" else _insert_from_json(table, names)
    )
    if skip:
        statement = statement.on_conflict_do_nothing()
    elif key:
        new: dict[str, Any] = {}
        for name in (*sums, *latest) or names:
            old, come = table.c[name], statement.excluded[name]
            if name in sums:
                new[name] = old + come
            elif name in latest:
                new[name] = (func.max if dialect == "sqlite" else func.greatest)(old, come)
            elif name not in key:
                new[name] = come
        statement = statement.on_conflict_do_update(index_elements=key, set_=new)
    return statement.returning(*returning) if returning else statement


@lru_cache(maxsize=256)
def _fits_json(table: Table) -> bool:
    kinds = (Integer, Float, String, JSON, EpochTime, _Bytes)
    return all(isinstance(c.type, kinds) for c in table.columns)


def _insert_from_json(table: Table, names: tuple[str, ...]) -> postgresql.Insert:
    """
    Return an INSERT whose rows are one JSON array, where the columns allow it.

    A parameter for each value costs the driver more than all else that is done for a sample.
    """
    if not _fits_json(table):
        return postgresql.insert(table)
    kinds = {name: table.c[name].type for name in names}
    in_bytes = {name for name, kind in kinds.items() if isinstance(kind, _Bytes)}
    given = (
        func.jsonb_to_recordset(cast(bindparam("rows", type_=Text()), postgresql.JSONB))
        .table_valued(
            *(column(name, Text() if name in in_bytes else kind) for name, kind in kinds.items()),
            name="given",
        )
        .render_derived(with_types=True)
    )
    values = [
        func.decode(given.c[name], "base64") if name in in_bytes else given.c[name]
        for name in names
    ]
    return postgresql.insert(table).from_select([table.c[name] for name in names], select(*values))


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
