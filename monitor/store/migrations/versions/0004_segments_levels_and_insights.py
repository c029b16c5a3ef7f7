"""
Segments, hours and days, inputs, deploys, drift and insights.

Revision ID: 0004
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import BigInt, Json

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COUNTS = ("n", "passed", "failed", "skipped")
_LATER_COUNTS = ("judged", "agreed", "late")
_SUMS = ("sum_w", "sum_w2", "sum_wy", "sum_w2y", "sum_w2yy", "sum_x", "sum_x2", "sum_wx", "sum_wxx")
_LATER_SUMS = ("sum_w2yy", "sum_wxx")


def upgrade() -> None:
    """Add the tables, and to each sample the segments it was counted in."""
    op.add_column(
        "groundwatch_samples", sa.Column("segments", Json, nullable=False, server_default="[]")
    )
    for level in ("hour", "day"):
        _make_level(level)
    op.create_table(
        "groundwatch_levels",
        sa.Column("level", sa.String(16), nullable=False),
        sa.Column("complete_to_s", BigInt, nullable=False),
        sa.Column("kept_from_s", BigInt, nullable=False),
        sa.PrimaryKeyConstraint("level", name="pk_groundwatch_levels"),
    )
    _make_dimensions()
    _make_marks()
    _make_drift()


def downgrade() -> None:
    """Take the tables away."""
    for name in ("insights", "drift_findings", "drift_states", "marks", "input_bins", "dimensions"):
        op.drop_table(f"groundwatch_{name}")
    op.drop_table("groundwatch_levels")
    for level in ("hour", "day"):
        op.drop_table(f"groundwatch_{level}_bins")
        op.drop_table(f"groundwatch_{level}_buckets")
    op.drop_column("groundwatch_samples", "segments")


def _make_level(level: str) -> None:
    buckets, bins = f"groundwatch_{level}_buckets", f"groundwatch_{level}_bins"
    op.create_table(
        buckets,
        *_keys(),
        *(sa.Column(name, BigInt, nullable=False) for name in _COUNTS),
        *(sa.Column(n, BigInt, nullable=False, server_default="0") for n in _LATER_COUNTS),
        *(
            sa.Column(
                name,
                sa.Float(),
                nullable=False,
                server_default="0" if name in _LATER_SUMS else None,
            )
            for name in _SUMS
        ),
        sa.Column("cost_microusd", BigInt, nullable=False),
        sa.PrimaryKeyConstraint("stream_id", "start_s", name=f"pk_{buckets}"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        bins,
        *_keys(),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("count", BigInt, nullable=False),
        sa.PrimaryKeyConstraint("stream_id", "start_s", "bin", name=f"pk_{bins}"),
        sqlite_with_rowid=False,
    )


def _keys() -> list[sa.Column[int]]:
    names = ("stream_id", "start_s")
    return [sa.Column(name, BigInt, autoincrement=False, nullable=False) for name in names]


def _make_dimensions() -> None:
    op.create_table(
        "groundwatch_dimensions",
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("dimension", sa.String(60), nullable=False),
        sa.Column("census", Json, nullable=False),
        sa.PrimaryKeyConstraint("app", "dimension", name="pk_groundwatch_dimensions"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "groundwatch_input_bins",
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("start_s", BigInt, autoincrement=False, nullable=False),
        sa.Column("feature", sa.String(32), nullable=False),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("count", BigInt, nullable=False),
        sa.PrimaryKeyConstraint(
            "app", "start_s", "feature", "bin", name="pk_groundwatch_input_bins"
        ),
        sqlite_with_rowid=False,
    )


def _make_marks() -> None:
    op.create_table(
        "groundwatch_marks",
        sa.Column("mark_id", BigInt, autoincrement=True, nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("release", sa.String(200), nullable=False),
        sa.Column("at_ms", BigInt, nullable=False),
        sa.Column("made_at_ms", BigInt, nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("mark_id", name="pk_groundwatch_marks"),
    )
    op.create_index("ix_groundwatch_marks_app_at", "groundwatch_marks", ["app", "at_ms"])


def _make_drift() -> None:
    op.create_table(
        "groundwatch_drift_states",
        sa.Column("stream_id", BigInt, autoincrement=False, nullable=False),
        sa.Column("state", Json, nullable=False),
        sa.PrimaryKeyConstraint("stream_id", name="pk_groundwatch_drift_states"),
    )
    op.create_table(
        "groundwatch_drift_findings",
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("segment", sa.String(200), nullable=False),
        sa.Column("test", sa.String(32), nullable=False),
        sa.Column("from_s", BigInt, autoincrement=False, nullable=False),
        sa.Column("found_at_ms", BigInt, nullable=False),
        sa.Column("finding", Json, nullable=False),
        sa.PrimaryKeyConstraint(
            "app", "metric", "segment", "test", "from_s", name="pk_groundwatch_drift_findings"
        ),
    )
    op.create_index(
        "ix_groundwatch_drift_findings_found", "groundwatch_drift_findings", ["found_at_ms"]
    )
    op.create_table(
        "groundwatch_insights",
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("made_at_ms", BigInt, nullable=False),
        sa.Column("insight", Json, nullable=False),
        sa.PrimaryKeyConstraint("app", "metric", name="pk_groundwatch_insights"),
    )
