"""
Proofs of detection objectives.

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_PROOFS = "groundwatch_proofs"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        _PROOFS,
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column(
            "made_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("proof", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("app", "metric", name=op.f(f"pk_{_PROOFS}")),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table(_PROOFS)
