"""
Old samples judged again, and whether a judge moved.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_REJUDGED, _CHECKS = "groundwatch_rejudged", "groundwatch_judge_checks"
_KEY = ("metric", "evaluator_version")


def upgrade() -> None:
    """Make both tables."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        _REJUDGED,
        sa.Column("sample_id", sa.String(64), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("first_passed", sa.SmallInteger, nullable=False),
        sa.Column("second_passed", sa.SmallInteger, nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("at_ms", whole, nullable=False),
        sa.PrimaryKeyConstraint("sample_id", *_KEY, name=op.f(f"pk_{_REJUDGED}")),
    )
    op.create_index("ix_groundwatch_rejudged_at", _REJUDGED, ["at_ms"])
    op.create_table(
        _CHECKS,
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column("state", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("app", *_KEY, name=op.f(f"pk_{_CHECKS}")),
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_table(_CHECKS)
    op.drop_table(_REJUDGED)
