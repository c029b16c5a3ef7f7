"""
Evaluations are known by sample, metric and version, and have no random id of their own.

On PostgreSQL the index of samples goes by their position alone, and traces and sessions are found
by hashes. Every row stays.

Revision ID: 0022
Revises: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_EVALUATIONS, _SAMPLES = "groundwatch_evaluations", "groundwatch_samples"
_TERMS = "groundwatch_sample_terms"
_WORST = f"ix_{_EVALUATIONS}_worst"
_KEY = ("sample_id", "metric", "evaluator_version")
_NAMES = (
    *(*_KEY, "app", "status", "score", "passed", "occurred_at_ms", "record", "reason", "judged"),
)


def upgrade() -> None:
    """Give the tables their new keys."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(f"pk_{_EVALUATIONS}", _EVALUATIONS)
        op.drop_constraint(f"uq_{_EVALUATIONS}_{'_'.join(_KEY)}", _EVALUATIONS)
        op.drop_column(_EVALUATIONS, "evaluation_id")
        op.create_primary_key(f"pk_{_EVALUATIONS}", _EVALUATIONS, list(_KEY))
        for name in ("trace", "session"):
            op.drop_index(f"ix_{_SAMPLES}_{name}", _SAMPLES)
            op.create_index(
                f"ix_{_SAMPLES}_{name}", _SAMPLES, [f"{name}_id"], postgresql_using="hash"
            )
        same = "one.position = other.position AND one.ctid < other.ctid"
        op.execute(f"DELETE FROM {_TERMS} one USING {_TERMS} other WHERE {same}")  # noqa: S608
        op.drop_constraint(f"{_TERMS}_pkey", _TERMS)
        op.drop_column(_TERMS, "sample_id")
        op.drop_index(f"ix_{_TERMS}_position", _TERMS)
        op.create_primary_key(f"{_TERMS}_pkey", _TERMS, ["position"])
        return
    op.drop_index(_WORST, _EVALUATIONS)
    op.rename_table(_EVALUATIONS, "groundwatch_evaluations_before")
    op.create_table(
        _EVALUATIONS,
        sa.Column("sample_id", sa.String(64), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("score", sa.Float),
        sa.Column("passed", sa.SmallInteger),
        sa.Column("occurred_at_ms", sa.Integer, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("judged", sa.SmallInteger),
        sa.PrimaryKeyConstraint(*_KEY, name=f"pk_{_EVALUATIONS}"),
        sa.ForeignKeyConstraint(
            ["sample_id"], [f"{_SAMPLES}.sample_id"], name=f"fk_{_EVALUATIONS}_sample_id"
        ),
        sqlite_with_rowid=False,
    )
    names = ", ".join(_NAMES)
    op.execute(
        f"INSERT INTO {_EVALUATIONS} ({names})"  # noqa: S608
        f" SELECT {names} FROM groundwatch_evaluations_before ORDER BY {', '.join(_KEY)}"
    )
    op.drop_table("groundwatch_evaluations_before")
    op.create_index(_WORST, _EVALUATIONS, ["app", "metric", "occurred_at_ms"])


def downgrade() -> None:
    """Raise: the ids are gone, and programs of before need them."""
    raise NotImplementedError("evaluations lost their ids; restore a backup")
