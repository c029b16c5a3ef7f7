"""How large the store is, and giving back what deleted rows leave free."""

from __future__ import annotations

import time
from contextlib import closing

from sqlalchemy import Connection, text

from monitor.store.engine import Store

_PAGES_AT_ONCE = 2_000
#: Less than this share of the file is left to what is written next.
_WORTH_IT = 0.05


def free_space(store: Store, *, end_s: float) -> int:
    """
    Give free pages of an SQLite file back, until *end_s* (monotonic); say how many.

    PostgreSQL does so by itself: autovacuum makes the space of deleted rows usable again.
    An SQLite file of an older version gives nothing back until it was vacuumed once.
    """
    if store.is_postgresql:
        return 0
    freed = 0
    with store.read() as connection:
        share = _pragma(connection, "freelist_count") / _pragma(connection, "page_count")
    if share < _WORTH_IT:
        return 0
    while time.monotonic() < end_s:
        before = _free_pages(store)
        with closing(store.engine.raw_connection()) as borrowed:
            # Not by execute(), which takes one step, and a step frees one page.
            script = f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})"
            borrowed.driver_connection.executescript(script)  # type: ignore[union-attr]
        left = _free_pages(store)
        freed += before - left
        if left in (0, before):
            break
    return freed


def _free_pages(store: Store) -> int:
    with store.read() as connection:
        return _pragma(connection, "freelist_count")


def size_bytes(connection: Connection) -> int:
    """Tell how large the store is on disk, without its log."""
    if connection.dialect.name == "postgresql":
        query = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(query).scalar_one())
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
