"""
Apps that share an evaluator are remembered together: they may fall together.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.create_table(
        "groundwatch_pools",
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column(
            "updated_at_ms",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
        ),
        sa.Column("state", json, nullable=False),
        sa.Column("fall", json, nullable=True),
        sa.PrimaryKeyConstraint("metric", "evaluator_version", name=op.f("pk_groundwatch_pools")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_table("groundwatch_pools")
