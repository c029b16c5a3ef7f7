"""
Sums for samples about which a judge was asked with a known probability.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import BigInt

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COUNTS = ("judged", "agreed", "late")
_SUMS = ("sum_w2yy", "sum_wxx")


def upgrade() -> None:
    """Add the sums. So far a pass was 0 or 1, its own square, and a bucket had one sample rate."""
    for name in _COUNTS:
        op.add_column(
            "groundwatch_buckets", sa.Column(name, BigInt, nullable=False, server_default="0")
        )
    for name in _SUMS:
        op.add_column(
            "groundwatch_buckets", sa.Column(name, sa.Float(), nullable=False, server_default="0")
        )
    op.execute(
        "UPDATE groundwatch_buckets SET sum_w2yy = sum_w2y,"
        " sum_wxx = CASE WHEN n > 0 THEN sum_x2 * sum_w / n ELSE 0 END"
    )


def downgrade() -> None:
    """Take the sums away."""
    for name in (*_COUNTS, *_SUMS):
        op.drop_column("groundwatch_buckets", name)
