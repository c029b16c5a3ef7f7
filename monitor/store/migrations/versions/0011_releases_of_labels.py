"""
Labels note the release they hold for, and whether their sample was drawn at random.

Labels of before came from the page of a sample, which somebody had chosen. Their release is that
of their sample, where it is still there.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add two columns, and read the release of each label from its sample."""
    for column in (
        sa.Column("release", sa.String(200), nullable=False, server_default=""),
        sa.Column("drawn", sa.SmallInteger, nullable=False, server_default="0"),
    ):
        op.add_column("groundwatch_labels", column)
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    release = (
        "payload #>> '{interaction,release}'"
        if is_postgresql
        else "json_extract(payload, '$.interaction.release')"
    )
    op.execute(
        "UPDATE groundwatch_labels SET release = COALESCE((SELECT"  # noqa: S608  # ours
        f" substr({release}, 1, 200) FROM groundwatch_samples s"
        " WHERE s.sample_id = groundwatch_labels.sample_id), '')"
    )


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("groundwatch_labels", "drawn")
    op.drop_column("groundwatch_labels", "release")
