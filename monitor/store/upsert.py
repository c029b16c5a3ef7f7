"""Inserts that are safe to repeat, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

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
