"""
Which sample a person labels next: drawn at random, half from passes and half from fails.

The draw is by a hash of the sample's id, so that everybody is offered the same samples in the same
order, a queue resumes where it stopped, and nothing about an answer decides whether it is drawn.
Only samples of the present release are drawn, by the present evaluator: labels hold for these.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, select

from monitor.models.passing import OWN, OWN_LEARNT_AT
from monitor.stats.level import level_bin
from monitor.store.query import read_first_scores
from monitor.store.tables import evaluations, labels, samples

#: Drawn among so many of the newest verdicts, so that a draw costs the same however many there are.
_NEWEST = 2_000
#: The release that most of so many of the newest samples are of is the present one.
_PRESENT = 50
#: One sample in so many is offered to a second annotator, so that their agreement is known.
_TWICE_EVERY = 5
#: So many labels settle a level; see `monitor.stats`.
ENOUGH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQueue:
    """The next sample to label, and how far the labels of the present release have come."""

    app: str
    metric: str
    release: str
    evaluator_version: str
    sample_id: str | None  #: None when nothing is left to label
    passes: int  #: samples labelled so far that the evaluator passed
    fails: int

    @property
    def n(self) -> int:
        """How many samples have labels of anyone."""
        return self.passes + self.fails


def draw(
    connection: Connection,
    *,
    app: str,
    metric: str,
    annotator: str,
    skip: Collection[str] = (),
) -> LabelQueue | None:
    """
    Draw the next sample for *annotator*, who passes over those in *skip*; None without verdicts.

    First what annotators are split over, then what wants a second annotator, then new samples of
    the verdict that has fewer labels. Where the pass line is an app's own, hardly anything lies
    below it: there scores count as high or low by the line that teaches most of the level.
    """
    columns = evaluations.c
    query = (
        select(
            columns.sample_id, columns.passed, columns.evaluator_version, samples.c.release,
            columns.score,
        )
        .join(samples, samples.c.sample_id == columns.sample_id)
        .where(
            columns.app == app, columns.metric == metric, columns.passed.is_not(None),
            samples.c.interaction_id != "removed",
        )
        .order_by(columns.occurred_at_ms.desc())
        .limit(_NEWEST)
    )  # fmt: skip
    rows = [
        (i, bool(passed), (v, r or ""), score)
        for i, passed, v, r, score in connection.execute(query)
    ]
    if not rows:
        return None
    (version, present), _ = Counter(row[2] for row in rows[:_PRESENT]).most_common(1)[0]
    first = read_first_scores(connection, (app, metric, version)) if version.endswith(OWN) else {}
    line = level_bin(first) if sum(first.values()) >= OWN_LEARNT_AT[0] else None
    drawn = {
        i: passed if line is None else round(100 * score) >= line
        for i, passed, of, score in rows
        if of == (version, present)
    }
    of_stream = (
        (labels.c.app == app) & (labels.c.metric == metric) & (labels.c.release == present)
        & (labels.c.evaluator_version == version)
    )  # fmt: skip
    said = select(
        labels.c.sample_id, labels.c.labelled_by, labels.c.judge_passed, labels.c.human_passed
    )
    votes: dict[str, dict[str, bool]] = {}
    judged: dict[str, bool] = {}
    for sample_id, who, passed, good in connection.execute(said.where(of_stream)):
        votes.setdefault(sample_id, {})[who] = bool(good)
        judged[sample_id] = bool(passed)
    counts = Counter(judged.values())
    halves = Counter(drawn.get(sample_id, passed) for sample_id, passed in judged.items())
    fewer = halves[True] <= halves[False]

    def place(sample_id: str) -> tuple[int, bytes] | None:
        by = votes.get(sample_id, {})
        if sample_id in skip or annotator in by:
            return None
        order = _order(sample_id)
        if len(by) > 1 and 2 * sum(by.values()) == len(by):
            return 0, order
        if len(by) == 1 and order[0] % _TWICE_EVERY == 0:
            return 1, order
        return (2 if drawn[sample_id] == fewer else 3, order) if not by else None

    places = ((found, sample_id) for sample_id in drawn if (found := place(sample_id)))
    return LabelQueue(
        app=app,
        metric=metric,
        release=present,
        evaluator_version=version,
        sample_id=min(places, default=(None, None))[1],
        passes=counts[True],
        fails=counts[False],
    )


class SamplePair(NamedTuple):
    """One sample from before a moment, and one from after it."""

    before: str
    after: str

    @property
    def shuffled(self) -> tuple[str, ...]:
        """Both, in an order that does not tell which is which."""
        return tuple(sorted(self, key=lambda sample_id: _order(sample_id, "side")))


def draw_pairs(
    connection: Connection, *, app: str, metric: str, at: datetime, most: int
) -> list[SamplePair]:
    """
    Draw up to *most* pairs at random, among the newest verdicts before and after *at*.

    Every call draws the same pairs in the same order, as long as the samples are there.
    """
    at_ms = round(at.timestamp() * 1000)
    columns = evaluations.c
    sides = []
    for within in (columns.occurred_at_ms < at_ms, columns.occurred_at_ms >= at_ms):
        query = (
            select(columns.sample_id)
            .join(samples, samples.c.sample_id == columns.sample_id)
            .where(
                columns.app == app, columns.metric == metric, columns.passed.is_not(None), within,
                samples.c.interaction_id != "removed",
            )
            .order_by(columns.occurred_at_ms.desc())
            .limit(_NEWEST)
        )  # fmt: skip
        found = set(connection.execute(query).scalars())
        sides.append(sorted(found, key=lambda sample_id: _order(sample_id, "pair"))[:most])
    return [SamplePair(*pair) for pair in zip(*sides, strict=False)]


def _order(sample_id: str, purpose: str = "") -> bytes:
    """Return the place of a sample in a draw: a hash, which nothing about the answer decides."""
    return hashlib.blake2b(f"{purpose}{sample_id}".encode(), digest_size=8).digest()
