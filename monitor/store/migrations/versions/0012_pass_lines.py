"""
Pass lines that belong to an app: the first scores from which they are learnt.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import Json

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; lines are learnt from the scores that come."""
    op.create_table(
        "groundwatch_pass_lines",
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("bins", Json, nullable=False),
        sa.Column("line", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint(
            "app", "metric", "evaluator_version", name=op.f("pk_groundwatch_pass_lines")
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Take it away; lines are learnt anew."""
    op.drop_table("groundwatch_pass_lines")
