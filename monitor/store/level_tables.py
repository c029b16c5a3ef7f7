"""The tables of long memory: the buckets again, summed to hours and to days."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, DefaultClause, String, Table

from monitor.store.base import BigInt, metadata
from monitor.store.tables import bucket_bins, buckets


def _like(source: Table, name: str) -> Table:
    """Make a table with the columns of another one: one row shape at all levels."""
    columns = [
        Column(
            column.name,
            column.type,
            primary_key=column.primary_key,
            autoincrement=False,
            nullable=column.nullable,
            server_default=column.server_default.arg if _has_default(column) else None,  # type: ignore[union-attr]
        )
        for column in source.columns
    ]
    return Table(name, metadata, *columns, sqlite_with_rowid=False)


def _has_default(column: Column[Any]) -> bool:
    return isinstance(column.server_default, DefaultClause)


hour_buckets = _like(buckets, "groundwatch_hour_buckets")
hour_bins = _like(bucket_bins, "groundwatch_hour_bins")
day_buckets = _like(buckets, "groundwatch_day_buckets")
day_bins = _like(bucket_bins, "groundwatch_day_bins")

#: Up to when a level holds everything, and from when it still does; epoch seconds.
levels = Table(
    "groundwatch_levels",
    metadata,
    Column("level", String(16), primary_key=True),
    Column("complete_to_s", BigInt, nullable=False),
    Column("kept_from_s", BigInt, nullable=False),
)
