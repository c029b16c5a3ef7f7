"""
What is no news of now, and entries set aside that can be tried again.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import BigInt

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_PAST = ("past_w", "past_w2", "past_wy")
_LETTERS = "groundwatch_dead_letters"


def upgrade() -> None:
    """Add the columns."""
    op.add_column(
        "groundwatch_streams", sa.Column("past_n", BigInt, nullable=False, server_default="0")
    )
    for name in _PAST:
        op.add_column(
            "groundwatch_streams", sa.Column(name, sa.Float(), nullable=False, server_default="0")
        )
    for column in (
        sa.Column("version", sa.String(20), nullable=False, server_default="1"),
        sa.Column("sample_id", sa.String(64)),
        sa.Column("state", sa.String(16), nullable=False, server_default="dead"),
    ):
        op.add_column(_LETTERS, column)
    op.create_index("ix_groundwatch_dead_letters_sample", _LETTERS, ["sample_id"], unique=True)
    op.create_index("ix_groundwatch_dead_letters_at", _LETTERS, ["at_ms"])
    op.create_index("ix_groundwatch_samples_received", "groundwatch_samples", ["received_at_ms"])


def downgrade() -> None:
    """Take them away."""
    op.drop_index("ix_groundwatch_samples_received", "groundwatch_samples")
    op.drop_index("ix_groundwatch_dead_letters_at", _LETTERS)
    op.drop_index("ix_groundwatch_dead_letters_sample", _LETTERS)
    for name in ("version", "sample_id", "state"):
        op.drop_column(_LETTERS, name)
    for name in ("past_n", *_PAST):
        op.drop_column("groundwatch_streams", name)
