"""Prove that every sample which Redis took ended in exactly one place, queue and store together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
        snapshot = take_snapshot(client, most_read=_MOST_READ)
    except QueueUnavailableError as error:
        snapshot = None
        notes.append(f"what waits, and what hooks counted last, is not known: {error}")
    with store.read() as connection:
        # Begin where rows are still kept, and say what is not known because they are gone.
        since_s = window_start(now_s, window_s, bucket_s)
        marks = read_marks(connection, names=("samples", "dead_letters"))
        kept_s = max(-(-mark.kept_from_s // HOUR_S) * HOUR_S for mark in marks.values())
        if kept_s > since_s:
            since_s = kept_s
            notes.append(
                "the window begins later than asked: older samples were deleted by their age"
            )
        if not knows_all_buckets(connection):
            notes.append("streams = buckets is not known: days were deleted by their age")
        sums = list(sums_of_store(connection, since_s=since_s))
        if snapshot is not None:
            of_queue, more = _check_queue(connection, snapshot)
            sums, notes = [*of_queue, *sums], [*notes, *more]
    return Reconciliation(since_s=since_s, sums=sums, notes=notes, complete=snapshot is not None)


def _check_queue(
    connection: Connection, snapshot: QueueSnapshot
) -> tuple[Sequence[Sum], Sequence[str]]:
    """Compare what hooks sent with what ended and what waits; return notes on the rest."""
    counted = _counters(connection, snapshot)
    totals = read_totals(connection).values()
    ended = sum(n for bookings in totals for b, n in bookings.items() if b.kind in ENDED)
    dropped = sum(n for name, n in counted.items() if name.startswith("dropped:"))
    rest = counted["sampled"] - counted["sent"] - dropped
    notes = []
    if rest > 0:
        notes.append(
            f"{rest:,} sampled and neither sent nor dropped: in the memory of apps,"
            " or gone with one that was killed"
        )
    if rest < 0:
        notes.append(
            f"{-rest:,} were given up by a hook and had arrived all the same: Redis took them"
            " and could not say so for a minute"
        )
    # Of those that wait, what is in the store already or waits twice.
    doubles, unread = 0, 0
    if snapshot.sample_ids is None:
        unread = snapshot.waiting
        notes.append(f"{unread:,} wait; which of them are in the store already is not known")
    else:
        ids = [sample_id for sample_id in snapshot.sample_ids if sample_id is not None]
        different = sorted(set(ids))
        stored: set[str | None] = set()
        for first in range(0, len(different), _AT_ONCE):
            batch = different[first : first + _AT_ONCE]
            for table in (samples, dead_letters):
                query = select(table.c.sample_id).where(table.c.sample_id.in_(batch))
                stored.update(connection.execute(query).scalars())
        doubles = len(ids) - len(different) + len(stored)
    sent = Sum(
        check="sent = ended + waiting",
        where="all apps",
        found=counted["sent"],
        expected=ended + snapshot.waiting - doubles,
        # Ids that were not read may be of samples that are in the store already.
        below=unread,
    )
    feedback = sum(
        n
        for bookings in totals
        for b, n in bookings.items()
        if b.kind is Kind.FEEDBACK_STORED
        and (b.reason.startswith("hook_") or b.reason == "unreadable")
    )
    said = Sum(
        check="feedback sent = stored + waiting",
        where="all apps",
        found=counted["feedback:sent"],
        expected=feedback + snapshot.feedback,
        # What waits may be stored already; what a hook gave up at its end may have arrived.
        above=snapshot.feedback,
        below=counted["feedback:shutdown"] + snapshot.feedback,
    )
    lost = Sum(check="lost to the size limit = 0", where="queue", found=snapshot.lost, expected=0)
    return [sent, said, lost], notes


def _counters(connection: Connection, snapshot: QueueSnapshot) -> Counter[str]:
    """Add up what all hooks counted: Redis knows the latest, the store those that are gone."""
    rows = connection.execute(select(hooks.c.hook_id, hooks.c.counters))
    known: dict[str, Mapping[str, int]] = {row.hook_id: row.counters for row in rows}
    for hook_id, values in snapshot.hooks.items():
        latest = read_counters(hook_id, values)
        if latest is not None:
            before = known.get(latest.hook_id, {})
            known[latest.hook_id] = {
                name: max(latest.counters.get(name, 0), before.get(name, 0))
                for name in {*latest.counters, *before}
            }
    total: Counter[str] = Counter()
    for counters in known.values():
        total.update(counters)
    return total
