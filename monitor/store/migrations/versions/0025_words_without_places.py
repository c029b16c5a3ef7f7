"""
PostgreSQL's index of samples keeps the words of a sample without their places, a third of it.

Phrases are compared with the sample itself. The table is copied and its indexes are made again,
in a minute or two a million samples. Every row stays.

Revision ID: 0025
Revises: 0024
"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_TERMS = "groundwatch_sample_terms"


def upgrade() -> None:
    """Copy PostgreSQL's index without the places of words."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(f"ALTER TABLE {_TERMS} RENAME TO {_TERMS}_before")
    op.execute(
        f"CREATE TABLE {_TERMS} AS SELECT position, facets, strip(words) AS words"  # noqa: S608
        f" FROM {_TERMS}_before ORDER BY position"
    )
    op.execute(f"DROP TABLE {_TERMS}_before")
    for column in ("facets", "words"):
        op.execute(f"ALTER TABLE {_TERMS} ALTER COLUMN {column} SET NOT NULL")
    op.create_primary_key(f"{_TERMS}_pkey", _TERMS, ["position"])
    op.execute(f"CREATE INDEX ix_{_TERMS}_release ON {_TERMS} ((facets[1]), position)")
    op.execute(
        f"CREATE INDEX ix_{_TERMS}_found ON {_TERMS}"
        " USING gin ((facets || (position >> 44)), words)"
    )


def downgrade() -> None:
    """Raise: programs of before look for phrases in the index."""
    raise NotImplementedError("the index lost the places of words; restore a backup")
