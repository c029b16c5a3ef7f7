"""The tables of the page: what people say of a judge, and what they did and looked at."""

from __future__ import annotations

from sqlalchemy import Column, Index, SmallInteger, String, Table, Text

from monitor.store.base import BigInt, metadata

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
    Index("ix_groundwatch_labels_app_metric", "app", "metric"),
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
