"""
One door to SQLite and PostgreSQL: connections, transactions, upserts and leases.

`Store` opens transactions that read or write; `insert_new`, `add` and `put` are the inserts that
are safe to repeat; `acquire` takes a lease, and `fence` makes a transaction depend on it.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic_core import PydanticSerializationError, to_json
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
    any_,
    bindparam,
    case,
    cast,
    column,
    create_engine,
    event,
    func,
    select,
    text,
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
from sqlalchemy.sql.elements import ColumnElement

from monitor.errors import LeaseLostError, RowRefusedError, SettingsError, StoreUnavailableError
from monitor.store.columns import EpochTime, PackedColumn, epoch_ms
from monitor.store.tables import leases

Row = Mapping[str, Any]
_Bytes = LargeBinary | PackedColumn

_SQLITE_BUSY_TIMEOUT_S = 30.0
#: Of a new file, before the journal mode; on another one the second would wait for every writer.
_NEW_SQLITE_PRAGMAS = (
    # A packed sample takes some 2 kB, and of pages of 4 kB half would stay empty.
    "PRAGMA page_size=8192",
    "PRAGMA auto_vacuum=INCREMENTAL",
)
_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # An alert that was decided must survive a power cut: 2 ms a commit buys that.
    "PRAGMA synchronous=FULL",
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
            why = str(error.orig).strip().partition("\n")[0]  # libpq goes on with a question
            full = "is full" in why or "No space" in why  # SQLite's words, and PostgreSQL's
            advice = "make room on its disk" if full else "check GROUNDWATCH_DATABASE_URL"
            raise StoreUnavailableError(
                f"the database at {where} cannot be used: {why}; {advice}"
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


def plain_json(rows: Sequence[Row]) -> str:
    """Return the same as `compact_json`, faster, for rows of numbers and texts only."""
    try:
        return to_json(rows, inf_nan_mode="constants").decode()
    except PydanticSerializationError:  # half of a surrogate pair
        return compact_json(rows)


def _prepare_sqlite(engine: Engine) -> None:
    file = Path(engine.url.database) if engine.url.database else None
    if file is not None:
        # Transcripts are private.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read_only() -> bool:
        return file is not None and file.exists() and not os.access(file, os.W_OK)

    @event.listens_for(engine, "do_connect")
    def open_file(_dialect: Any, _record: Any, args: Any, options: Any) -> None:
        options["timeout"] = _SQLITE_BUSY_TIMEOUT_S
        if file is not None and read_only():
            # Without a log beside it nothing can be missing from the file, and none can be made.
            whole = not file.with_name(f"{file.name}-wal").exists()
            args[0] = f"file:{quote(str(file))}?mode=ro" + ("&immutable=1" if whole else "")
            options["uri"] = True

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        if read_only():
            return
        is_new = connection.execute("PRAGMA page_count").fetchone()[0] == 0
        for pragma in (*(_NEW_SQLITE_PRAGMAS if is_new else ()), *_SQLITE_PRAGMAS):
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


def among(
    connection: Connection, column: Column[Any], values: Iterable[Any]
) -> ColumnElement[bool]:
    """Return the condition that a column has one of *values*."""
    if connection.dialect.name == "sqlite":
        return column.in_(list(values))
    # One parameter: a list of hundreds costs the driver more than finding its rows.
    return column == any_(bindparam(None, list(values), type_=postgresql.ARRAY(column.type)))


def rows_of(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query by the keys of their columns."""
    keys = query.selected_columns.keys()
    return [dict(zip(keys, row, strict=True)) for row in connection.execute(query)]


def insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, none of which is there."""
    _write(connection, table, rows)


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Row], *, returning: Column[Any],
    key: tuple[str, ...] = (),
) -> set[Any]:  # fmt: skip
    """
    Insert the rows that are not there yet; return the values of *returning* of those.

    There is what has the same *key*, by default any of those that are unique.
    """
    found = _write(connection, table, rows, skip=True, key=key, returning=(returning,))
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
        plain = _fits_json(table, (Integer, Float, String))
        given = {"rows": plain_json(given) if plain else compact_json(given)}
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
        statement = statement.on_conflict_do_nothing(index_elements=key or None)
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
def _fits_json(
    table: Table,
    kinds: tuple[Any, ...] = (Integer, Float, String, JSON, EpochTime, LargeBinary, PackedColumn),
) -> bool:
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


# --- a lease: at most one scheduler at work, without a lock service ---


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act, until it expires; the token grows with each new owner."""

    name: str
    owner: str
    token: int


def process_name(pid: int) -> str:
    """Return how the names of a process' leases on this host begin."""
    return f"{socket.gethostname()}-{pid}-"


def new_owner() -> str:
    """Return a name for this process that no other has."""
    return f"{process_name(os.getpid())}{uuid.uuid4().hex[:8]}"


def acquire(store: Store, name: str, owner: str, *, ttl_s: float) -> Lease | None:
    """
    Take the lease, or keep it, for *ttl_s* seconds of the database's clock.

    Returns None while another owner holds it. Clocks of hosts do not matter. A lease for longer
    than twice *ttl_s* is of a time before the database's clock was set back, and free.
    """
    with store.write() as connection:
        now_s = database_time(connection)
        row = {"name": name, "owner": "", "token": 0, "expires_at_s": 0.0}
        insert_new(connection, leases, [row], returning=leases.c.name)
        mine, end_s = leases.c.owner == owner, leases.c.expires_at_s
        token = connection.execute(
            leases.update()
            .where((leases.c.name == name) & (mine | ~end_s.between(now_s, now_s + 2 * ttl_s)))
            .values(
                owner=owner,
                token=case((mine, leases.c.token), else_=leases.c.token + 1),
                expires_at_s=now_s + ttl_s,
            )
            .returning(leases.c.token)
        ).scalar()
    return None if token is None else Lease(name, owner, int(token))


def release(store: Store, lease: Lease) -> None:
    """Give the lease back, so that no process has to wait for it to expire."""
    with store.write() as connection:
        connection.execute(leases.update().where(_held(lease)).values(expires_at_s=0.0, owner=""))


def fence(connection: Connection, lease: Lease) -> None:
    """
    Make the transaction depend on the lease: first statement of everything written under it.

    Raises
    ------
    LeaseLostError
        If another owner has it now, as after a long pause of this process.
    """
    # An update, not a select: on PostgreSQL it also locks out a takeover until the commit.
    held = connection.execute(leases.update().where(_held(lease)).values(token=lease.token))
    if held.rowcount != 1:
        raise LeaseLostError(f"the lease {lease.name!r} went to another process; nothing written")


def _held(lease: Lease) -> ColumnElement[bool]:
    return (
        (leases.c.name == lease.name)
        & (leases.c.owner == lease.owner)
        & (leases.c.token == lease.token)
    )


def database_time(connection: Connection) -> float:
    """Return the time in epoch seconds by the database's clock, which all hosts share."""
    if connection.dialect.name == "postgresql":
        sql = text("SELECT extract(epoch FROM clock_timestamp())")
    else:
        sql = text("SELECT (julianday('now') - 2440587.5) * 86400.0")
    return float(connection.execute(sql).scalar_one())


def database_now(connection: Connection) -> datetime:
    """Return the time by the database's clock."""
    return datetime.fromtimestamp(database_time(connection), UTC)


def current_owner(connection: Connection, name: str) -> str | None:
    """Return who holds the lease right now; None when it is free or has expired."""
    held = leases.c.expires_at_s >= database_time(connection)
    return connection.execute(select(leases.c.owner).where((leases.c.name == name) & held)).scalar()
