"""
Single samples: the worst of a window, one sample whole, the turns of a session.

Also counts evaluations without a score by the reason why there is none, and keeps the
audit record of who did and saw what.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

import structlog
from sqlalchemy import ColumnElement, Connection, and_, case, func, select, union_all

from monitor.models import CustomEvaluation, Evaluation, EvaluationStatus, Sample
from monitor.models.evaluation import Direction, PassRule
from monitor.models.insight import ScoredExchange
from monitor.models.interaction import REMOVED
from monitor.queue.wire import TEXTS_STAYED
from monitor.store.columns import epoch_ms, facet, matches, record_of, sample_of, time_of
from monitor.store.tables import audit, evaluations, labels, samples

_log = structlog.get_logger("groundwatch.store")

#: Turns of one session that are read, the latest: a session id that never changes costs no more.
MOST_TURNS = 200
#: So many times the samples asked for are read, to find ones that differ.
_READ = 10
_MOST_TARGET_CHARS = 400
_EVEN = 0.5
#: What speaks against an answer besides its score, in log odds: a judge failed it as well (one that
#: fails 9 in 10 bad answers and 3 in 100 good ones), or it has a contradicted claim.
_JUDGE_FAILED, _CONTRADICTED = math.log(30.0), 2.0
_LEAST = 1e-6  # bounds a score before its log odds are taken
#: Without the id of the sample, for which the view reads samples: these are read beside it.
_SCORED = [column for column in evaluations.c if column.name != "sample_id"]
#: The end of a version as `PassRule` writes it: lower is better.
_WORST_FIRST = case(
    (evaluations.c.evaluator_version.like("% pass <= %"), -evaluations.c.score),
    else_=evaluations.c.score,
)


def evaluations_of(app: str, metric: str) -> ColumnElement[bool]:
    """Return the condition for the evaluations of one metric of an app, found by their index."""
    return evaluations.c.metric_key == facet(app, metric)


def _within(
    app: str, metric: str, since: datetime, until: datetime | None = None
) -> list[ColumnElement[bool]]:
    """Return the conditions for the evaluations of a metric that belong to [since, until)."""
    at_ms = evaluations.c.occurred_at_ms
    found = [evaluations_of(app, metric), at_ms >= epoch_ms(since)]
    return found if until is None else [*found, at_ms < epoch_ms(until)]


class WorstSample(NamedTuple):
    """A sample with the evaluation that makes it one of the worst."""

    sample_id: str
    interaction_id: str
    occurred_at: datetime
    score: float
    evaluation: Evaluation
    query: str
    output: str


def worst_samples(
    connection: Connection,
    *,
    app: str,
    metric: str,
    since: datetime,
    until: datetime | None = None,
    evaluator_version: str | None = None,
    limit: int = 3,
) -> list[WorstSample]:
    """
    List the failed samples in [since, until) that are most surely wrong, the surest first.

    Samples that people labelled bad come first; those that most labelled good are left out. The
    others are ordered by `soundness`; only the worst scores are read, of judged samples and of the
    rest. Of several with the same explanation one is listed.
    """
    key = evaluations.c.position, evaluations.c.evaluator_version
    labelled = (
        select(samples.c.position, func.avg(labels.c.human_passed).label("said"))
        .join(labels, labels.c.sample_id == samples.c.sample_id)
        .where(labels.c.app == app, labels.c.metric == metric)
        .group_by(samples.c.position)
        .subquery()
    )
    # Used twice, so that both databases keep it and look for labels once a sample.
    failed = (
        select(
            *key, evaluations.c.judged, evaluations.c.occurred_at_ms, _WORST_FIRST.label("rank"),
            labelled.c.said,
        )
        .join(labelled, labelled.c.position == evaluations.c.position, isouter=True)
        .where(
            *_within(app, metric, since, until),
            matches(evaluations.c.evaluator_version, evaluator_version),
            evaluations.c.passed == 0,
        )
        .cte("failed")
    )  # fmt: skip
    said_bad = case((failed.c.said < _EVEN, 1), else_=0)
    worst = [
        select(failed.c.position, failed.c.evaluator_version, said_bad.label("said_bad"))
        .where(func.coalesce(failed.c.said, 0) <= _EVEN, by_judge)
        .order_by(said_bad.desc(), failed.c.rank, failed.c.occurred_at_ms.desc())
        .limit(limit * _READ)
        .subquery()
        for by_judge in (failed.c.judged == 1, func.coalesce(failed.c.judged, 0) == 0)
    ]
    chosen = union_all(*map(select, worst)).subquery()
    query = (
        select(
            *_SCORED, samples.c.sample_id, samples.c.interaction_id, samples.c.payload,
            chosen.c.said_bad,
        )
        .join(samples, samples.c.position == evaluations.c.position)
        .join(
            chosen,
            and_(*(one == other for one, other in zip(key, chosen.c, strict=False))),
        )
        .where(evaluations.c.metric == metric)
        .order_by(_WORST_FIRST, evaluations.c.occurred_at_ms.desc())
    )  # fmt: skip
    read: list[tuple[tuple[int, float], WorstSample]] = []
    for row in connection.execute(query):
        try:
            evaluation, interaction = _evaluation(row), row.payload["interaction"]
            found = WorstSample(
                row.sample_id, row.interaction_id, time_of(row.occurred_at_ms), row.score,
                evaluation, interaction.get("query") or "", interaction["output"],
            )  # fmt: skip
            read.append((_order(row, evaluation), found))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Alerts show examples: those of all apps must not wait for one that is damaged.
            kind = type(error).__name__
            _log.warning("stored_sample_unreadable", sample_id=row.sample_id, error=kind)
    distinct: dict[str | None, WorstSample] = {}
    for _, each in sorted(read, key=lambda ordered: ordered[0]):
        distinct.setdefault(each.evaluation.explanation, each)
    return list(distinct.values())[:limit]


def soundness(score: float, *, judge_failed: bool = False, contradicted: bool = False) -> float:
    """
    Return the log odds that a failed answer is right after all: the lower, the surer it is wrong.

    *score* is the local scorer's, or else the only one there is, in [0, 1], higher is better.
    """
    score = min(max(score, _LEAST), 1 - _LEAST)
    return (
        math.log(score / (1 - score)) - _JUDGE_FAILED * judge_failed - _CONTRADICTED * contradicted
    )


def _order(row: Any, evaluation: Evaluation) -> tuple[int, float]:
    """Return what sorts failed samples, the one that is most surely wrong first."""
    metadata, rule = evaluation.metadata or {}, PassRule.read(row.evaluator_version)
    local = metadata.get("local_score") if row.judged else None
    score = row.score if local is None else local
    # Other metrics keep what they like under the same name: citations a list.
    verdicts = metadata.get("verdicts")
    return -row.said_bad, soundness(
        1 - score if rule is not None and rule.direction is Direction.LOWER else score,
        judge_failed=bool(row.judged),
        contradicted=isinstance(verdicts, dict) and bool(verdicts.get("contradicted")),
    )


def _evaluation(row: Any) -> Evaluation:
    return CustomEvaluation.model_validate(record_of(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """An evaluation as it counts: ``passed`` is None when it enters no rate."""

    metric: str
    evaluator_version: str
    passed: bool | None
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """A sample with its outcome."""

    sample: Sample
    received_at: datetime
    outcome: str
    reason: str
    evaluations: Sequence[StoredEvaluation]


def read_sample(connection: Connection, sample_id: str) -> StoredSample | None:
    """Read a sample by its id; None when there is none, or no longer."""
    row = connection.execute(select(samples).where(samples.c.sample_id == sample_id)).first()
    if row is None:
        return None
    query = (
        select(evaluations)
        .where(evaluations.c.sample_id == sample_id)
        .order_by(evaluations.c.metric, evaluations.c.evaluator_version)
    )
    return StoredSample(
        sample=sample_of(row.payload),
        received_at=time_of(row.received_at_ms),
        outcome=row.outcome,
        reason=row.reason,
        evaluations=[
            StoredEvaluation(
                metric=found.metric,
                evaluator_version=found.evaluator_version,
                passed=None if found.passed is None else bool(found.passed),
                evaluation=CustomEvaluation.model_validate(record_of(found, row.payload)),
            )
            for found in connection.execute(query)
        ],
    )


def why_no_texts(interaction_id: str, metadata: Mapping[str, object]) -> str:
    """
    Return why a stored interaction has no texts, '' where the app sent what there is.

    ``not_captured``: they stayed in the app. Else what removed them, such as ``forgotten``.
    """
    if metadata.get("capture") == TEXTS_STAYED["capture"]:
        return "not_captured"
    return str(metadata.get("removed", "")) if interaction_id == REMOVED else ""


class Unscored(NamedTuple):
    """How many evaluations of a metric have no score, by reason; the most frequent first."""

    failed: Mapping[str, int]
    skipped: Mapping[str, int]


def unscored(
    connection: Connection, *, app: str, metric: str, since: datetime, until: datetime | None = None
) -> Unscored:
    """
    Count the evaluations without a score that belong to times in [since, until).

    Of all versions of the evaluator, and no further back than evaluations are kept.
    """
    count = func.count()
    query = (
        select(evaluations.c.status, evaluations.c.reason, count)
        .where(
            *_within(app, metric, since, until),
            evaluations.c.status != EvaluationStatus.COMPLETED.value,
        )
        .group_by(evaluations.c.status, evaluations.c.reason)
        .order_by(count.desc(), evaluations.c.reason)
    )
    failed: dict[str, int] = {}
    skipped: dict[str, int] = {}
    for status, reason, n in connection.execute(query):
        (failed if status == EvaluationStatus.FAILED.value else skipped)[reason] = n
    return Unscored(failed, skipped)


class AuditEntry(NamedTuple):
    """One act or view."""

    at: datetime
    who: str
    act: str
    target: str


def note_act(connection: Connection, *, who: str, act: str, target: str, at: datetime) -> None:
    """Write down who did or saw what."""
    row = {"at": at, "who": who, "act": act, "target": target[:_MOST_TARGET_CHARS]}
    connection.execute(audit.insert(), [row])


def newest_acts(connection: Connection, limit: int = 100) -> Sequence[AuditEntry]:
    """List the newest acts and views."""
    query = select(audit.c.at, audit.c.who, audit.c.act, audit.c.target)
    newest = query.order_by(audit.c.audit_id.desc()).limit(limit)
    return [AuditEntry(*row) for row in connection.execute(newest)]


def scored_exchanges(
    connection: Connection,
    app: str,
    metric: str,
    since: datetime,
    until: datetime | None = None,
    *,
    limit: int,
) -> list[ScoredExchange]:
    """List the newest *limit* samples of [since, until) that passed or failed, the newest first."""
    c = evaluations.c
    query = (
        select(*_SCORED, samples.c.sample_id, samples.c.payload)
        .join(samples, samples.c.position == c.position)
        .where(*_within(app, metric, since, until), c.passed.is_not(None))
        .order_by(c.occurred_at_ms.desc())
        .limit(limit)
    )
    return [
        ScoredExchange(
            row.sample_id, time_of(row.occurred_at_ms), sample_of(row.payload).interaction,
            bool(row.passed), _evaluation(row),
        )
        for row in connection.execute(query)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScore:
    """
    What one metric says of a conversation, from the evaluations of its sampled turns.

    ``worst`` is the score of the worst turn, which *worst_sample_id* is. ``resolved`` says
    whether the last turn with a verdict passes; None where no turn has one.
    """

    metric: str
    turns: int  #: sampled, with a score
    failed: int
    worst: float
    worst_sample_id: str
    resolved: bool | None


def session_scores(
    connection: Connection, *, app: str, session_id: str | None
) -> list[SessionScore]:
    """
    Return the scores of one session of *app* by metric, in the order of their names; [] for None.

    Found by an index, however long the history; of a longer session the latest 200 turns count.
    Where a turn was scored by several versions of an evaluator each of its scores counts.
    """
    if session_id is None:
        return []
    turns = (
        select(samples.c.sample_id, samples.c.position)
        .where(samples.c.session_id == session_id[:200], samples.c.app == app)
        .order_by(samples.c.occurred_at_ms.desc(), samples.c.sample_id.desc())
        .limit(MOST_TURNS)
    ).subquery()
    c = evaluations.c
    query = (
        select(c.metric, c.evaluator_version, turns.c.sample_id, c.score, c.passed)
        .join(turns, turns.c.position == c.position)
        .where(c.score.is_not(None))
        .order_by(c.metric, c.occurred_at_ms, turns.c.sample_id)
    )
    found = []
    for metric, rows in groupby(connection.execute(query), key=lambda row: row.metric):
        scored = list(rows)
        rule = PassRule.read(scored[-1].evaluator_version)
        sign = -1 if rule is not None and rule.direction is Direction.LOWER else 1
        worst = min(scored, key=lambda row: sign * row.score)
        verdicts = [bool(row.passed) for row in scored if row.passed is not None]
        found.append(
            SessionScore(
                metric=metric,
                turns=len(scored),
                failed=verdicts.count(False),
                worst=worst.score,
                worst_sample_id=worst.sample_id,
                resolved=verdicts[-1] if verdicts else None,
            )
        )
    return found
