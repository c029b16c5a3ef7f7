"""
All tables but those of alerts.

Samples and evaluations; streams with their buckets, hours and days; the ledger and the
counters of hooks; verdicts; what explains a status; what people say and do; leases.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: JSON, in PostgreSQL's binary form where there is one.
Json = JSON().with_variant(JSONB(), "postgresql")
#: A 64-bit number; SQLite only counts up an INTEGER by itself.
BigInt = BigInteger().with_variant(Integer(), "sqlite")


#: Samples as the hook sent them, with what became of them. The key is the hook's UUIDv7.
samples = Table(
    "groundwatch_samples",
    metadata,
    Column("sample_id", String(64), primary_key=True),
    Column("interaction_id", String(200), nullable=False),
    Column("app", String(200), nullable=False),
    Column("occurred_at_ms", BigInt, nullable=False),
    Column("received_at_ms", BigInt, nullable=False),
    Column("sample_rate", Float, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("reason", String(100), nullable=False),
    Column("payload", Json, nullable=False),
    # The segments it was counted in, decided once, so that nothing has to be decided again.
    Column("segments", Json, nullable=False, server_default="[]"),
    # Joins what users said of it; samples that had none have none here.
    Column("trace_id", String(200)),
    # Joins the turns of a conversation.
    Column("session_id", String(200)),
    # Its place in the index by which samples are found: grows with its time. None: not there yet.
    Column("position", BigInt),
    # The newest samples of an app, for reports.
    Index("ix_groundwatch_samples_app_time", "app", "occurred_at_ms"),
    # The oldest samples, for retention; by our clock, not by that of an app.
    Index("ix_groundwatch_samples_received", "received_at_ms"),
    Index("ix_groundwatch_samples_trace", "trace_id"),
    Index("ix_groundwatch_samples_session", "session_id"),
    Index("ix_groundwatch_samples_position", "position"),
    # Samples of before there was an index.
    Index(
        "ix_groundwatch_samples_unplaced",
        "sample_id",
        sqlite_where=text("position IS NULL"),
        postgresql_where=text("position IS NULL"),
    ),
)

#: One row an evaluation; the unique key is what makes sums exact under redelivery.
evaluations = Table(
    "groundwatch_evaluations",
    metadata,
    Column("evaluation_id", String(64), primary_key=True),
    Column("sample_id", String(64), ForeignKey(samples.c.sample_id), nullable=False),
    Column("app", String(200), nullable=False),
    Column("metric", String(100), nullable=False),
    Column("evaluator_version", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("score", Float),
    Column("passed", SmallInteger),
    Column("occurred_at_ms", BigInt, nullable=False),
    Column("record", Json, nullable=False),
    UniqueConstraint("sample_id", "metric", "evaluator_version"),
    # The worst samples of a metric in a window, for reports and alerts.
    Index("ix_groundwatch_evaluations_worst", "app", "metric", "occurred_at_ms"),
)

streams = Table(
    "groundwatch_streams",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=True),
    Column("app", String(200), nullable=False),
    Column("metric", String(100), nullable=False),
    Column("segment", String(200), nullable=False),
    Column("evaluator_version", String(200), nullable=False),
    Column("n_total", BigInt, nullable=False, default=0),
    Column("last_bucket_s", BigInt, nullable=False, default=0),
    # What was ever added: the difference between two looks is what arrived between them.
    Column("sum_w", Float, nullable=False, server_default="0"),
    Column("sum_w2", Float, nullable=False, server_default="0"),
    Column("sum_wy", Float, nullable=False, server_default="0"),
    # The part of these that arrived when it was older than the status window: not current.
    Column("past_n", BigInt, nullable=False, server_default="0"),
    Column("past_w", Float, nullable=False, server_default="0"),
    Column("past_w2", Float, nullable=False, server_default="0"),
    Column("past_wy", Float, nullable=False, server_default="0"),
    UniqueConstraint("app", "metric", "segment", "evaluator_version"),
    # Those that counted something lately: with every release, more are quiet for ever.
    Index("ix_groundwatch_streams_last", "last_bucket_s"),
)

#: Where an evaluation passes whose line is the app's own: the first scores it is learnt from, how
#: many round to each hundredth. One for the app and all of its segments.
pass_lines = Table(
    "groundwatch_pass_lines",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("evaluator_version", String(200), primary_key=True),
    Column("n", Integer, nullable=False),
    Column("bins", Json, nullable=False),
    Column("line", Float, nullable=False),
    sqlite_with_rowid=False,
)

#: Sums over the evaluations of one stream that fall into one bucket of time.
buckets = Table(
    "groundwatch_buckets",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=False),
    Column("start_s", BigInt, primary_key=True, autoincrement=False),
    Column("n", BigInt, nullable=False),
    Column("passed", BigInt, nullable=False),
    Column("failed", BigInt, nullable=False),
    Column("skipped", BigInt, nullable=False),
    Column("judged", BigInt, nullable=False, server_default="0"),
    Column("agreed", BigInt, nullable=False, server_default="0"),
    Column("late", BigInt, nullable=False, server_default="0"),
    Column("sum_w", Float, nullable=False),
    Column("sum_w2", Float, nullable=False),
    Column("sum_wy", Float, nullable=False),
    Column("sum_w2y", Float, nullable=False),
    Column("sum_w2yy", Float, nullable=False, server_default="0"),
    Column("sum_x", Float, nullable=False),
    Column("sum_x2", Float, nullable=False),
    Column("sum_wx", Float, nullable=False),
    Column("sum_wxx", Float, nullable=False, server_default="0"),
    Column("cost_microusd", BigInt, nullable=False),
    sqlite_with_rowid=False,
)

#: The sparse histogram of a bucket's scores; bin j counts scores that round to j/100.
bucket_bins = Table(
    "groundwatch_bucket_bins",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=False),
    Column("start_s", BigInt, primary_key=True, autoincrement=False),
    Column("bin", SmallInteger, primary_key=True, autoincrement=False),
    Column("count", BigInt, nullable=False),
    sqlite_with_rowid=False,
)

#: The last cumulative counters of each hook, so that only what is new is added.
hooks = Table(
    "groundwatch_hooks",
    metadata,
    Column("hook_id", String(64), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("heartbeat_at_ms", BigInt, nullable=False),
    Column("counters", Json, nullable=False),
    Index("ix_groundwatch_hooks_app", "app", "heartbeat_at_ms"),
    Index("ix_groundwatch_hooks_heartbeat", "heartbeat_at_ms"),
)

#: The ledger: how many were seen, sampled, sent, dropped, scored, failed, skipped, ever.
totals = Table(
    "groundwatch_totals",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("reason", String(100), primary_key=True),
    Column("count", BigInt, nullable=False),
    sqlite_with_rowid=False,
)

#: The same, by bucket of time, for windows.
counts = Table(
    "groundwatch_counts",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("start_s", BigInt, primary_key=True, autoincrement=False),
    Column("kind", String(16), primary_key=True),
    Column("reason", String(100), primary_key=True),
    Column("count", BigInt, nullable=False),
    Index("ix_groundwatch_counts_start", "start_s"),
    sqlite_with_rowid=False,
)

#: What the policy ``anytime`` remembers of a stream between two looks.
detectors = Table(
    "groundwatch_detectors",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=False),
    Column("updated_at_ms", BigInt, nullable=False),
    Column("state", Json, nullable=False),
)

#: What is remembered of the apps that share an evaluator, and how they fell together, if they did.
pools = Table(
    "groundwatch_pools",
    metadata,
    Column("metric", String(100), primary_key=True),
    Column("evaluator_version", String(200), primary_key=True),
    Column("updated_at_ms", BigInt, nullable=False),
    Column("state", Json, nullable=False),
    Column("fall", Json, nullable=True),
    sqlite_with_rowid=False,
)

#: The newest verdict of each app, metric and window: what status and pages read.
verdicts = Table(
    "groundwatch_verdicts",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("segment", String(200), primary_key=True),
    Column("window_s", Integer, primary_key=True, autoincrement=False),
    Column("evaluated_at_ms", BigInt, nullable=False),
    Column("verdict", Json, nullable=False),
)

#: Each change of a status, for the timeline of a report.
status_changes = Table(
    "groundwatch_status_changes",
    metadata,
    Column("change_id", BigInt, primary_key=True, autoincrement=True),
    Column("app", String(200), nullable=False),
    Column("metric", String(100), nullable=False),
    Column("segment", String(200), nullable=False),
    Column("window_s", Integer, nullable=False),
    Column("at_ms", BigInt, nullable=False),
    Column("before", String(32)),
    Column("after", String(32), nullable=False),
    Column("verdict", Json, nullable=False),
    Index("ix_groundwatch_status_changes_app_at", "app", "at_ms"),
)

#: Entries of the queue that could not be scored, kept to be looked at and tried again.
dead_letters = Table(
    "groundwatch_dead_letters",
    metadata,
    Column("entry_id", String(64), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("at_ms", BigInt, nullable=False),
    Column("reason", String(100), nullable=False),
    Column("detail", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    # The fields of the entry beside its body, and its sample where that can be read; a sample
    # that is on its way again has its count taken back, and may come here once more.
    Column("version", String(20), nullable=False, server_default="1"),
    Column("sample_id", String(64)),
    # dead, retrying, or dropped: then the body is gone, and the row stays for the count.
    Column("state", String(16), nullable=False, server_default="dead"),
    Index("ix_groundwatch_dead_letters_sample", "sample_id", unique=True),
    Index("ix_groundwatch_dead_letters_at", "at_ms"),
)

#: Who may run the schedule; the token fences off an owner that lost it without noticing.
leases = Table(
    "groundwatch_leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("token", BigInt, nullable=False),
    Column("expires_at_s", Float, nullable=False),
)


#: Which values of a dimension have a segment of their own, and which wait to get one.
dimensions = Table(
    "groundwatch_dimensions",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("dimension", String(60), primary_key=True),
    Column("census", Json, nullable=False),
    sqlite_with_rowid=False,
)

#: What the app was asked and how long it answered: histograms, as sparse as the buckets' own.
input_bins = Table(
    "groundwatch_input_bins",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("start_s", BigInt, primary_key=True, autoincrement=False),
    Column("feature", String(32), primary_key=True),
    Column("bin", SmallInteger, primary_key=True, autoincrement=False),
    Column("count", BigInt, nullable=False),
    sqlite_with_rowid=False,
)

#: Deploys, as people or pipelines told them.
marks = Table(
    "groundwatch_marks",
    metadata,
    Column("mark_id", BigInt, primary_key=True, autoincrement=True),
    Column("app", String(200), nullable=False),
    Column("release", String(200), nullable=False),
    Column("at_ms", BigInt, nullable=False),
    Column("made_at_ms", BigInt, nullable=False),
    Column("note", Text, nullable=False),
    Index("ix_groundwatch_marks_app_at", "app", "at_ms"),
)

#: Where the drift detectors of a stream stand.
drift_states = Table(
    "groundwatch_drift_states",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=False),
    Column("state", Json, nullable=False),
)

#: Drift that was found, for the record; the key makes finding it again change nothing.
drift_findings = Table(
    "groundwatch_drift_findings",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("segment", String(200), primary_key=True),
    Column("test", String(32), primary_key=True),
    Column("from_s", BigInt, primary_key=True, autoincrement=False),
    Column("found_at_ms", BigInt, nullable=False),
    Column("finding", Json, nullable=False),
    Index("ix_groundwatch_drift_findings_found", "found_at_ms"),
)

#: The newest insight into each app and metric: what explains its status. Metric '' is the app.
insights = Table(
    "groundwatch_insights",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("made_at_ms", BigInt, nullable=False),
    Column("insight", Json, nullable=False),
)


def _like(source: Table, name: str) -> Table:
    """Make a table with the columns of another one: one row shape at all levels."""
    columns = [
        Column(
            column.name,
            column.type,
            primary_key=column.primary_key,
            autoincrement=False,
            nullable=column.nullable,
            server_default=getattr(column.server_default, "arg", None),
        )
        for column in source.columns
    ]
    return Table(name, metadata, *columns, sqlite_with_rowid=False)


hour_buckets = _like(buckets, "groundwatch_hour_buckets")
hour_bins = _like(bucket_bins, "groundwatch_hour_bins")
day_buckets = _like(buckets, "groundwatch_day_buckets")
day_bins = _like(bucket_bins, "groundwatch_day_bins")

#: Up to when a level holds everything, and from when it still does; epoch seconds.
levels = Table(
    "groundwatch_levels",
    metadata,
    Column("level", String(16), primary_key=True),
    Column("complete_to_s", BigInt, nullable=False),
    Column("kept_from_s", BigInt, nullable=False),
)


#: What a person says of one evaluation; the last word of each person counts. The sample may
#: be gone before its label, so no key leads to it.
labels = Table(
    "groundwatch_labels",
    metadata,
    Column("sample_id", String(64), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("evaluator_version", String(200), primary_key=True),
    Column("labelled_by", String(200), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("judge_passed", SmallInteger, nullable=False),
    Column("human_passed", SmallInteger, nullable=False),
    Column("note", Text, nullable=False, server_default=""),
    Column("labelled_at_ms", BigInt, nullable=False),
    # Of the app, at the time of the sample; '' where it named none.
    Column("release", String(200), nullable=False, server_default=""),
    # 1 if the sample was drawn at random among those with its verdict, as the queue does.
    Column("drawn", SmallInteger, nullable=False, server_default="0"),
    Index("ix_groundwatch_labels_app_metric", "app", "metric"),
)

#: What users said of answers, by trace: the sample may come before it, behind it, or never.
feedback = Table(
    "groundwatch_feedback",
    metadata,
    Column("feedback_id", String(64), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("trace_id", String(200), nullable=False),
    Column("good", SmallInteger, nullable=False),
    Column("comment", Text, nullable=False),
    Column("source", String(16), nullable=False),
    Column("given_at_ms", BigInt, nullable=False),
    Column("received_at_ms", BigInt, nullable=False),
    Index("ix_groundwatch_feedback_trace", "trace_id"),
    Index("ix_groundwatch_feedback_app_received", "app", "received_at_ms"),
    Index("ix_groundwatch_feedback_received", "received_at_ms"),
)

#: Old samples that the judge judged again, once each: both verdicts.
rejudged = Table(
    "groundwatch_rejudged",
    metadata,
    Column("sample_id", String(64), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("evaluator_version", String(200), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("first_passed", SmallInteger, nullable=False),
    Column("second_passed", SmallInteger, nullable=False),
    Column("purpose", String(16), nullable=False),
    Column("model", String(200), nullable=False),
    Column("at_ms", BigInt, nullable=False),
    Index("ix_groundwatch_rejudged_at", "at_ms"),
)

#: Whether a judge moved (app '': over all apps), and whose the change of a status was.
judge_checks = Table(
    "groundwatch_judge_checks",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("evaluator_version", String(200), primary_key=True),
    Column("state", Json, nullable=False),
)

#: Acts of operators, and views of transcripts.
audit = Table(
    "groundwatch_audit",
    metadata,
    Column("audit_id", BigInt, primary_key=True, autoincrement=True),
    Column("at_ms", BigInt, nullable=False),
    Column("who", String(200), nullable=False),
    Column("act", String(50), nullable=False),
    Column("target", String(400), nullable=False),
    Index("ix_groundwatch_audit_at", "at_ms"),
)

#: Tokens of the page and the API, of which nothing but a hash is kept; no apps: all of them.
tokens = Table(
    "groundwatch_tokens",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("role", String(16), nullable=False),
    Column("apps", Json, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("created_at_ms", BigInt, nullable=False),
    Column("expires_at_ms", BigInt),
    Column("revoked_at_ms", BigInt),
)
