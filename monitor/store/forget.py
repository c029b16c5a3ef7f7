"""Delete one person's data from the store: texts and names go, counts stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from monitor.queue.wire import user_of
from monitor.store.dead_letters import DEAD, drop_letter
from monitor.store.engine import Store
from monitor.store.retention import blank
from monitor.store.tables import dead_letters, evaluations, labels, samples

FORGOTTEN = "forgotten"
_BATCH = 200
#: What an evaluation keeps: what counts, and nothing that was said.
_KEPT = frozenset(
    {"evaluation_id", "evaluator_name", "evaluator_version", "score", "confidence", "timestamp",
     "duration_ms", "cost_usd", "status"}
)  # fmt: skip


def samples_of(connection: Connection, user_id: str) -> list[str]:
    """List the samples of a user; reads all of them, as nothing is indexed by user."""
    user = samples.c.payload["interaction"]["user_id"].as_string()
    return list(connection.execute(select(samples.c.sample_id).where(user == user_id)).scalars())


def explanations_of(connection: Connection, sample_ids: Sequence[str]) -> set[str]:
    """Collect what evaluators said of these samples: alerts may have quoted it."""
    found: set[str] = set()
    for batch in _batches(sample_ids):
        query = select(evaluations.c.record).where(evaluations.c.sample_id.in_(batch))
        for record in connection.execute(query).scalars():
            found.add(record.get("explanation") or "")
    return found - {""}


def forget_samples(store: Store, sample_ids: Sequence[str]) -> Counter[str]:
    """Empty samples, what evaluators and people said of them; a batch is one transaction."""
    done: Counter[str] = Counter()
    for batch in _batches(sample_ids):
        with store.write() as connection:
            _overwrite_what_is_deleted(connection)
            blank(connection, batch, why=FORGOTTEN)
            done["samples"] += len(batch)
            done["evaluations"] += _empty_evaluations(connection, batch)
            mine = labels.c.sample_id.in_(batch)
            done["labels"] += connection.execute(
                labels.update().where(mine).values(note="")
            ).rowcount
    return done


def _empty_evaluations(connection: Connection, sample_ids: Sequence[str]) -> int:
    query = select(evaluations.c.evaluation_id, evaluations.c.record)
    rows = connection.execute(query.where(evaluations.c.sample_id.in_(sample_ids))).all()
    emptied = [{"of": row.evaluation_id, "record": _emptied(row.record)} for row in rows]
    if emptied:
        mine = evaluations.update().where(evaluations.c.evaluation_id == bindparam("of"))
        record = bindparam("record", type_=evaluations.c.record.type)
        connection.execute(mine.values(record=record), emptied)
    return len(emptied)


def _emptied(record: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in record.items() if name in _KEPT}
    if isinstance(kept.get("score"), str):
        kept["score"] = None
    error = record.get("error")
    if error:
        kept["error"] = {"type": error["type"], "message": FORGOTTEN, "code": error.get("code")}
    return kept | {"target_event_id": "removed", "metadata": {"removed": FORGOTTEN}}


def letters_of(connection: Connection, user_id: str) -> list[str]:
    """List the entries that were set aside and are, or may be, of a user."""
    query = select(dead_letters.c.entry_id, dead_letters.c.body).where(dead_letters.c.state == DEAD)
    return [
        row.entry_id
        for row in connection.execute(query)
        if user_of(bytes(row.body)) == user_id or user_id.encode() in bytes(row.body)
    ]


def forget_letters(store: Store, entry_ids: Iterable[str]) -> None:
    """Delete what these entries hold."""
    with store.write() as connection:
        for entry_id in entry_ids:
            drop_letter(connection, entry_id, why=FORGOTTEN)


def _overwrite_what_is_deleted(connection: Connection) -> None:
    """Leave no deleted text in the free pages of a file; PostgreSQL's vacuum reuses them."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(ids), _BATCH):
        yield ids[first : first + _BATCH]
