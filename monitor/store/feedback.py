"""
What users said of answers: kept by trace, joined to the sample of the same trace when it is read.

So it does not matter which of the two comes first, nor whether the interaction was sampled at all:
most are not, and their feedback is counted without an example. Feedback chooses examples and raises
questions. It never makes a level, for who clicks is not drawn at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Connection, and_, func, select

from monitor.models.interaction import AppName, Name
from monitor.stats.intervals import newcombe_interval
from monitor.store.engine import insert_new, rows_of
from monitor.store.ledger import Entry, Kind, book
from monitor.store.tables import counts, feedback, samples

MOST_COMMENT_CHARS = 2_000
#: The last day is compared with so many days before it.
_DAYS_BEFORE = 7
#: A question is raised where chance alone explains the rise in at most one of so many looks.
_CHANCE = 0.001


class Feedback(BaseModel):
    """One user's word on one answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    feedback_id: str = Field(min_length=1, max_length=64)
    app: AppName
    trace_id: Name
    good: bool
    comment: str = Field("", max_length=MOST_COMMENT_CHARS)
    given_at: AwareDatetime


class FeedbackCounts(NamedTuple):
    """What users said of an app in a time range, by traces; the last word of each counts."""

    good: int
    bad: int
    joined: int  #: of these, how many have a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplaintCounts:
    """How often users complain now, and before."""

    good: int
    bad: int
    good_before: int
    bad_before: int

    @property
    def has_risen(self) -> bool:
        """Whether the share of complaints has risen beyond chance (1 in 1,000, at one look)."""
        n, n_before = self.good + self.bad, self.good_before + self.bad_before
        if not n or not n_before:
            return False
        before, now = (self.bad_before, n_before), (self.bad, n)
        return newcombe_interval(before, now, alpha=2 * _CHANCE).low > 0


def save_feedback(
    connection: Connection, found: Sequence[Feedback], *, source: str, now: datetime, bucket_s: int
) -> int:
    """Store feedback that is not there yet and book it; return how much was new."""
    by_id = {item.feedback_id: item for item in found}
    rows = [
        item.model_dump()
        | {
            "good": int(item.good), "comment": item.comment.replace("\0", "\ufffd"),
            "source": source, "given_at": min(item.given_at, now), "received_at": now,
        }
        for _, item in sorted(by_id.items())
    ]  # fmt: skip
    new = insert_new(connection, feedback, rows, returning=feedback.c.feedback_id)
    start_s = int(now.timestamp()) // bucket_s * bucket_s
    stored = [
        Entry(
            by_id[key].app, start_s, Kind.FEEDBACK_STORED,
            f"{source}_{'good' if by_id[key].good else 'bad'}", 1,
        )
        for key in new
    ]  # fmt: skip
    book(connection, stored)
    return len(new)


def feedback_of(connection: Connection, app: str, trace_id: str | None) -> list[Feedback]:
    """List what was said of one trace, oldest first."""
    if not trace_id:
        return []
    mine = select(feedback).where(feedback.c.trace_id == trace_id[:200], feedback.c.app == app)
    rows = rows_of(connection, mine.order_by(feedback.c.given_at))
    return [Feedback.model_validate(row) for row in rows]


def count_feedback(connection: Connection, app: str, *, since: datetime) -> FeedbackCounts:
    """Count the traces of which users said something since then."""
    c = feedback.c
    last = (
        select(c.trace_id, func.max(c.given_at).label("at"))
        .where(c.app == app, c.received_at >= since)
        .group_by(c.trace_id)
        .subquery()
    )
    word = and_(c.app == app, c.trace_id == last.c.trace_id, c.given_at == last.c.at)
    joined = (
        select(samples.c.sample_id)
        .where(samples.c.trace_id == last.c.trace_id, samples.c.app == app)
        .exists()
    )
    query = select(
        func.count(), func.coalesce(func.sum(c.good), 0), func.count().filter(joined)
    ).select_from(last.join(feedback, word))
    n, good, with_sample = connection.execute(query).one()
    return FeedbackCounts(int(good), int(n) - int(good), int(with_sample))


def complained_of(connection: Connection, app: str, *, since: datetime, limit: int) -> list[str]:
    """List the samples of which users complained last, the newest complaint first."""
    c = feedback.c
    query = (
        select(samples.c.sample_id)
        .join(feedback, and_(c.trace_id == samples.c.trace_id, c.app == samples.c.app))
        .where(c.app == app, c.good == 0, c.received_at >= since)
        .group_by(samples.c.sample_id)
        .order_by(func.max(c.received_at).desc())
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def read_complaints(connection: Connection, app: str, *, now: datetime) -> ComplaintCounts:
    """Count good and bad words of the last day, and of the week before it, from the ledger."""
    day_s = int(now.timestamp()) - 24 * 3600
    is_new = (counts.c.start_s >= day_s).label("is_new")
    query = (
        select(counts.c.reason, is_new, func.sum(counts.c.count))
        .where(
            counts.c.app == app,
            counts.c.kind == Kind.FEEDBACK_STORED.value,
            counts.c.start_s >= day_s - _DAYS_BEFORE * 24 * 3600,
        )
        .group_by(counts.c.reason, "is_new")
    )
    found: Counter[tuple[str, bool]] = Counter()
    for reason, new, n in connection.execute(query):
        found[str(reason).rpartition("_")[2], bool(new)] += int(n)
    return ComplaintCounts(
        good=found["good", True],
        bad=found["bad", True],
        good_before=found["good", False],
        bad_before=found["bad", False],
    )
