"""
All tables but those of alerts.

Samples and evaluations; streams with their buckets, hours and days; the ledger and the
counters of hooks; verdicts; what explains a status; what people say and do; leases.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
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
)

from monitor.models.status import TALLY_SUMS
from monitor.store.columns import BigInt, EpochTime, Json, PackedColumn

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: What is not a number in a key, and how many characters it has at most.
_CHARS = {
    "sample_id": 64, "interaction_id": 200, "app": 200, "metric": 100, "segment": 200,
    "evaluator_version": 200, "dimension": 60, "feature": 32, "test": 32, "kind": 16,
    "reason": 100, "outcome": 16, "status": 16, "release": 200, "trace_id": 200, "state": 16,
    "labelled_by": 200, "hook_id": 64, "feedback_id": 64, "entry_id": 64,
    "level": 16, "source": 16, "purpose": 16, "model": 200, "who": 200, "act": 50, "target": 400,
    "name": 64, "owner": 255, "host": 255, "after": 32,
}  # fmt: skip


def _key(*names: str) -> list[Column[Any]]:
    """Return the columns of a key: texts, or numbers that are given and not counted up."""
    of = {"window_s": Integer, "bin": SmallInteger}
    return [
        Column(
            name,
            String(_CHARS[name]) if name in _CHARS else of.get(name, BigInt),
            primary_key=True,
            autoincrement=False,
        )
        for name in names
    ]


def _texts(*names: str) -> list[Column[Any]]:
    return [Column(name, String(_CHARS[name]), nullable=False) for name in names]


def required(kind: Any, *names: str) -> list[Column[Any]]:
    """Return columns of one kind that are never empty."""
    return [Column(name, kind, nullable=False) for name in names]


def _times(*names: str) -> list[Column[Any]]:
    """Return columns of times that are never empty; in the database their names end in _ms."""
    return [Column(f"{name}_ms", EpochTime, key=name, nullable=False) for name in names]


#: Samples as the hook sent them, with what became of them. The key is the hook's UUIDv7.
samples = Table(
    "groundwatch_samples",
    metadata,
    *_key("sample_id"),
    *_texts("interaction_id", "app"),
    *required(BigInt, "occurred_at_ms", "received_at_ms"),
    Column("sample_rate", Float, nullable=False),
    *_texts("outcome", "reason"),
    # The sample with the records of its evaluations, and the segments it was counted in, which are
    # decided once.
    Column("payload", PackedColumn, nullable=False),
    # Segments of samples from before they were packed with the sample; empty since.
    Column("segments", Json, nullable=False),
    # Joins users' feedback; samples that had none have none here.
    Column("trace_id", String(200)),
    # Joins the turns of a conversation.
    Column("session_id", String(200)),
    # Its place in the index by which samples are found: grows with its time. Negative: not there
    # yet. Scores refer to it.
    Column("position", BigInt),
    # Of the app, where it named one.
    Column("release", String(200)),
    # The newest samples of an app, for reports.
    Index("ix_groundwatch_samples_app_time", "app", "occurred_at_ms"),
    # The oldest samples, for retention; by our clock, not by that of an app.
    Index("ix_groundwatch_samples_received", "received_at_ms"),
    Index("ix_groundwatch_samples_trace", "trace_id", postgresql_using="hash"),
    Index("ix_groundwatch_samples_session", "session_id"),
    Index("ix_groundwatch_samples_position", "position", unique=True),
)

#: Who evaluates which metric of which app; each has a number, made of its names.
evaluators = Table(
    "groundwatch_evaluators",
    metadata,
    *_key("evaluator_key"),
    *required(BigInt, "metric_key"),
    *_texts("app", "metric", "evaluator_version"),
)

#: One row an evaluation; the key is what makes sums exact under redelivery. Rows of what has a
#: score have no empty column, which would cost PostgreSQL eight bytes.
scores = Table(
    "groundwatch_scores",
    metadata,
    Column(
        "position",
        BigInt,
        ForeignKey(samples.c.position, onupdate="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    *_key("evaluator_key"),
    *required(BigInt, "metric_key", "occurred_at_ms"),
    Column("score", Float),
    Column("passed", SmallInteger),
    # Of a cascade, whether its judge was asked; -1 where there is none.
    *required(SmallInteger, "judged"),
    # '' of what is completed, and the reason why there is no score where there is one.
    *_texts("status"),
    *required(Text, "reason"),
    # The worst samples of a metric in a window, for reports and alerts.
    Index("ix_groundwatch_evaluations_worst", "metric_key", "occurred_at_ms"),
    sqlite_with_rowid=False,
)

#: A view: the scores with the names of who gave them. For reading; `scores` is written.
evaluations = Table(
    "groundwatch_evaluations",
    MetaData(),
    *required(BigInt, "position"),
    *_texts("metric", "evaluator_version", "app", "status"),
    Column("score", Float),
    Column("passed", SmallInteger),
    *required(BigInt, "occurred_at_ms"),
    Column("reason", Text, nullable=False),
    Column("judged", SmallInteger),
    *required(BigInt, "metric_key"),
    # The database reads the sample for it, only where it is asked for.
    Column("sample_id", String(64), ForeignKey(samples.c.sample_id)),
)

streams = Table(
    "groundwatch_streams",
    metadata,
    Column("stream_id", BigInt, primary_key=True, autoincrement=True),
    *_texts("app", "metric", "segment", "evaluator_version"),
    *required(BigInt, "n_total", "last_bucket_s"),
    # What was ever added: the difference between two looks is what arrived between them.
    *required(Float, "sum_w", "sum_w2", "sum_wy"),
    # The part of these that arrived when it was older than the status window: not current.
    *required(BigInt, "past_n"),
    *required(Float, "past_w", "past_w2", "past_wy"),
    UniqueConstraint("app", "metric", "segment", "evaluator_version"),
    # Those that counted something lately: with every release, more are quiet for ever.
    Index("ix_groundwatch_streams_last", "last_bucket_s"),
)

#: Where an evaluation passes whose line is the app's own: the first scores it is learnt from, how
#: many round to each hundredth. One for the app and all of its segments.
pass_lines = Table(
    "groundwatch_pass_lines",
    metadata,
    *_key("app", "metric", "evaluator_version"),
    *required(Integer, "n"),
    *required(Json, "bins"),
    *required(Float, "line"),
    sqlite_with_rowid=False,
)


def _buckets(name: str) -> Table:
    """Return a table of sums over the evaluations of a stream that fall into a time range."""
    columns = (
        column
        for each in TALLY_SUMS
        for column in required(Float if each.startswith("sum_") else BigInt, each)
    )
    return Table(name, metadata, *_key("stream_id", "start_s"), *columns, sqlite_with_rowid=False)


def _bins(name: str, *key: str) -> Table:
    """Return a table of sparse histograms; bin j counts scores that round to j/100."""
    counted = required(BigInt, "count")
    return Table(name, metadata, *_key(*key, "bin"), *counted, sqlite_with_rowid=False)


buckets = _buckets("groundwatch_buckets")
hour_buckets = _buckets("groundwatch_hour_buckets")
day_buckets = _buckets("groundwatch_day_buckets")
bucket_bins = _bins("groundwatch_bucket_bins", "stream_id", "start_s")
hour_bins = _bins("groundwatch_hour_bins", "stream_id", "start_s")
day_bins = _bins("groundwatch_day_bins", "stream_id", "start_s")
#: What the app was asked and how long it answered.
input_bins = _bins("groundwatch_input_bins", "app", "start_s", "feature")

#: The last cumulative counters of each hook, so that only what is new is added.
hooks = Table(
    "groundwatch_hooks",
    metadata,
    *_key("hook_id"),
    *_texts("app", "host"),
    *required(Integer, "pid"),
    *required(BigInt, "heartbeat_at_ms"),
    *required(Json, "counters"),
    Index("ix_groundwatch_hooks_app", "app", "heartbeat_at_ms"),
    Index("ix_groundwatch_hooks_heartbeat", "heartbeat_at_ms"),
)

#: The ledger: how many were seen, sampled, sent, dropped, scored, failed, skipped, ever.
totals = Table(
    "groundwatch_totals",
    metadata,
    *_key("app", "kind", "reason"),
    *required(BigInt, "count"),
    sqlite_with_rowid=False,
)

#: The same, by bucket of time, for windows.
counts = Table(
    "groundwatch_counts",
    metadata,
    *_key("app", "start_s", "kind", "reason"),
    *required(BigInt, "count"),
    Index("ix_groundwatch_counts_start", "start_s"),
    sqlite_with_rowid=False,
)

#: What the policy ``anytime`` remembers of a stream between two looks.
detectors = Table(
    "groundwatch_detectors",
    metadata,
    *_key("stream_id"),
    *_times("updated_at"),
    *required(Json, "state"),
)

#: What is remembered of the apps that share an evaluator, and how they fell together, if they did.
pools = Table(
    "groundwatch_pools",
    metadata,
    *_key("metric", "evaluator_version"),
    *_times("updated_at"),
    *required(Json, "state"),
    Column("fall", Json, nullable=True),
    sqlite_with_rowid=False,
)

#: The newest verdict of each app, metric and window: what status and pages read.
verdicts = Table(
    "groundwatch_verdicts",
    metadata,
    *_key("app", "metric", "segment", "window_s"),
    *_times("evaluated_at"),
    *required(Json, "verdict"),
)

#: Each change of a status, for the timeline of a report.
status_changes = Table(
    "groundwatch_status_changes",
    metadata,
    Column("change_id", BigInt, primary_key=True, autoincrement=True),
    *_texts("app", "metric", "segment"),
    *required(Integer, "window_s"),
    *_times("at"),
    Column("before", String(32)),
    *_texts("after"),
    *required(Json, "verdict"),
    Index("ix_groundwatch_status_changes_app_at", "app", "at"),
)

#: Entries of the queue that could not be scored, kept for inspection and retry.
dead_letters = Table(
    "groundwatch_dead_letters",
    metadata,
    *_key("entry_id"),
    *_texts("app"),
    *_times("at"),
    *_texts("reason"),
    *required(Text, "detail"),
    *required(LargeBinary, "body"),
    # The fields of the entry beside its body, and its sample where that can be read; a sample
    # that is on its way again has its count taken back, and may come here once more.
    *required(String(20), "version"),
    Column("sample_id", String(64)),
    # dead, retrying, or dropped: then the body is gone, and the row stays for the count.
    *_texts("state"),
    Index("ix_groundwatch_dead_letters_sample", "sample_id", unique=True),
    Index("ix_groundwatch_dead_letters_at", "at"),
)

#: Who may run the schedule; the token fences off an owner that lost it without noticing.
leases = Table(
    "groundwatch_leases",
    metadata,
    *_key("name"),
    *_texts("owner"),
    *required(BigInt, "token"),
    *required(Float, "expires_at_s"),
)

#: Which values of a dimension have a segment of their own, and which wait to get one.
dimensions = Table(
    "groundwatch_dimensions",
    metadata,
    *_key("app", "dimension"),
    *required(Json, "census"),
    sqlite_with_rowid=False,
)

#: Deploys, as people or pipelines recorded them.
marks = Table(
    "groundwatch_marks",
    metadata,
    Column("mark_id", BigInt, primary_key=True, autoincrement=True),
    *_texts("app", "release"),
    *_times("at", "made_at"),
    *required(Text, "note"),
    Index("ix_groundwatch_marks_app_at", "app", "at"),
)

#: Where the drift detectors of a stream stand.
drift_states = Table(
    "groundwatch_drift_states", metadata, *_key("stream_id"), *required(Json, "state")
)

#: Drift that was found, for the record; the key makes finding it again change nothing.
drift_findings = Table(
    "groundwatch_drift_findings",
    metadata,
    *_key("app", "metric", "segment", "test", "from_s"),
    *_times("found_at"),
    *required(Json, "finding"),
    Index("ix_groundwatch_drift_findings_found", "found_at"),
)

#: The newest insight into each app and metric: what explains its status. Metric '' is the app.
insights = Table(
    "groundwatch_insights",
    metadata,
    *_key("app", "metric"),
    *_times("made_at"),
    *required(Json, "insight"),
)

#: The newest proof of each detection objective; metric '' where the app has no scores.
proofs = Table(
    "groundwatch_proofs",
    metadata,
    *_key("app", "metric"),
    *_times("made_at"),
    *required(Json, "proof"),
)

#: Up to when a level holds everything, and from when it still does; epoch seconds.
levels = Table(
    "groundwatch_levels",
    metadata,
    *_key("level"),
    *required(BigInt, "complete_to_s", "kept_from_s"),
)

#: What a person says of one evaluation; the last word of each person counts. The sample may
#: be gone before its label, so no key leads to it.
labels = Table(
    "groundwatch_labels",
    metadata,
    *_key("sample_id", "metric", "evaluator_version", "labelled_by"),
    *_texts("app"),
    *required(SmallInteger, "judge_passed", "human_passed"),
    *required(Text, "note"),
    *_times("labelled_at"),
    # Of the app, at the time of the sample; '' where it named none.
    *_texts("release"),
    # 1 if the sample was drawn at random among those with its verdict, as the queue does.
    *required(SmallInteger, "drawn"),
    Index("ix_groundwatch_labels_app_metric", "app", "metric"),
)

#: What users said of answers, by trace: the sample may come before it, behind it, or never.
feedback = Table(
    "groundwatch_feedback",
    metadata,
    *_key("feedback_id"),
    *_texts("app", "trace_id"),
    *required(SmallInteger, "good"),
    *required(Text, "comment"),
    *_texts("source"),
    *_times("given_at", "received_at"),
    Index("ix_groundwatch_feedback_trace", "trace_id"),
    Index("ix_groundwatch_feedback_app_received", "app", "received_at"),
    Index("ix_groundwatch_feedback_received", "received_at"),
)

#: Old samples that the judge judged again, once each: both verdicts.
rejudged = Table(
    "groundwatch_rejudged",
    metadata,
    *_key("sample_id", "metric", "evaluator_version"),
    *_texts("app"),
    *required(SmallInteger, "first_passed", "second_passed"),
    *_texts("purpose", "model"),
    *_times("at"),
    Index("ix_groundwatch_rejudged_at", "at"),
)

#: Whether a judge moved (app '': over all apps), and whose the change of a status was.
judge_checks = Table(
    "groundwatch_judge_checks",
    metadata,
    *_key("app", "metric", "evaluator_version"),
    *required(Json, "state"),
)

#: The sample rates that an app's hooks were asked for, ``own`` being the app's; a tuning's state.
sample_rates = Table(
    "groundwatch_sample_rates",
    metadata,
    *_key("app", "since_ms"),
    *_times("until"),
    *required(Float, "rate", "own"),
    *_texts("reason"),
    *required(String(200), "set_by"),
    Column("tuning", Json),
)

#: Acts of operators, and views of transcripts.
audit = Table(
    "groundwatch_audit",
    metadata,
    Column("audit_id", BigInt, primary_key=True, autoincrement=True),
    *_times("at"),
    *_texts("who", "act", "target"),
    Index("ix_groundwatch_audit_at", "at"),
)

#: Tokens of the page and the API, of which nothing but a hash is kept; no apps means all.
tokens = Table(
    "groundwatch_tokens",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    *required(String(200), "name"),
    *required(String(16), "role"),
    *required(Json, "apps", "scopes"),
    *required(String(200), "created_by"),
    *_times("created_at"),
    Column("expires_at_ms", EpochTime, key="expires_at"),
    Column("revoked_at_ms", EpochTime, key="revoked_at"),
)
