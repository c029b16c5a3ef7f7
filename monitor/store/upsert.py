"""Inserts that are safe to repeat, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Row = Mapping[str, Any]


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Row], *, returning: Column[Any]
) -> set[Any]:
    """Insert the rows that are not there yet; tell which ones those were."""
    if not rows:
        return set()
    statement = _insert(connection, table).on_conflict_do_nothing().returning(returning)
    return set(connection.execute(statement, list(rows)).scalars())


def add(connection: Connection, table: Table, rows: Iterable[Row], *, sums: Sequence[str]) -> None:
    """
    Add to the columns *sums* of existing rows, or insert the rows.

    Rows are written in the order of their keys, so that two writers can never wait
    for each other in a circle.
    """
    keys = [column.name for column in table.primary_key]
    ordered = sorted(rows, key=lambda row: [row[key] for key in keys])
    if not ordered:
        return
    statement = _insert(connection, table)
    merged = {name: table.c[name] + statement.excluded[name] for name in sums}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=merged), ordered)


def put(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows, or replace what is there under the same key."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    statement = _insert(connection, table)
    new = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=new),
        sorted(rows, key=lambda row: [row[key] for key in keys]),
    )


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
