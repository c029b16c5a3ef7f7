"""Prove that every sample which Redis took ended in exactly one place, queue and store together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import redis
from sqlalchemy import Connection, select

from monitor.errors import QueueUnavailableError
from monitor.queue.snapshot import QueueSnapshot, take_snapshot
from monitor.store.engine import Store
from monitor.store.ledger import Kind, read_totals
from monitor.store.reconcile import (
    ENDED,
    Reconciliation,
    Sum,
    knows_all_buckets,
    sums_of_store,
    window_start,
)
from monitor.store.rollup import HOUR_S, read_marks
from monitor.store.tables import dead_letters, hooks, samples
from workers.maintenance import read_counters

#: What waits is read one by one up to here; beyond, it is only counted.
_MOST_READ = 5_000
_AT_ONCE = 500


@dataclass(slots=True)
class _Queue:
    """What is known of the way from the hooks to the store, as of one look at both."""

    sent: int = 0
    ended: int = 0
    waiting: int = 0
    doubles: int = 0  #: of those that wait, what is in the store already or waits twice
    counted: bool = True  #: whether it is known how many are doubles
    notes: list[str] = field(default_factory=list)


def reconcile(
    client: redis.Redis, store: Store, *, now_s: float, window_s: float, bucket_s: int
) -> Reconciliation:
    """
    Compare every sum with its counterpart, over the last *window_s* seconds where it is of rows.

    Redis is read first: what is stored meanwhile is then found twice, and recognised by
    its id, rather than not at all. Without Redis the store is compared with itself.
    """
    notes: list[str] = []
    try:
        census = take_snapshot(client, most_read=_MOST_READ)
    except QueueUnavailableError as error:
        census = None
        notes.append(f"what waits, and what hooks counted last, is not known: {error}")
    with store.read() as connection:
        since_s = window_start(now_s, window_s, bucket_s)
        since_s, more = _kept_since(connection, since_s)
        notes += more
        sums = list(sums_of_store(connection, since_s=since_s))
        if census is not None:
            found = _queue(connection, census)
            notes += found.notes
            sums = [*_of_queue(found, census), *sums]
    return Reconciliation(since_s=since_s, sums=sums, notes=notes, complete=census is not None)


def _kept_since(connection: Connection, since_s: int) -> tuple[int, Sequence[str]]:
    """Begin where rows are still kept, and say what is not known because they are gone."""
    notes = []
    marks = read_marks(connection, names=("samples", "dead_letters"))
    kept_s = max(-(-mark.kept_from_s // HOUR_S) * HOUR_S for mark in marks.values())
    if kept_s > since_s:
        notes.append("the window begins later than asked: older samples were deleted by their age")
    if not knows_all_buckets(connection):
        notes.append("streams = buckets is not known: days were deleted by their age")
    return max(since_s, kept_s), notes


def _of_queue(found: _Queue, census: QueueSnapshot) -> Iterator[Sum]:
    known = found.doubles if found.counted else 0
    yield Sum(
        check="sent = ended + waiting",
        where="all apps",
        found=found.sent,
        expected=found.ended + found.waiting - known,
        # Ids that were not read may be of samples that are in the store already.
        below=0 if found.counted else found.waiting,
    )
    yield Sum(check="lost to the size limit = 0", where="queue", found=census.lost, expected=0)


def _queue(connection: Connection, census: QueueSnapshot) -> _Queue:
    found = _Queue(waiting=census.waiting)
    counted = _latest(connection, census)
    found.sent = counted["sent"]
    ended = Counter[Kind]()
    for bookings in read_totals(connection).values():
        for booking, n in bookings.items():
            ended[booking.kind] += n
    found.ended = sum(ended[kind] for kind in ENDED)
    dropped = sum(n for name, n in counted.items() if name.startswith("dropped:"))
    rest = counted["sampled"] - counted["sent"] - dropped
    if rest > 0:
        found.notes.append(
            f"{rest:,} sampled and neither sent nor dropped: in the memory of apps,"
            " or gone with one that was killed"
        )
    if rest < 0:
        found.notes.append(
            f"{-rest:,} were given up by a hook and had arrived all the same: Redis took them"
            " and could not say so for a minute"
        )
    if census.sample_ids is None:
        found.counted = False
        found.notes.append(
            f"{census.waiting:,} wait; which of them are in the store already is not known"
        )
    else:
        found.doubles = _doubles(connection, census.sample_ids)
    return found


def _latest(connection: Connection, census: QueueSnapshot) -> Counter[str]:
    """Add up what all hooks told: Redis knows the latest, the store those that are gone."""
    rows = connection.execute(select(hooks.c.hook_id, hooks.c.counters))
    known: dict[str, Mapping[str, int]] = {row.hook_id: row.counters for row in rows}
    for hook_id, values in census.hooks.items():
        told = read_counters(hook_id, values)
        if told is not None:
            before = known.get(told.hook_id, {})
            known[told.hook_id] = {
                name: max(told.counters.get(name, 0), before.get(name, 0))
                for name in {*told.counters, *before}
            }
    total: Counter[str] = Counter()
    for counters in known.values():
        total.update(counters)
    return total


def _doubles(connection: Connection, sample_ids: Sequence[str | None]) -> int:
    """Count those that are in the store already, or wait behind one of the same id."""
    ids = [sample_id for sample_id in sample_ids if sample_id is not None]
    different = sorted(set(ids))
    stored: set[str] = set()
    for first in range(0, len(different), _AT_ONCE):
        batch = different[first : first + _AT_ONCE]
        for table in (samples, dead_letters):
            query = select(table.c.sample_id).where(table.c.sample_id.in_(batch))
            stored.update(connection.execute(query).scalars())
    return len(ids) - len(different) + len(stored)
