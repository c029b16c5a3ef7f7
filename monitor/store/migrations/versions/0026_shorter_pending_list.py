"""
PostgreSQL's index of samples sorts in new ones after half a megabyte, not after four.

A search reads what is not sorted in yet, all of it. Rewrites nothing, but locks the index for an
instant, once the searches under way have ended.

Revision ID: 0026
Revises: 0025
"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_INDEX = "ix_groundwatch_sample_terms_found"


def upgrade() -> None:
    """Bound the list of what waits."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {_INDEX} SET (gin_pending_list_limit = 512)")


def downgrade() -> None:
    """Go back to the limit of the server."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {_INDEX} RESET (gin_pending_list_limit)")
