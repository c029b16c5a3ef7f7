"""
Tokens of the page and the API, by their hashes.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TOKENS = "groundwatch_tokens"


def upgrade() -> None:
    """Make the table."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.create_table(
        _TOKENS,
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("apps", json, nullable=False),
        sa.Column("scopes", json, nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("created_at_ms", whole, nullable=False),
        sa.Column("expires_at_ms", whole),
        sa.Column("revoked_at_ms", whole),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f(f"pk_{_TOKENS}")),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table(_TOKENS)
