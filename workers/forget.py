"""
Delete one person's data everywhere: store, alerts, queue and cache; counts stay.

Texts and names go from samples, evaluations, labels, dead letters and alerts. First what
still waits in the queue, so that nothing comes behind.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import redis
from sqlalchemy import func, select

from alerts.store import forget_quotes
from monitor.errors import RecordError
from monitor.queue import names
from monitor.queue.consumer import Consumer, StreamEntry, translated
from monitor.queue.wire import decode, user_of
from monitor.store.engine import Store
from monitor.store.ledger import DEAD, drop_dead_letter
from monitor.store.packing import record_of
from monitor.store.retention import blank
from monitor.store.sample_index import samples_of_user
from monitor.store.samples import note_act
from monitor.store.tables import dead_letters, evaluations, feedback, labels, samples
from monitor.store.write import Result
from workers.scoring_run import Dead, ScoringRules, commit, expired

FORGOTTEN = "forgotten"
_PAGE = 200
#: What an evaluation keeps: what counts, and nothing that was said.
_KEPT = frozenset(
    {"evaluation_id", "evaluator_name", "evaluator_version", "score", "confidence", "timestamp",
     "duration_ms", "cost_usd", "status"}
)  # fmt: skip


def forget_user(
    client: redis.Redis,
    store: Store,
    user_id: str,
    *,
    rules: ScoringRules,
    who: str,
    now: datetime,
    dry_run: bool = False,
) -> Counter[str]:
    """
    Delete what is known of a user; return how much, by kind. With *dry_run* only count.

    A sample that waits ends as expired; what a worker has in work right now is not
    stored once it is scored.

    Raises
    ------
    QueueUnavailableError, StoreUnavailableError
        If Redis or the store does not answer; run it again then.
    """
    done: Counter[str] = Counter()
    done["waiting"] = _forget_waiting(client, store, user_id, rules, now, dry_run=dry_run)
    with store.read() as connection:
        sample_ids = samples_of_user(connection, user_id)
        # What evaluators said of these samples: alerts may have quoted it.
        quotes: set[str] = set()
        for batch in _batches(sample_ids):
            said = (
                select(evaluations.c.evaluation_id, evaluations.c.record, samples.c.payload)
                .join(samples, samples.c.sample_id == evaluations.c.sample_id)
                .where(evaluations.c.sample_id.in_(batch))
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
    for batch in _batches(sample_ids):
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
        anything: Any = client
        with translated(), suppress(redis.ResponseError):
            if keys := anything.zrange(names.VERDICTS, 0, -1):
                anything.delete(*keys)
            anything.delete(names.VERDICTS)
            done["kept verdicts"] = len(keys)
    with store.write() as connection:
        digest = hashlib.sha256(user_id.encode()).hexdigest()[:16]
        note_act(connection, who=who, act="forget", target=f"user sha256:{digest}", at=now)
    return done


def _forget_waiting(
    client: redis.Redis,
    store: Store,
    user_id: str,
    rules: ScoringRules,
    now: datetime,
    *,
    dry_run: bool,
) -> int:
    """Expire the samples of a user that wait in the queue; return how many there are."""
    anything: Any = client
    body = names.FIELD_BODY.encode()
    found, at = [], "-"
    while True:
        with translated():
            page = anything.xrange(names.SAMPLES, min=at, count=_PAGE)
        if not page:
            break
        entries = [StreamEntry(entry_id.decode(), fields) for entry_id, fields in page]
        found += [item for item in entries if user_of(item.fields.get(body, b"")) == user_id]
        at = f"({entries[-1].entry_id}"
    if found and not dry_run:
        ended: list[Result | Dead] = []
        for entry in found:
            try:
                ended.append(expired(decode(entry.fields), rules, now=now, reason=FORGOTTEN))
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


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(ids), _PAGE):
        yield ids[first : first + _PAGE]
