"""
Indexes for what is read every second: the outbox's crowds, recent streams, hooks.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_INDEXES = (
    ("ix_groundwatch_outbox_finished", "groundwatch_outbox", ["status", "channel", "finished_at"]),
    ("ix_groundwatch_streams_last", "groundwatch_streams", ["last_bucket_s"]),
    ("ix_groundwatch_hooks_app", "groundwatch_hooks", ["app", "heartbeat_at_ms"]),
    ("ix_groundwatch_hooks_heartbeat", "groundwatch_hooks", ["heartbeat_at_ms"]),
)
_MERGED = ("ix_groundwatch_outbox_merged", "groundwatch_outbox")


def upgrade() -> None:
    """Make them."""
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns)
    merged = sa.text("merged_into IS NOT NULL")
    op.create_index(*_MERGED, ["merged_into"], sqlite_where=merged, postgresql_where=merged)


def downgrade() -> None:
    """Drop them."""
    for name, table, _ in _INDEXES:
        op.drop_index(name, table)
    op.drop_index(*_MERGED)
