"""
Make the index by which samples are found; older samples are put into it by upkeep.

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_TERMS = "groundwatch_sample_terms"


def upgrade() -> None:
    """Add positions to samples, and the index."""
    integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("groundwatch_samples", sa.Column("position", integer))
    op.create_index("ix_groundwatch_samples_position", "groundwatch_samples", ["position"])
    missing = sa.text("position IS NULL")
    op.create_index(
        "ix_groundwatch_samples_unplaced",
        "groundwatch_samples",
        ["sample_id"],
        sqlite_where=missing,
        postgresql_where=missing,
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"CREATE VIRTUAL TABLE {_TERMS} USING fts5(facets, words, columnsize=0)")
        return
    op.execute(
        f"CREATE TABLE {_TERMS} (sample_id VARCHAR(64) PRIMARY KEY, position BIGINT NOT NULL,"
        " facets BIGINT[] NOT NULL, words TSVECTOR NOT NULL)"
    )
    op.execute(f"CREATE INDEX ix_{_TERMS}_position ON {_TERMS} (position)")
    op.execute(f"CREATE INDEX ix_{_TERMS}_release ON {_TERMS} ((facets[1]), position)")
    op.execute(f"CREATE INDEX ix_{_TERMS}_facets ON {_TERMS} USING gin (facets)")
    op.execute(f"CREATE INDEX ix_{_TERMS}_words ON {_TERMS} USING gin (words)")


def downgrade() -> None:
    """Remove them."""
    op.execute(f"DROP TABLE {_TERMS}")
    op.drop_index("ix_groundwatch_samples_unplaced", "groundwatch_samples")
    op.drop_index("ix_groundwatch_samples_position", "groundwatch_samples")
    op.drop_column("groundwatch_samples", "position")
