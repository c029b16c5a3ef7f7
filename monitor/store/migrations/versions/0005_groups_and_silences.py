"""
Alerts told together, silences, acknowledgement, fallback channels and rates.

Revision ID: 0005
Revises: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_COLUMNS: dict[str, list[tuple[str, Any]]] = {
    "groundwatch_incidents": [("group_id", sa.String(32)), ("hushed_by", sa.String(64))],
    "groundwatch_outbox": [("fallback", sa.String(100)), ("remote_ref", sa.String(300))],
    "groundwatch_alert_channels": [("tokens", sa.Float()), ("tokens_at", _TIME)],
}


def upgrade() -> None:
    """Add tables and columns; an incident that is open becomes a group of its own."""
    _make_groups()
    _make_silences()
    for table, columns in _COLUMNS.items():
        for name, kind in columns:
            op.add_column(table, sa.Column(name, kind))
    op.create_index("ix_groundwatch_incidents_group_id", "groundwatch_incidents", ["group_id"])
    op.create_index("ix_groundwatch_outbox_finished_at", "groundwatch_outbox", ["finished_at"])
    op.execute("UPDATE groundwatch_incidents SET group_id = incident_id")
    op.execute(
        "INSERT INTO groundwatch_alert_groups"
        " (group_id, app, opened_at, level, told_at, sequence, flapping)"
        " SELECT incident_id, app, opened_at, level, updated_at, sequence, '[]'"
        " FROM groundwatch_incidents WHERE resolved_at IS NULL"
    )


def downgrade() -> None:
    """Take them away again."""
    op.drop_index("ix_groundwatch_incidents_group_id", "groundwatch_incidents")
    op.drop_index("ix_groundwatch_outbox_finished_at", "groundwatch_outbox")
    for table, columns in _COLUMNS.items():
        for name, _ in columns:
            op.drop_column(table, name)
    op.drop_table("groundwatch_silences")
    op.drop_table("groundwatch_alert_groups")


def _make_groups() -> None:
    op.create_table(
        "groundwatch_alert_groups",
        sa.Column("group_id", sa.String(32), primary_key=True),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("cause", sa.String(300)),
        sa.Column("opened_at", _TIME, nullable=False),
        sa.Column("resolved_at", _TIME),
        sa.Column("level", sa.String(20)),
        sa.Column("told_at", _TIME),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("flapping", _JSON, nullable=False),
        sa.Column("acked_until", _TIME),
        sa.Column("acked_at", _TIME),
        sa.Column("acked_by", sa.String(200)),
        sa.Column("ack_note", sa.String(500)),
    )
    op.create_index(
        "ix_groundwatch_alert_groups_resolved_at", "groundwatch_alert_groups", ["resolved_at"]
    )


def _make_silences() -> None:
    op.create_table(
        "groundwatch_silences",
        sa.Column("silence_id", sa.String(32), primary_key=True),
        sa.Column("matchers", _JSON, nullable=False),
        sa.Column("starts_at", _TIME, nullable=False),
        sa.Column("ends_at", _TIME, nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("comment", sa.String(1000), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
    )
    op.create_index("ix_groundwatch_silences_ends_at", "groundwatch_silences", ["ends_at"])
