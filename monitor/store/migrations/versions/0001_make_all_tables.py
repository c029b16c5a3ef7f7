"""Make all tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "groundwatch_alert_channels",
        sa.Column("channel", sa.String(length=100), nullable=False),
        sa.Column("paused_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_failure_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error_code", sa.String(length=100), nullable=True),
        sa.PrimaryKeyConstraint("channel", name=op.f("pk_groundwatch_alert_channels")),
    )
    op.create_table(
        "groundwatch_alert_states",
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("segment", sa.String(length=200), nullable=False),
        sa.Column("window_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column(
            "state",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(
            "app", "metric", "segment", "window_s", name=op.f("pk_groundwatch_alert_states")
        ),
    )
    op.create_table(
        "groundwatch_bucket_bins",
        sa.Column(
            "stream_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "start_s",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint(
            "stream_id", "start_s", "bin", name=op.f("pk_groundwatch_bucket_bins")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "groundwatch_buckets",
        sa.Column(
            "stream_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "start_s",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("n", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("passed", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("failed", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("skipped", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sum_w", sa.Float(), nullable=False),
        sa.Column("sum_w2", sa.Float(), nullable=False),
        sa.Column("sum_wy", sa.Float(), nullable=False),
        sa.Column("sum_w2y", sa.Float(), nullable=False),
        sa.Column("sum_x", sa.Float(), nullable=False),
        sa.Column("sum_x2", sa.Float(), nullable=False),
        sa.Column("sum_wx", sa.Float(), nullable=False),
        sa.Column(
            "cost_microusd", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.PrimaryKeyConstraint("stream_id", "start_s", name=op.f("pk_groundwatch_buckets")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "groundwatch_counts",
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column(
            "start_s",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=100), nullable=False),
        sa.Column("count", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint(
            "app", "start_s", "kind", "reason", name=op.f("pk_groundwatch_counts")
        ),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("groundwatch_counts", schema=None) as batch_op:
        batch_op.create_index("ix_groundwatch_counts_start", ["start_s"], unique=False)

    op.create_table(
        "groundwatch_dead_letters",
        sa.Column("entry_id", sa.String(length=64), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("reason", sa.String(length=100), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_groundwatch_dead_letters")),
    )
    op.create_table(
        "groundwatch_hooks",
        sa.Column("hook_id", sa.String(length=64), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column(
            "heartbeat_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "counters",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("hook_id", name=op.f("pk_groundwatch_hooks")),
    )
    op.create_table(
        "groundwatch_incidents",
        sa.Column("incident_id", sa.String(length=32), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("segment", sa.String(length=200), nullable=False),
        sa.Column("window_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("level", sa.String(length=20), nullable=False),
        sa.Column("peak_level", sa.String(length=20), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", name=op.f("pk_groundwatch_incidents")),
    )
    with op.batch_alter_table("groundwatch_incidents", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_groundwatch_incidents_opened_at"), ["opened_at"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_groundwatch_incidents_resolved_at"), ["resolved_at"], unique=False
        )

    op.create_table(
        "groundwatch_leases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("token", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("expires_at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_groundwatch_leases")),
    )
    op.create_table(
        "groundwatch_samples",
        sa.Column("sample_id", sa.String(length=64), nullable=False),
        sa.Column("interaction_id", sa.String(length=200), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column(
            "occurred_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "received_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("sample_rate", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=100), nullable=False),
        sa.Column(
            "payload",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_groundwatch_samples")),
    )
    with op.batch_alter_table("groundwatch_samples", schema=None) as batch_op:
        batch_op.create_index(
            "ix_groundwatch_samples_app_time", ["app", "occurred_at_ms"], unique=False
        )

    op.create_table(
        "groundwatch_status_changes",
        sa.Column(
            "change_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=100), nullable=False),
        sa.Column("segment", sa.String(length=200), nullable=False),
        sa.Column("window_s", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("before", sa.String(length=32), nullable=True),
        sa.Column("after", sa.String(length=32), nullable=False),
        sa.Column(
            "verdict",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("change_id", name=op.f("pk_groundwatch_status_changes")),
    )
    with op.batch_alter_table("groundwatch_status_changes", schema=None) as batch_op:
        batch_op.create_index(
            "ix_groundwatch_status_changes_app_at", ["app", "at_ms"], unique=False
        )

    op.create_table(
        "groundwatch_streams",
        sa.Column(
            "stream_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=100), nullable=False),
        sa.Column("segment", sa.String(length=200), nullable=False),
        sa.Column("evaluator_version", sa.String(length=200), nullable=False),
        sa.Column("n_total", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "last_bucket_s", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.PrimaryKeyConstraint("stream_id", name=op.f("pk_groundwatch_streams")),
        sa.UniqueConstraint(
            "app",
            "metric",
            "segment",
            "evaluator_version",
            name=op.f("uq_groundwatch_streams_app_metric_segment_evaluator_version"),
        ),
    )
    op.create_table(
        "groundwatch_totals",
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=100), nullable=False),
        sa.Column("count", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("app", "kind", "reason", name=op.f("pk_groundwatch_totals")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "groundwatch_verdicts",
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=100), nullable=False),
        sa.Column("segment", sa.String(length=200), nullable=False),
        sa.Column("window_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "evaluated_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "verdict",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint(
            "app", "metric", "segment", "window_s", name=op.f("pk_groundwatch_verdicts")
        ),
    )
    op.create_table(
        "groundwatch_alert_events",
        sa.Column(
            "event_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("incident_id", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=20), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "snapshot",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["groundwatch_incidents.incident_id"],
            name=op.f("fk_groundwatch_alert_events_incident_id"),
        ),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_groundwatch_alert_events")),
        sa.UniqueConstraint(
            "incident_id", "sequence", name=op.f("uq_groundwatch_alert_events_incident_id_sequence")
        ),
    )
    op.create_table(
        "groundwatch_evaluations",
        sa.Column("evaluation_id", sa.String(length=64), nullable=False),
        sa.Column("sample_id", sa.String(length=64), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=100), nullable=False),
        sa.Column("evaluator_version", sa.String(length=200), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("passed", sa.SmallInteger(), nullable=True),
        sa.Column(
            "occurred_at_ms", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "record",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"],
            ["groundwatch_samples.sample_id"],
            name=op.f("fk_groundwatch_evaluations_sample_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", name=op.f("pk_groundwatch_evaluations")),
        sa.UniqueConstraint(
            "sample_id",
            "metric",
            "evaluator_version",
            name=op.f("uq_groundwatch_evaluations_sample_id_metric_evaluator_version"),
        ),
    )
    with op.batch_alter_table("groundwatch_evaluations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_groundwatch_evaluations_worst", ["app", "metric", "occurred_at_ms"], unique=False
        )

    op.create_table(
        "groundwatch_outbox",
        sa.Column("delivery_id", sa.String(length=32), nullable=False),
        sa.Column("incident_id", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("channel", sa.String(length=100), nullable=False),
        sa.Column("recipient", sa.String(length=320), nullable=False),
        sa.Column("event", sa.String(length=20), nullable=False),
        sa.Column("level", sa.String(length=20), nullable=False),
        sa.Column(
            "snapshot",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tells", sa.String(length=100), nullable=False),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("possible_duplicate", sa.Boolean(), nullable=False),
        sa.Column("merged_into", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["groundwatch_incidents.incident_id"],
            name=op.f("fk_groundwatch_outbox_incident_id"),
        ),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_groundwatch_outbox")),
        sa.UniqueConstraint(
            "incident_id",
            "channel",
            "recipient",
            "sequence",
            name=op.f("uq_groundwatch_outbox_incident_id_channel_recipient_sequence"),
        ),
    )
    with op.batch_alter_table("groundwatch_outbox", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_groundwatch_outbox_status_channel_due_at"),
            ["status", "channel", "due_at"],
            unique=False,
        )


def downgrade() -> None:
    """Take the change back."""
    with op.batch_alter_table("groundwatch_outbox", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_groundwatch_outbox_status_channel_due_at"))

    op.drop_table("groundwatch_outbox")
    with op.batch_alter_table("groundwatch_evaluations", schema=None) as batch_op:
        batch_op.drop_index("ix_groundwatch_evaluations_worst")

    op.drop_table("groundwatch_evaluations")
    op.drop_table("groundwatch_alert_events")
    op.drop_table("groundwatch_verdicts")
    op.drop_table("groundwatch_totals")
    op.drop_table("groundwatch_streams")
    with op.batch_alter_table("groundwatch_status_changes", schema=None) as batch_op:
        batch_op.drop_index("ix_groundwatch_status_changes_app_at")

    op.drop_table("groundwatch_status_changes")
    with op.batch_alter_table("groundwatch_samples", schema=None) as batch_op:
        batch_op.drop_index("ix_groundwatch_samples_app_time")

    op.drop_table("groundwatch_samples")
    op.drop_table("groundwatch_leases")
    with op.batch_alter_table("groundwatch_incidents", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_groundwatch_incidents_resolved_at"))
        batch_op.drop_index(batch_op.f("ix_groundwatch_incidents_opened_at"))

    op.drop_table("groundwatch_incidents")
    op.drop_table("groundwatch_hooks")
    op.drop_table("groundwatch_dead_letters")
    with op.batch_alter_table("groundwatch_counts", schema=None) as batch_op:
        batch_op.drop_index("ix_groundwatch_counts_start")

    op.drop_table("groundwatch_counts")
    op.drop_table("groundwatch_buckets")
    op.drop_table("groundwatch_bucket_bins")
    op.drop_table("groundwatch_alert_states")
    op.drop_table("groundwatch_alert_channels")
