"""
Samples are packed with their segments, and found on PostgreSQL by one index that knows their time.

Rows that are there stay as they are and are read as before, but programs of before cannot read new
ones. PostgreSQL makes the index in a minute or two a million samples.

Revision ID: 0024
Revises: 0023
"""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_TERMS = "groundwatch_sample_terms"


def upgrade() -> None:
    """Join PostgreSQL's indexes of facets and words."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE INDEX ix_{_TERMS}_found ON {_TERMS}"
            " USING gin ((facets || (position >> 44)), words)"
        )
        op.execute(f"DROP INDEX ix_{_TERMS}_facets")
        op.execute(f"DROP INDEX ix_{_TERMS}_words")


def downgrade() -> None:
    """Raise: programs of before cannot read what was packed since."""
    raise NotImplementedError("packed samples cannot be read by older versions; restore a backup")
