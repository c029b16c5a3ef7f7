"""How Alembic reaches the database: through the connection it is handed."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import TypeDecorator

from monitor.store import alert_tables, tables
from monitor.store.tables import metadata

#: Importing them is what makes the metadata know them.
TABLES = (tables, alert_tables)


def _render(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Write a type of ours as the plain one under it: a revision must not change with our code."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl!r}"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="groundwatch_schema",
    # SQLite changes a table by copying it.
    render_as_batch=True,
    compare_type=True,
    render_item=_render,
)
with context.begin_transaction():
    context.run_migrations()
