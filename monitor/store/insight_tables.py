"""Tables of what explains a status: segments, inputs, deploys, drift and the insights."""

from __future__ import annotations

from sqlalchemy import Column, Index, SmallInteger, String, Table, Text

from monitor.store.base import BigInt, Json, metadata

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
