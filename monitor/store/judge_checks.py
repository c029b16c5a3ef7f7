"""
Old samples that the judge judged again, once each, and whose a change of a judged rate was.

First and second verdicts are kept beside each other; the evidence that a judge moved is kept for
each metric and evaluator version, over all apps, and attributions for each app and metric.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict
from sqlalchemy import Connection, Select, func, select

from monitor.models import Interaction
from monitor.stats.judge_shift import Cause, ShiftEvidence
from monitor.store.engine import insert_new, put
from monitor.store.packing import sample_of
from monitor.store.tables import epoch_ms, evaluations, judge_checks, matches, rejudged, samples

#: Drawn among so many of the newest verdicts of a time range.
_NEWEST = 2_000
_ALL_APPS = ""


class JudgedStream(NamedTuple):
    """The samples of one app that one evaluator judged by one metric."""

    app: str
    metric: str
    evaluator_version: str


class OldSample(NamedTuple):
    """A sample with its first verdict."""

    sample_id: str
    first: bool
    interaction: Interaction


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPair:
    """Both verdicts on one sample."""

    sample_id: str
    stream: JudgedStream
    first: bool
    second: bool
    model: str  #: that the endpoint says it used


class JudgeStanding(BaseModel):
    """What is known of a judge's own shift, over all apps."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    evidence: ShiftEvidence = ShiftEvidence()
    found_at: AwareDatetime | None = None
    shift: float = 0.0  #: when it was found
    pairs: int = 0  #: it took


class StoredAttribution(BaseModel):
    """Whose the change of one status was."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status_since: AwareDatetime
    cause: Cause
    judge_change: float
    app_change: float
    pairs: int
    after: int
    made_at: AwareDatetime


def _of(stream: JudgedStream, since: datetime | None, *, cascade: bool) -> Select[Any]:
    """Select the newest judged samples of a stream with the judge's verdicts."""
    c = evaluations.c
    query = select(c.sample_id, c.passed).where(
        c.app == stream.app,
        c.metric == stream.metric,
        c.evaluator_version == stream.evaluator_version,
        c.passed.is_not(None),
        matches(c.judged, 1 if cascade else None),
    )
    if since is not None:
        query = query.where(c.occurred_at_ms >= epoch_ms(since))
    return query.order_by(c.occurred_at_ms.desc())


def old_samples(
    connection: Connection,
    stream: JudgedStream,
    *,
    before: datetime,
    since: datetime | None,
    n: int,
    rng: Random,
    cascade: bool,
) -> list[OldSample]:
    """Draw up to *n* judged samples of [since, before) that were not judged again yet."""
    c = evaluations.c
    again = select(rejudged.c.sample_id).where(
        rejudged.c.sample_id == c.sample_id, rejudged.c.metric == stream.metric,
        rejudged.c.evaluator_version == stream.evaluator_version,
    )  # fmt: skip
    query = (
        _of(stream, since, cascade=cascade)
        .join(samples, samples.c.sample_id == c.sample_id)
        .where(c.occurred_at_ms < epoch_ms(before), samples.c.interaction_id != "removed")
        .where(~again.exists())
        .limit(_NEWEST)
    )
    rows = [(i, bool(passed)) for i, passed in connection.execute(query)]
    chosen = dict(rng.sample(rows, min(n, len(rows))))
    payloads = select(samples.c.sample_id, samples.c.payload)
    found = connection.execute(payloads.where(samples.c.sample_id.in_(list(chosen))))
    return [
        OldSample(sample_id, chosen[sample_id], sample_of(payload).interaction)
        for sample_id, payload in found
    ]


def newest_verdicts(
    connection: Connection, stream: JudgedStream, *, since: datetime, n: int, cascade: bool
) -> list[bool]:
    """Return the judge's newest verdicts since then, at most *n*."""
    query = _of(stream, since, cascade=cascade).limit(n)
    return [bool(passed) for _, passed in connection.execute(query)]


def save_pairs(
    connection: Connection, pairs: Sequence[VerdictPair], *, purpose: str, now: datetime
) -> None:
    """Store pairs; one of a sample that was judged again already stays as it is."""
    rows = [
        pair.stream._asdict()
        | {
            "sample_id": pair.sample_id, "first_passed": int(pair.first), "at": now,
            "second_passed": int(pair.second), "purpose": purpose, "model": pair.model[:200],
        }
        for pair in pairs
    ]  # fmt: skip
    insert_new(connection, rejudged, rows, returning=rejudged.c.sample_id)


def calls_since(connection: Connection, since: datetime, *, purpose: str) -> int:
    """Count the samples that were judged again since then."""
    query = select(func.count(rejudged.c.sample_id.distinct())).where(
        rejudged.c.at >= since, rejudged.c.purpose == purpose
    )
    return int(connection.execute(query).scalar_one())


def read_judge(connection: Connection, metric: str, evaluator_version: str) -> JudgeStanding:
    """Read what is known of a judge; an empty state where that is nothing."""
    c = judge_checks.c
    query = select(c.state).where(
        c.app == _ALL_APPS, c.metric == metric, c.evaluator_version == evaluator_version
    )
    found = connection.execute(query).scalar()
    return JudgeStanding() if found is None else _standing(found)


def save_judge(
    connection: Connection, metric: str, evaluator_version: str, state: JudgeStanding
) -> None:
    """Store what is known of a judge."""
    _write(connection, JudgedStream(_ALL_APPS, metric, evaluator_version), state)


def moved_judges(
    connection: Connection, *, since: datetime
) -> dict[tuple[str, str], JudgeStanding]:
    """Return the judges that were found to have moved since then, by metric and version."""
    query = select(judge_checks).where(judge_checks.c.app == _ALL_APPS)
    states = {
        (row.metric, row.evaluator_version): _standing(row.state)
        for row in connection.execute(query)
    }
    return {key: s for key, s in states.items() if s.found_at is not None and s.found_at >= since}


def read_attributions(connection: Connection) -> dict[JudgedStream, StoredAttribution]:
    """Return the newest attribution of every app and metric that has one."""
    query = select(judge_checks).where(judge_checks.c.app != _ALL_APPS)
    return {
        JudgedStream(row.app, row.metric, row.evaluator_version): StoredAttribution.model_validate(
            row.state
        )
        for row in connection.execute(query)
    }


def save_attribution(
    connection: Connection, stream: JudgedStream, found: StoredAttribution
) -> None:
    """Store whose a change was; it replaces the one before."""
    _write(connection, stream, found)


def _write(connection: Connection, key: JudgedStream, state: BaseModel) -> None:
    # As JSON, which has null for minus infinity; PostgreSQL takes no other form.
    put(connection, judge_checks, [key._asdict() | {"state": json.loads(state.model_dump_json())}])


def _standing(state: dict[str, Any]) -> JudgeStanding:
    # JSON has no minus infinity, where sums begin.
    evidence = dict(state["evidence"])
    sums = tuple(float("-inf") if value is None else value for value in evidence["log_sums"])
    return JudgeStanding.model_validate(state | {"evidence": evidence | {"log_sums": sums}})
