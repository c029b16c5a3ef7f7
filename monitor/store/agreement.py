"""
How evaluators agree with people, and a judge with itself.

Several annotators make one verdict by majority; `monitor.store.labels` takes labels in. Old samples
are judged again, once each: first and second verdicts are kept beside each other, the evidence that
a judge moved for each metric and evaluator version, over all apps, and attributions for each app.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict
from sqlalchemy import Connection, Select, case, func, select

from monitor.models import ROOT, Interaction
from monitor.models.status import score_bin
from monitor.stats.agreement import Confusion, confusion, majority, pairwise_agreement
from monitor.stats.judge_shift import Cause, ShiftEvidence
from monitor.store.columns import epoch_ms, facet, matches, sample_of
from monitor.store.engine import insert_new, put
from monitor.store.query import read_level_lines
from monitor.store.samples import evaluations_of
from monitor.store.tables import (
    evaluations,
    judge_checks,
    labels,
    rejudged,
    samples,
    scores,
    streams,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSample:
    """What all annotators say of one evaluation."""

    sample_id: str
    evaluator_version: str
    release: str
    evaluator_passed: bool
    passes: int
    fails: int
    score: float | None  #: None once its evaluation is gone
    drawn: bool  #: drawn at random among samples with the same verdict, or in one band of scores
    labelled_at: datetime  #: the last word

    @property
    def good(self) -> bool | None:
        """The majority's verdict; None for a tie."""
        return majority(self.passes, self.fails)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How one evaluator version and people agree on one metric of an app."""

    app: str
    metric: str
    evaluator_version: str
    confusion: Confusion  #: of samples whose annotators have a majority
    drawn: int  #: how many of these were drawn at random
    weighted: Confusion | None  #: shares of all answers, by the drawn; None without any
    tied: int  #: samples whose annotators are split evenly
    annotators: int
    between_annotators: float | None  #: share of pairs of annotators that agree
    releases: dict[str, int]  #: samples by release of the app
    last_at: datetime

    @property
    def n(self) -> int:
        """How many samples the confusion counts."""
        return int(self.confusion.n)


def labelled_samples(
    connection: Connection,
    *,
    app: str,
    metric: str,
    evaluator_version: str | None = None,
) -> list[LabelledSample]:
    """List what people say of each evaluation of a metric, or of those of one version alone."""
    c = labels.c
    key = (c.sample_id, c.evaluator_version)
    of_metric = (c.app == app) & (c.metric == metric)
    of_metric &= matches(c.evaluator_version, evaluator_version)
    versions = connection.execute(select(c.evaluator_version).where(of_metric).distinct()).scalars()
    numbers = {version: facet(app, metric, version) for version in versions}
    if not numbers:
        return []
    said = (
        select(
            *key, func.max(c.release).label("release"), func.max(c.judge_passed).label("judged"),
            func.sum(c.human_passed).label("passes"), func.count().label("n"),
            func.max(c.drawn).label("drawn"), func.max(c.labelled_at).label("at"),
        )
        .where(of_metric)
        .group_by(*key)
        .subquery()
    )  # fmt: skip
    number = case(numbers, value=said.c.evaluator_version)
    # Not by the view, of which SQLite would read the whole for an outer join.
    at, of = scores.c.position == samples.c.position, scores.c.evaluator_key == number
    query = (
        select(said, scores.c.score)
        .outerjoin(samples, samples.c.sample_id == said.c.sample_id)
        .outerjoin(scores, at & of)
        .order_by(said.c.at, said.c.sample_id)
    )
    return [
        LabelledSample(
            sample_id=row.sample_id, evaluator_version=row.evaluator_version, release=row.release,
            evaluator_passed=bool(row.judged), score=row.score, passes=int(row.passes),
            fails=int(row.n - row.passes), drawn=bool(row.drawn), labelled_at=row.at,
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def verdicts_of_people(
    connection: Connection, sample_ids: Collection[str], metric: str
) -> dict[str, bool]:
    """Return the majority's verdict on each sample that has one."""
    c = labels.c
    voted = (
        select(c.sample_id, c.labelled_by, func.max(c.human_passed).label("good"))
        .where(c.sample_id.in_(list(sample_ids)), c.metric == metric)
        .group_by(c.sample_id, c.labelled_by)
        .subquery()
    )
    query = select(
        voted.c.sample_id, func.sum(voted.c.good), func.count() - func.sum(voted.c.good)
    ).group_by(voted.c.sample_id)
    found = {i: majority(int(p), int(f)) for i, p, f in connection.execute(query)}
    return {sample_id: good for sample_id, good in found.items() if good is not None}


def agreements(
    connection: Connection, *, app: str | None = None, metric: str | None = None
) -> list[Agreement]:
    """Return the agreement of every evaluator version that has labels, by app and metric."""
    c, t = labels.c, streams.c
    key = (c.app, c.metric, c.evaluator_version)
    people = (
        select(*key, func.count(c.labelled_by.distinct()), t.sum_w, t.sum_wy)
        .join(
            streams,
            (t.app == c.app) & (t.metric == c.metric) & (t.segment == ROOT)
            & (t.evaluator_version == c.evaluator_version),
            isouter=True,
        )
        .where(matches(c.app, app), matches(c.metric, metric))
        .group_by(*key, t.sum_w, t.sum_wy)
        .order_by(*key)
    )  # fmt: skip
    found = []
    for of_app, of_metric, version, annotators, sum_w, sum_wy in connection.execute(people).all():
        items = labelled_samples(
            connection, app=of_app, metric=of_metric, evaluator_version=version
        )
        decided = [(item, item.good) for item in items if item.good is not None]
        drawn = [(item, good) for item, good in decided if item.drawn]
        weighted = None
        if drawn and sum_w:
            weights = _weights(
                connection, JudgedStream(of_app, of_metric, version), [item for item, _ in drawn]
            )
            counts = confusion(((item.evaluator_passed, good) for item, good in drawn), weights)
            weighted = counts.at_pass_rate(min(1.0, max(0.0, sum_wy / sum_w)))
        found.append(
            Agreement(
                app=of_app,
                metric=of_metric,
                evaluator_version=version,
                confusion=confusion((item.evaluator_passed, good) for item, good in decided),
                drawn=len(drawn),
                weighted=weighted,
                tied=len(items) - len(decided),
                annotators=int(annotators),
                between_annotators=pairwise_agreement([(i.passes, i.fails) for i in items]),
                releases=dict(Counter(item.release for item in items)),
                last_at=max(item.labelled_at for item in items),
            )
        )
    return found


def _weights(
    connection: Connection, stream: JudgedStream, drawn: Sequence[LabelledSample]
) -> list[float] | None:
    """
    Return how many verdicts each drawn label stands for, by verdict and band of scores.

    None where labels are drawn by verdict alone: all of one verdict then stand for as many.
    """
    lines = read_level_lines(connection, stream)
    if not lines:
        return None
    c = evaluations.c
    newest = _of(stream, None, cascade=False).with_only_columns(c.passed, c.score).limit(_NEWEST)
    scored = Counter(
        (bool(passed), bisect(lines, score_bin(value)))
        for passed, value in connection.execute(newest)
    )
    cells = [(item.evaluator_passed, bisect(lines, score_bin(item.score or 0.0))) for item in drawn]
    labelled = Counter(cells)
    return [max(scored[cell], 1) / labelled[cell] for cell in cells]


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


class JudgeRecheckState(BaseModel):
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
    """Select the judge's verdicts on the newest judged samples of a stream."""
    c = evaluations.c
    query = select(c.passed).where(
        evaluations_of(stream.app, stream.metric),
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
        rejudged.c.sample_id == samples.c.sample_id, rejudged.c.metric == stream.metric,
        rejudged.c.evaluator_version == stream.evaluator_version,
    )  # fmt: skip
    query = (
        _of(stream, since, cascade=cascade)
        .with_only_columns(samples.c.sample_id, c.passed)
        .join(samples, samples.c.position == c.position)
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
    return [bool(passed) for passed in connection.execute(query).scalars()]


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


def read_judge(connection: Connection, metric: str, evaluator_version: str) -> JudgeRecheckState:
    """Read what is known of a judge; an empty state where that is nothing."""
    c = judge_checks.c
    query = select(c.state).where(
        c.app == _ALL_APPS, c.metric == metric, c.evaluator_version == evaluator_version
    )
    found = connection.execute(query).scalar()
    return JudgeRecheckState() if found is None else _recheck_state(found)


def save_judge(
    connection: Connection, metric: str, evaluator_version: str, state: JudgeRecheckState
) -> None:
    """Store what is known of a judge."""
    _write(connection, JudgedStream(_ALL_APPS, metric, evaluator_version), state)


def moved_judges(
    connection: Connection, *, since: datetime
) -> dict[tuple[str, str], JudgeRecheckState]:
    """Return the judges that were found to have moved since then, by metric and version."""
    query = select(judge_checks).where(judge_checks.c.app == _ALL_APPS)
    states = {
        (row.metric, row.evaluator_version): _recheck_state(row.state)
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


def _recheck_state(state: dict[str, Any]) -> JudgeRecheckState:
    # JSON has no minus infinity, where sums begin.
    evidence = dict(state["evidence"])
    sums = tuple(float("-inf") if value is None else value for value in evidence["log_sums"])
    return JudgeRecheckState.model_validate(state | {"evidence": evidence | {"log_sums": sums}})
