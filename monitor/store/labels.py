"""What people say of evaluations, and the record of who did and saw what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, select

from monitor.store.tables import audit, labels
from monitor.store.upsert import put

_MOST_TARGET_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One person's word on one evaluation: did the sample pass, whatever the judge said?"""

    sample_id: str
    app: str
    metric: str
    evaluator_version: str
    labelled_by: str
    judge_passed: bool
    human_passed: bool
    note: str
    labelled_at: datetime


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often people agree with the judge, of the evaluations that were labelled."""

    n: int
    agreed: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act or view."""

    at: datetime
    who: str
    act: str
    target: str


def save_label(connection: Connection, label: Label) -> None:
    """Store a label; a person's later word replaces the earlier one."""
    row = {
        "sample_id": label.sample_id,
        "metric": label.metric,
        "evaluator_version": label.evaluator_version,
        "labelled_by": label.labelled_by,
        "app": label.app,
        "judge_passed": int(label.judge_passed),
        "human_passed": int(label.human_passed),
        "note": label.note,
        "labelled_at_ms": _ms(label.labelled_at),
    }
    put(connection, labels, [row])


def labels_of(connection: Connection, sample_id: str) -> list[Label]:
    """List what people said of a sample's evaluations, oldest first."""
    query = select(labels).where(labels.c.sample_id == sample_id).order_by(labels.c.labelled_at_ms)
    return [_label(row) for row in connection.execute(query)]


def agreement(connection: Connection, *, app: str, metric: str) -> Agreement:
    """Count the labels of a metric, and those that agree with the judge."""
    same = func.sum(1 - func.abs(labels.c.judge_passed - labels.c.human_passed))
    query = select(func.count(), same).where(labels.c.app == app, labels.c.metric == metric)
    n, agreed = connection.execute(query).one()
    return Agreement(int(n), int(agreed or 0))


def note_act(connection: Connection, *, who: str, act: str, target: str, at: datetime) -> None:
    """Write down who did or saw what."""
    row = {"at_ms": _ms(at), "who": who, "act": act, "target": target[:_MOST_TARGET_CHARS]}
    connection.execute(audit.insert(), [row])


def newest_acts(connection: Connection, limit: int = 100) -> Sequence[AuditEntry]:
    """List the newest acts and views."""
    query = select(audit).order_by(audit.c.audit_id.desc()).limit(limit)
    return [
        AuditEntry(datetime.fromtimestamp(row.at_ms / 1000, UTC), row.who, row.act, row.target)
        for row in connection.execute(query)
    ]


def _label(row: Any) -> Label:
    return Label(
        sample_id=row.sample_id,
        app=row.app,
        metric=row.metric,
        evaluator_version=row.evaluator_version,
        labelled_by=row.labelled_by,
        judge_passed=bool(row.judge_passed),
        human_passed=bool(row.human_passed),
        note=row.note,
        labelled_at=datetime.fromtimestamp(row.labelled_at_ms / 1000, UTC),
    )


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
