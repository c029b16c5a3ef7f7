"""
The session of each sample, by which the turns of a conversation are joined.

Samples of before have no session here: reading it from each of them would rewrite the table.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_SAMPLES, _INDEX = "groundwatch_samples", "ix_groundwatch_samples_session"


def upgrade() -> None:
    """Add the column and its index."""
    op.add_column(_SAMPLES, sa.Column("session_id", sa.String(200)))
    op.create_index(_INDEX, _SAMPLES, ["session_id"])


def downgrade() -> None:
    """Remove both."""
    op.drop_index(_INDEX, _SAMPLES)
    op.drop_column(_SAMPLES, "session_id")
