"""
Streams that are older than their sums get what they counted before: their books balance.

Revision 0003 let the sums of a stream begin at 0. What is missing is added to a sum and to
its past part alike, so that nobody takes it for news.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_SUMS = ("sum_w", "sum_w2", "sum_wy")
#: Sums of fractions differ by rounding, in proportion to their size.
_CRUMB = 1e-6


def upgrade() -> None:
    """Add what buckets, hours and days hold and the streams do not."""
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT level, complete_to_s FROM groundwatch_levels"))
    marks: dict[str, int] = {row.level: row.complete_to_s for row in rows}
    columns = ", ".join(_SUMS)
    pieces = " UNION ALL ".join(
        f"SELECT stream_id, {columns} FROM {table} WHERE start_s >= {from_s}"  # noqa: S608  # ours
        for table, from_s in (
            ("groundwatch_day_buckets", 0),
            ("groundwatch_hour_buckets", int(marks.get("day", 0))),
            ("groundwatch_buckets", int(marks.get("hour", 0))),
        )
    )
    totals = ", ".join(f"SUM(p.{name}) - s.{name} AS {name}" for name in _SUMS)
    grouped = ", ".join(f"s.{name}" for name in _SUMS)
    gaps = connection.execute(
        sa.text(
            f"SELECT s.stream_id, {totals}, SUM(p.sum_w) AS whole"  # noqa: S608  # ours
            f" FROM groundwatch_streams s JOIN ({pieces}) p ON p.stream_id = s.stream_id"
            f" GROUP BY s.stream_id, {grouped}"
        )
    ).mappings()
    missing = [dict(gap) for gap in gaps if gap["sum_w"] > _CRUMB * max(1.0, gap["whole"])]
    if missing:
        added = ", ".join(
            f"{column} = {column} + :{name}"
            for name in _SUMS
            for column in (name, name.replace("sum_", "past_"))
        )
        statement = f"UPDATE groundwatch_streams SET {added} WHERE stream_id = :stream_id"  # noqa: S608  # ours
        connection.execute(sa.text(statement), missing)


def downgrade() -> None:
    """Keep them: only their differences were used."""
