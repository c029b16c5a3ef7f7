"""
Samples are packed with their segments, by a dictionary that knows how frequent bytes are.

Rows that are there stay as they are and are read as before; no table changes. The revision keeps
programs of before away from rows that they cannot read.

Revision ID: 0024
Revises: 0023
"""

from __future__ import annotations

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""


def downgrade() -> None:
    """Raise: programs of before cannot read what was packed since."""
    raise NotImplementedError("packed samples cannot be read by older versions; restore a backup")
