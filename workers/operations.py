"""
What operators do over queue and store together: prove that the books balance, forget a person.

`reconcile` proves that every sample which Redis took ended in exactly one place. `forget_user`
deletes one person's data everywhere and keeps the counts: texts and names go from samples,
evaluations, labels, dead letters and alerts, and first what still waits in the queue.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import redis
from sqlalchemy import Connection, func, select

from alerts.store import forget_quotes
from monitor.errors import QueueUnavailableError, RecordError
from monitor.queue import names
from monitor.queue.consumer import Consumer, StreamEntry, translated
from monitor.queue.snapshot import QueueSnapshot, take_snapshot
from monitor.queue.wire import decode, user_of
from monitor.store.columns import record_of
from monitor.store.engine import Store, batched
from monitor.store.ledger import DEAD, Kind, drop_dead_letter, read_totals
from monitor.store.query import HOUR_S, read_marks
from monitor.store.reconcile import (
    ENDED,
    Reconciliation,
    Sum,
    knows_all_buckets,
    sums_of_store,
    window_start,
)
from monitor.store.retention import blank
from monitor.store.sample_index import samples_of_user
from monitor.store.samples import note_act
from monitor.store.tables import dead_letters, evaluations, feedback, hooks, labels, samples
from monitor.store.write import Result
from workers.maintenance import read_counters
from workers.scoring_run import Dead, ScoringRules, commit, expired

FORGOTTEN = "forgotten"
_PAGE = 200
#: What waits is read one by one up to here; beyond, it is only counted.
_MOST_READ = 5_000
#: What an evaluation keeps: what counts, and nothing that was said.
_KEPT = frozenset(
    {"evaluation_id", "evaluator_name", "evaluator_version", "score", "confidence", "timestamp",
     "duration_ms", "cost_usd", "status"}
)  # fmt: skip


def forget_user(
    client: Any, store: Store, user_id: str, *, rules: ScoringRules, who: str,
    now: datetime, dry_run: bool = False,
) -> Counter[str]:  # fmt: skip
    """
    Delete what is known of a user; return how much, by kind. With *dry_run* only count.

    *client* is a redis.Redis, whose annotations mix in what an asynchronous one returns.

    A sample that waits ends as expired; what a worker has in work right now is not stored once it
    is scored. Raise QueueUnavailableError or StoreUnavailableError if Redis or the store does not
    answer; run it again then.
    """
    done: Counter[str] = Counter()
    done["waiting"] = _forget_waiting(client, store, user_id, rules, now, dry_run=dry_run)
    with store.read() as connection:
        sample_ids = samples_of_user(connection, user_id)
        # What evaluators said of these samples: alerts may have quoted it.
        quotes: set[str] = set()
        for batch in batched(sample_ids, _PAGE):
            said = (
                select(evaluations, samples.c.payload)
                .join(samples, samples.c.position == evaluations.c.position)
                .where(samples.c.sample_id.in_(batch))
            )
            records = map(record_of, connection.execute(said))
            quotes.update(record.get("explanation") or "" for record in records)
        quotes.discard("")
        # Dead letters that are, or may be, of the user.
        bodies = select(dead_letters.c.entry_id, dead_letters.c.body)
        letters = [
            entry_id
            for entry_id, body in connection.execute(bodies.where(dead_letters.c.state == DEAD))
            if user_of(bytes(body)) == user_id or user_id.encode() in bytes(body)
        ]
    done["dead letters"] = len(letters)
    if dry_run:
        done["samples"] = len(sample_ids)
        with store.read() as connection:
            done["alerts"] = forget_quotes(connection, quotes, dry_run=True)
        return done
    with store.write() as connection:
        done["alerts"] = forget_quotes(connection, quotes, dry_run=False)
    for batch in batched(sample_ids, _PAGE):
        with store.write() as connection:
            if not store.is_postgresql:
                # Leave no deleted text in free pages; PostgreSQL's vacuum reuses them.
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
            of_user = select(samples.c.trace_id).where(samples.c.sample_id.in_(batch))
            comments = feedback.update().where(feedback.c.trace_id.in_(of_user))
            done["feedback"] += connection.execute(comments.values(comment="")).rowcount
            blank(connection, batch, why=FORGOTTEN, shorten=_shorten)
            done["samples"] += len(batch)
            mine = select(func.count()).where(evaluations.c.sample_id.in_(batch))
            done["evaluations"] += connection.execute(mine).scalar_one()
            notes = labels.update().where(labels.c.sample_id.in_(batch))
            done["labels"] += connection.execute(notes.values(note="")).rowcount
    with store.write() as connection:
        for entry_id in letters:
            drop_dead_letter(connection, entry_id, why=FORGOTTEN)
    done["kept verdicts"] = 0
    if sample_ids or done["waiting"]:
        # All kept verdicts: they quote texts, and none of them says whose.
        with translated(), suppress(redis.ResponseError):
            if keys := client.zrange(names.VERDICTS, 0, -1):
                client.delete(*keys)
            client.delete(names.VERDICTS)
            done["kept verdicts"] = len(keys)
    with store.write() as connection:
        digest = hashlib.sha256(user_id.encode()).hexdigest()[:16]
        note_act(connection, who=who, act="forget", target=f"user sha256:{digest}", at=now)
    return done


def _forget_waiting(
    client: Any, store: Store, user_id: str, rules: ScoringRules, now: datetime, *,
    dry_run: bool,
) -> int:  # fmt: skip
    """Expire the samples of a user that wait in the queue; return how many there are."""
    body = names.FIELD_BODY.encode()
    found, at = [], "-"
    while True:
        with translated():
            page = client.xrange(names.SAMPLES, min=at, count=_PAGE)
        if not page:
            break
        entries = [StreamEntry(entry_id.decode(), fields) for entry_id, fields in page]
        found += [item for item in entries if user_of(item.fields.get(body, b"")) == user_id]
        at = f"({entries[-1].entry_id}"
    if found and not dry_run:
        ended: list[Result | Dead] = []
        for entry in found:
            try:
                ended.append(
                    expired(decode(entry.fields, entry.entry_id), rules, now=now, reason=FORGOTTEN)
                )
            except RecordError as error:
                bare = StreamEntry(entry.entry_id, {**entry.fields, body: b""})
                ended.append(Dead.unreadable(bare, error))
        commit(store, ended, rules, now=now)
        Consumer(client, "forget").acknowledge([entry.entry_id for entry in found])
    return len(found)


def _shorten(record: dict[str, Any]) -> dict[str, Any]:
    """Leave of the record of an evaluation what counts."""
    kept = {name: value for name, value in record.items() if name in _KEPT}
    if isinstance(kept.get("score"), str):
        kept["score"] = None
    if error := record.get("error"):
        code = error.get("code")
        kept["error"] = {"type": error["type"], "message": FORGOTTEN, "code": code}
    return kept | {"target_event_id": "removed", "metadata": {"removed": FORGOTTEN}}


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
    # What all hooks counted: Redis knows the latest, the store those that are gone.
    rows = connection.execute(select(hooks.c.hook_id, hooks.c.counters))
    known: dict[str, Mapping[str, int]] = {row.hook_id: row.counters for row in rows}
    for hook_id, values in snapshot.hooks.items():
        if (latest := read_counters(hook_id, values)) is not None:
            before = known.get(latest.hook_id, {})
            known[latest.hook_id] = {
                name: max(latest.counters.get(name, 0), before.get(name, 0))
                for name in {*latest.counters, *before}
            }
    counted: Counter[str] = Counter()
    for counters in known.values():
        counted.update(counters)
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
        for batch in batched(different, _PAGE):
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
    stored_feedback = sum(
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
        expected=stored_feedback + snapshot.feedback,
        # What waits may be stored already; what a hook gave up at its end may have arrived.
        above=snapshot.feedback,
        below=counted["feedback:shutdown"] + snapshot.feedback,
    )
    lost = Sum(check="lost to the size limit = 0", where="queue", found=snapshot.lost, expected=0)
    return [sent, said, lost], notes
