"""
Samples are packed with the records of their evaluations; SQLite's index keeps no second copy.

Rows that are there stay as they are and are read as before. On PostgreSQL their columns become
bytes, which rewrites both tables once; on SQLite a column takes any value. SQLite's index of
samples is made anew without the texts, by upkeep, the newest samples first.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_TERMS = "groundwatch_sample_terms"
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Add columns for what is searched by, and fill them; then free the packed ones of JSON."""
    samples = sa.table(
        "groundwatch_samples", sa.column("payload", _JSON), sa.column("release"),
        sa.column("position"),
    )  # fmt: skip
    evaluations = sa.table(
        "groundwatch_evaluations", sa.column("record", _JSON), sa.column("reason", sa.Text),
        sa.column("judged"), sa.column("status"),
    )  # fmt: skip
    op.add_column("groundwatch_samples", sa.Column("release", sa.String(200)))
    op.add_column(
        "groundwatch_evaluations",
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
    )
    op.add_column("groundwatch_evaluations", sa.Column("judged", sa.SmallInteger))
    release = samples.c.payload[("interaction", "release")].as_string()
    op.execute(
        samples.update().where(release.is_not(None)).values(release=sa.func.substr(release, 1, 200))
    )
    record, failed = evaluations.c.record, evaluations.c.status == "failed"
    code = record[("error", "code")].as_string()
    why = sa.case((failed, code), else_=record[("metadata", "reason")].as_string())
    op.execute(evaluations.update().where(why.is_not(None)).values(reason=why))
    judged = record[("metadata", "judged")].as_boolean()
    known = evaluations.update().where(judged.is_not(None))
    op.execute(known.values(judged=sa.case((judged, 1), else_=0)))
    if op.get_bind().dialect.name == "postgresql":
        for table, column in (("samples", "payload"), ("evaluations", "record")):
            op.execute(
                f"ALTER TABLE groundwatch_{table} ALTER COLUMN {column} TYPE bytea"
                f" USING convert_to({column}::text, 'UTF8')"
            )
        # It is compressed already, and shorter than half a page: let it be, in the row.
        op.execute("ALTER TABLE groundwatch_samples ALTER COLUMN payload SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE groundwatch_samples SET (toast_tuple_target = 4096)")
        return
    op.execute(f"DROP TABLE {_TERMS}")
    op.execute(f"CREATE VIRTUAL TABLE {_TERMS} USING fts5(facets, words, content='', columnsize=0)")
    op.execute(samples.update().where(samples.c.position.is_not(None)).values(position=None))


def downgrade() -> None:
    """Raise: programs of before cannot read what was packed since."""
    raise NotImplementedError("packed samples cannot be read by older versions; restore a backup")
