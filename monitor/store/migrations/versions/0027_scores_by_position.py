"""
Scores are known by the position of their sample, a number in place of its id.

Every score is copied, in some minutes a million samples. Records that stood beside the score join
their sample, as those of today do; samples without a place in the index get a negative position
until upkeep gives them one. Traces and sessions are found by their columns alone, on PostgreSQL
sessions by an ordered index. Programs of before cannot read what is packed since.

Revision ID: 0027
Revises: 0026
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from monitor.store.columns import decompressed, pack

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_SAMPLES, _SCORES, _VIEW = "groundwatch_samples", "groundwatch_scores", "groundwatch_evaluations"
_BEFORE, _WORST, _AT_ONCE = f"{_SCORES}_before", "ix_groundwatch_evaluations_worst", 500
#: Samples that are plain JSON, as all were before they had columns for what follows.
_FILL = {
    "postgresql": "UPDATE {table} SET {name}_id ="
    " left(convert_from(payload, 'UTF8')::jsonb #>> '{{interaction,{name}_id}}', 200)"
    " WHERE {name}_id IS NULL AND substr(payload, 1, 1) = '{{'",
    "sqlite": "UPDATE {table} SET {name}_id ="
    " substr(json_extract(CAST(payload AS text), '$.interaction.{name}_id'), 1, 200)"
    " WHERE {name}_id IS NULL AND substr(CAST(payload AS text), 1, 1) = '{{'",
}


def upgrade() -> None:
    """Give all samples a position, copy the scores, and make the view."""
    dialect = op.get_bind().dialect.name
    if dialect == "postgresql":  # at once, so that it waits before any work rather than deadlocks
        op.execute(f"LOCK TABLE {_SCORES}, {_SAMPLES} IN ACCESS EXCLUSIVE MODE")
    for name in ("trace", "session"):
        op.execute(_FILL[dialect].format(table=_SAMPLES, name=name))
    op.execute(
        f"UPDATE {_SAMPLES} SET position = -given.n FROM (SELECT sample_id AS id,"  # noqa: S608
        f" row_number() OVER (ORDER BY sample_id DESC) AS n FROM {_SAMPLES} WHERE position IS NULL)"
        " given WHERE sample_id = given.id"
    )
    # Of two samples at one position, which was possible by a rare chance, one moves.
    op.execute(
        f"UPDATE {_SAMPLES} SET position = -1 - (SELECT count(*) FROM {_SAMPLES}) - given.n FROM"  # noqa: S608
        " (SELECT id, row_number() OVER (ORDER BY id) AS n FROM (SELECT sample_id AS id,"
        f" row_number() OVER (PARTITION BY position ORDER BY sample_id) AS nth FROM {_SAMPLES}) one"
        " WHERE nth > 1) given WHERE sample_id = given.id"
    )
    op.drop_index("ix_groundwatch_samples_unplaced", _SAMPLES)
    op.drop_index("ix_groundwatch_samples_position", _SAMPLES)
    op.execute(f"DROP VIEW {_VIEW}")
    if dialect == "postgresql":
        op.drop_index("ix_groundwatch_samples_session", _SAMPLES)
        op.create_index("ix_groundwatch_samples_session", _SAMPLES, ["session_id"])
    op.create_index("ix_groundwatch_samples_position", _SAMPLES, ["position"], unique=True)
    op.drop_index(_WORST, _SCORES)
    op.rename_table(_SCORES, _BEFORE)
    if dialect == "postgresql":
        op.execute(f"ALTER INDEX pk_{_SCORES} RENAME TO pk_{_BEFORE}")
    _join_records(op.get_bind())
    integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        _SCORES,
        sa.Column("position", integer, autoincrement=False, nullable=False),
        sa.Column("evaluator_key", integer, autoincrement=False, nullable=False),
        sa.Column("metric_key", integer, nullable=False),
        sa.Column("occurred_at_ms", integer, nullable=False),
        sa.Column("score", sa.Float),
        sa.Column("passed", sa.SmallInteger),
        sa.Column("judged", sa.SmallInteger, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("position", "evaluator_key", name=f"pk_{_SCORES}"),
        sa.ForeignKeyConstraint(
            ["position"], [f"{_SAMPLES}.position"], name=f"fk_{_SCORES}_position",
            onupdate="CASCADE",
        ),
        sqlite_with_rowid=False,
    )  # fmt: skip
    op.execute(
        f"INSERT INTO {_SCORES} SELECT p.position, s.evaluator_key, s.metric_key,"  # noqa: S608
        " s.occurred_at_ms, s.score, s.passed, coalesce(s.judged, -1), coalesce(s.status, ''),"
        f" coalesce(s.reason, '') FROM {_BEFORE} s JOIN {_SAMPLES} p ON p.sample_id = s.sample_id"
        " ORDER BY p.position, s.evaluator_key"
    )
    op.drop_table(_BEFORE)
    op.create_index(_WORST, _SCORES, ["metric_key", "occurred_at_ms"])
    # PostgreSQL leaves out a join of which nothing is asked; SQLite would not search through it.
    join = "LEFT JOIN" if dialect == "postgresql" else "JOIN"
    op.execute(
        f"CREATE VIEW {_VIEW} AS SELECT s.position, e.metric, e.evaluator_version, e.app,"  # noqa: S608
        " coalesce(nullif(s.status, ''), 'completed') AS status, s.score, s.passed,"
        " s.occurred_at_ms, s.reason, nullif(s.judged, -1) AS judged, s.metric_key, p.sample_id"
        f" FROM {_SCORES} s JOIN groundwatch_evaluators e ON e.evaluator_key = s.evaluator_key"
        f" {join} {_SAMPLES} p ON p.position = s.position"
    )


def _join_records(connection: sa.Connection) -> None:
    """Pack records that stand beside their score with their sample."""
    first = sa.text(
        f"SELECT DISTINCT sample_id FROM {_BEFORE} WHERE record IS NOT NULL"  # noqa: S608
        f" AND sample_id > :after ORDER BY sample_id LIMIT {_AT_ONCE}"
    )
    read = sa.text(
        f"SELECT p.sample_id, p.payload, b.record FROM {_BEFORE} b JOIN {_SAMPLES} p"  # noqa: S608
        " ON p.sample_id = b.sample_id WHERE b.record IS NOT NULL"
        " AND b.sample_id BETWEEN :first AND :last"
    )
    write = sa.text(f"UPDATE {_SAMPLES} SET payload = :packed WHERE sample_id = :of")  # noqa: S608
    after = ""
    while ids := connection.execute(first, {"after": after}).scalars().all():
        found: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for sample_id, payload, record in connection.execute(
            read, {"first": ids[0], "last": ids[-1]}
        ):
            if sample_id not in found:
                found[sample_id] = (json.loads(decompressed(payload)), [])
            found[sample_id][1].append(str(decompressed(record), "utf-8"))
        rows = []
        for sample_id, (whole, records) in found.items():
            of, before = whole.pop("segments", []), whole.pop("evaluations", [])
            said = [*map(json.dumps, before), *records]
            rows.append({"of": sample_id, "packed": pack(json.dumps(whole), said, of)})
        connection.execute(write, rows)
        after = ids[-1]


def downgrade() -> None:
    """Raise: programs of before write scores by the id of their sample."""
    raise NotImplementedError("scores are kept by number; restore a backup")
