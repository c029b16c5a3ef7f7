"""
What users said of answers, and the trace of each sample, which joins the two.

Samples of before have no trace here: reading it from each of them would rewrite the table.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_FEEDBACK, _SAMPLES = "groundwatch_feedback", "groundwatch_samples"


def upgrade() -> None:
    """Add the table and the column."""
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        _FEEDBACK,
        sa.Column("feedback_id", sa.String(64), nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("trace_id", sa.String(200), nullable=False),
        sa.Column("good", sa.SmallInteger, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("given_at_ms", whole, nullable=False),
        sa.Column("received_at_ms", whole, nullable=False),
        sa.PrimaryKeyConstraint("feedback_id", name=op.f("pk_groundwatch_feedback")),
    )
    op.create_index("ix_groundwatch_feedback_trace", _FEEDBACK, ["trace_id"])
    op.create_index("ix_groundwatch_feedback_app_received", _FEEDBACK, ["app", "received_at_ms"])
    op.create_index("ix_groundwatch_feedback_received", _FEEDBACK, ["received_at_ms"])
    op.add_column(_SAMPLES, sa.Column("trace_id", sa.String(200)))
    op.create_index("ix_groundwatch_samples_trace", _SAMPLES, ["trace_id"])


def downgrade() -> None:
    """Remove both."""
    op.drop_index("ix_groundwatch_samples_trace", _SAMPLES)
    op.drop_column(_SAMPLES, "trace_id")
    op.drop_table(_FEEDBACK)
