"""
The sample rates that hooks were asked for.

Revision ID: 0021
Revises: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_RATES = "groundwatch_sample_rates"


def upgrade() -> None:
    """Make the table."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        _RATES,
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("since_ms", whole, nullable=False),
        sa.Column("until_ms", whole, nullable=False),
        sa.Column("rate", sa.Float, nullable=False),
        sa.Column("own", sa.Float, nullable=False),
        sa.Column("reason", sa.String(100), nullable=False),
        sa.Column("set_by", sa.String(200), nullable=False),
        sa.Column("tuning", sa.JSON().with_variant(JSONB(), "postgresql")),
        sa.PrimaryKeyConstraint("app", "since_ms", name=op.f(f"pk_{_RATES}")),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table(_RATES)
