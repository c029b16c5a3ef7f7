"""
Digests that were made, and an outbox that carries them as well as news of incidents.

Revision ID: 0008
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0006"
branch_labels = None
depends_on = None

_FOREIGN_KEY = "fk_groundwatch_outbox_incident_id"


def upgrade() -> None:
    """Make the table; what is in the outbox need not be about an incident any more."""
    op.create_table(
        "groundwatch_digests",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_groundwatch_digests")),
    )
    with op.batch_alter_table("groundwatch_outbox") as batch:
        batch.drop_constraint(op.f(_FOREIGN_KEY), type_="foreignkey")


def downgrade() -> None:
    """Take it away, and the messages that are about no incident with it."""
    op.execute("DELETE FROM groundwatch_outbox WHERE event = 'digest'")
    with op.batch_alter_table("groundwatch_outbox") as batch:
        batch.create_foreign_key(
            op.f(_FOREIGN_KEY), "groundwatch_incidents", ["incident_id"], ["incident_id"]
        )
    op.drop_table("groundwatch_digests")
