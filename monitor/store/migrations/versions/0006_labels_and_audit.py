"""
What people say of evaluations, and who did and saw what.

Revision ID: 0006
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import BigInt

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of the page."""
    op.create_table(
        "groundwatch_labels",
        sa.Column("sample_id", sa.String(64), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column("labelled_by", sa.String(200), nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("judge_passed", sa.SmallInteger(), nullable=False),
        sa.Column("human_passed", sa.SmallInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False, server_default=""),
        sa.Column("labelled_at_ms", BigInt, nullable=False),
        sa.PrimaryKeyConstraint(
            "sample_id", "metric", "evaluator_version", "labelled_by",
            name=op.f("pk_groundwatch_labels"),
        ),
    )  # fmt: skip
    op.create_index("ix_groundwatch_labels_app_metric", "groundwatch_labels", ["app", "metric"])
    op.create_table(
        "groundwatch_audit",
        sa.Column("audit_id", BigInt, autoincrement=True, nullable=False),
        sa.Column("at_ms", BigInt, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("act", sa.String(50), nullable=False),
        sa.Column("target", sa.String(400), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_groundwatch_audit")),
    )
    op.create_index("ix_groundwatch_audit_at", "groundwatch_audit", ["at_ms"])


def downgrade() -> None:
    """Take them away."""
    op.drop_table("groundwatch_audit")
    op.drop_table("groundwatch_labels")
