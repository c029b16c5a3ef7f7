"""
Evaluations have numbers for app, metric and version; words in PostgreSQL's index have no places.

What was the table of evaluations is a view of the same columns, and phrases are compared with the
samples. Every evaluation is copied, and PostgreSQL's index, in some minutes a million samples.

Revision ID: 0025
Revises: 0024
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_BEFORE, _SCORES, _EVALUATORS = (
    "groundwatch_evaluations", "groundwatch_scores", "groundwatch_evaluators"
)  # fmt: skip
_WORST, _TERMS = "ix_groundwatch_evaluations_worst", "groundwatch_sample_terms"


def _number(*parts: str) -> int:
    name = "\x1f".join(parts).replace("\0", "\ufffd").encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


def upgrade() -> None:
    """Number the evaluators, copy the scores, and make the view."""
    integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    evaluators = op.create_table(
        _EVALUATORS,
        sa.Column("evaluator_key", integer, autoincrement=False, nullable=False),
        sa.Column("metric_key", integer, nullable=False),
        sa.Column("app", sa.String(200), nullable=False),
        sa.Column("metric", sa.String(100), nullable=False),
        sa.Column("evaluator_version", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("evaluator_key", name=f"pk_{_EVALUATORS}"),
    )
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        _SCORES,
        sa.Column("sample_id", sa.String(64), nullable=False),
        sa.Column("evaluator_key", integer, autoincrement=False, nullable=False),
        sa.Column("metric_key", integer, nullable=False),
        sa.Column("occurred_at_ms", integer, nullable=False),
        sa.Column("score", sa.Float),
        sa.Column("passed", sa.SmallInteger),
        sa.Column("judged", sa.SmallInteger),
        sa.Column("status", sa.String(16)),
        sa.Column("reason", sa.Text),
        sa.Column("record", sa.LargeBinary() if is_postgresql else sa.JSON()),
        sa.PrimaryKeyConstraint("sample_id", "evaluator_key", name=f"pk_{_SCORES}"),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["groundwatch_samples.sample_id"], name=f"fk_{_SCORES}_sample_id"
        ),
        sqlite_with_rowid=False,
    )
    found = op.get_bind().exec_driver_sql(
        f"SELECT DISTINCT app, metric, evaluator_version FROM {_BEFORE}"  # noqa: S608
    )
    names = ("app", "metric", "evaluator_version")
    op.bulk_insert(evaluators, [
        dict(zip(names, row, strict=True))
        | {"evaluator_key": _number(*row), "metric_key": _number(*row[:2])}
        for row in found
    ])  # fmt: skip
    empty = "CAST('' AS bytea)" if is_postgresql else "x''"
    op.execute(
        f"INSERT INTO {_SCORES} SELECT b.sample_id, e.evaluator_key, e.metric_key,"  # noqa: S608
        " b.occurred_at_ms, b.score, b.passed, b.judged, nullif(b.status, 'completed'),"
        f" nullif(b.reason, ''), nullif(b.record, {empty}) FROM {_BEFORE} b JOIN {_EVALUATORS} e"
        " ON e.app = b.app AND e.metric = b.metric AND e.evaluator_version = b.evaluator_version"
        " ORDER BY b.sample_id, e.evaluator_key"
    )
    op.drop_table(_BEFORE)
    op.create_index(_WORST, _SCORES, ["metric_key", "occurred_at_ms"])
    op.execute(
        f"CREATE VIEW {_BEFORE} AS SELECT s.sample_id, e.metric, e.evaluator_version, e.app,"  # noqa: S608
        " coalesce(s.status, 'completed') AS status, s.score, s.passed, s.occurred_at_ms, s.record,"
        " coalesce(s.reason, '') AS reason, s.judged, s.metric_key"
        f" FROM {_SCORES} s JOIN {_EVALUATORS} e ON e.evaluator_key = s.evaluator_key"
    )
    if is_postgresql:
        op.execute(f"ALTER TABLE {_TERMS} RENAME TO {_TERMS}_before")
        op.execute(
            f"CREATE TABLE {_TERMS} AS SELECT position, facets, strip(words) AS words"  # noqa: S608
            f" FROM {_TERMS}_before ORDER BY position"
        )
        op.execute(f"DROP TABLE {_TERMS}_before")
        for column in ("facets", "words"):
            op.execute(f"ALTER TABLE {_TERMS} ALTER COLUMN {column} SET NOT NULL")
        op.create_primary_key(f"{_TERMS}_pkey", _TERMS, ["position"])
        op.execute(f"CREATE INDEX ix_{_TERMS}_release ON {_TERMS} ((facets[1]), position)")
        op.execute(
            f"CREATE INDEX ix_{_TERMS}_found ON {_TERMS}"
            " USING gin ((facets || (position >> 44)), words)"
        )


def downgrade() -> None:
    """Raise: programs of before write the table that is a view now."""
    raise NotImplementedError("evaluations are kept by number; restore a backup")
