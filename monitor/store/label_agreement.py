"""
What labels say: the verdict of people on a sample, and how evaluators agree with it.

Several annotators make one verdict by majority. `monitor.store.labels` takes labels in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, case, func, select

from monitor.models import ROOT
from monitor.stats.agreement import Confusion, confusion, majority, pairwise_agreement
from monitor.stats.design import answered_probability
from monitor.store.packing import record_of
from monitor.store.tables import evaluations, labels, matches, samples, streams

#: So many of the newest samples tell the present release.
_PRESENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSample:
    """What all annotators say of one evaluation."""

    sample_id: str
    evaluator_version: str
    release: str
    evaluator_passed: bool
    passes: int
    fails: int
    drawn: bool  #: drawn at random among samples with the same verdict
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
    release: str | None = None,
    drawn_only: bool = False,
) -> list[LabelledSample]:
    """List what people say of each evaluation of a metric; filters narrow it where given."""
    c = labels.c
    key = (c.sample_id, c.evaluator_version)
    drawn = func.max(c.drawn)
    query = (
        select(
            *key, func.max(c.release), func.max(c.judge_passed), func.sum(c.human_passed),
            func.count(), drawn, func.max(c.labelled_at).label("at"),
        )
        .where(c.app == app, c.metric == metric, matches(c.evaluator_version, evaluator_version))
        .where(matches(c.release, release))
        .group_by(*key)
        .having(matches(drawn, 1 if drawn_only else None))
        .order_by("at", c.sample_id)
    )  # fmt: skip
    return [
        LabelledSample(
            sample_id=sample_id, evaluator_version=version, release=of,
            evaluator_passed=bool(judged), passes=int(passes), fails=int(n - passes),
            drawn=bool(drawn), labelled_at=at,
        )
        for sample_id, version, of, judged, passes, n, drawn, at in connection.execute(query)
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


class DrawnLabel(NamedTuple):
    """What people say of a sample that was drawn at random, beside what its evaluator said."""

    score: float
    passed: bool
    good: bool
    release: str
    occurred_s: float
    labelled_s: float
    weight: float = 1.0  #: of a cascade, the inverse probability with which its judge answered


def drawn_labels(
    connection: Connection, *, since: datetime
) -> dict[tuple[str, str, str], list[DrawnLabel]]:
    """
    Read the majority's labels since *since* by app, metric and evaluator version, the oldest first.

    Of samples drawn at random whose evaluation is still there; of a cascade, of those that its
    judge was asked about, which weigh the more the less likely that was.
    """
    c, e = labels.c, evaluations.c
    same = (c.sample_id == e.sample_id) & (c.metric == e.metric)
    recent = select(c.sample_id).where(c.drawn == 1, c.labelled_at >= since)
    query = (
        select(
            labels,
            e.score,
            e.occurred_at_ms,
            e.judged.label("asked"),
            e.evaluation_id,
            e.record,
            case((e.judged == 1, samples.c.payload)).label("payload"),
        )
        .join(samples, samples.c.sample_id == c.sample_id)
        .join(evaluations, same & (c.evaluator_version == e.evaluator_version))
        .where(e.score.is_not(None), c.sample_id.in_(recent))
        .order_by(c.labelled_at, c.sample_id)
    )
    by_sample: dict[tuple[str, ...], list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(query):
        if row.asked != 0:
            by_sample[row.app, row.metric, row.evaluator_version, row.sample_id].append(row)
    found: dict[tuple[str, str, str], list[DrawnLabel]] = defaultdict(list)
    for (app, metric, version, _), rows in by_sample.items():
        passes = sum(row.human_passed for row in rows)
        good = majority(passes, len(rows) - passes)
        if good is not None and any(row.drawn for row in rows):
            first, last = rows[0], rows[-1]
            noted = (record_of(first).get("metadata") or {}) if first.asked else {}
            probability = answered_probability(
                noted.get("judge_probability", 1.0), noted.get("answered_share", 1.0)
            )
            found[app, metric, version].append(
                DrawnLabel(
                    first.score, bool(first.judge_passed), good, first.release,
                    first.occurred_at_ms / 1000, last.labelled_at.timestamp(), 1.0 / probability,
                )
            )  # fmt: skip
    for many in found.values():
        many.sort(key=lambda label: label.labelled_s)
    return dict(found)


def present_release(connection: Connection, app: str) -> str:
    """Return the release that most of an app's newest samples are of; empty if they name none."""
    query = select(samples.c.release).where(samples.c.app == app)
    newest = connection.execute(query.order_by(samples.c.occurred_at_ms.desc()).limit(_PRESENT))
    counts = Counter(of or "" for of in newest.scalars())
    return counts.most_common(1)[0][0] if counts else ""


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
        drawn = [(item.evaluator_passed, good) for item, good in decided if item.drawn]
        weighted = None
        if drawn and sum_w:
            weighted = confusion(drawn).at_pass_rate(min(1.0, max(0.0, sum_wy / sum_w)))
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
