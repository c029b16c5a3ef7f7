"""
What the policy "anytime" remembers of a stream, and what a stream ever counted.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import BigInt, Json

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SUMS = ("sum_w", "sum_w2", "sum_wy")


def upgrade() -> None:
    """Add both. The sums begin at 0: only their differences are used."""
    op.create_table(
        "groundwatch_detectors",
        sa.Column("stream_id", BigInt, nullable=False, autoincrement=False),
        sa.Column("updated_at_ms", BigInt, nullable=False),
        sa.Column("state", Json, nullable=False),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_groundwatch_detectors")),
    )
    for name in _SUMS:
        op.add_column(
            "groundwatch_streams", sa.Column(name, sa.Float(), nullable=False, server_default="0")
        )


def downgrade() -> None:
    """Take both away."""
    for name in _SUMS:
        op.drop_column("groundwatch_streams", name)
    op.drop_table("groundwatch_detectors")
