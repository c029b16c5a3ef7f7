"""
The inverted index beside the samples: what it holds of each, and how it is kept up to date.

Each sample has a *position*, a number that grows with its time, and *facets*: what it can be
filtered by, such as its user, its segments and how each metric ended. SQLite keeps both with the
words of question and answer in an FTS5 table; PostgreSQL in a table with GIN indexes. `write_terms`
is part of the transaction that stores a sample; `monitor.store.search` reads what stands here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, text

from monitor.models import Sample
from monitor.models.status import score_bin
from monitor.queue.names import DOCTOR_APP
from monitor.store.columns import sample_of
from monitor.store.engine import batched
from monitor.store.tables import evaluations, samples

#: Below the milliseconds of a position: tells samples of one millisecond apart. FTS5 keeps with
#: each word how far a position is from that of the sample before, so fewer are a quarter less.
TIE_BITS = {"sqlite": 6, "postgresql": 21}
LATEST_MS = 2**41 - 1
_AT_ONCE = 500
_MOST_QUERY_CHARS, _MOST_OUTPUT_CHARS = 2_000, 6_000
TERMS = "groundwatch_sample_terms"


class Terms(NamedTuple):
    """What the index holds of one sample."""

    position: int
    facets: frozenset[int]
    words: str
    release: int = 0  #: its facet; 0 without one


@lru_cache(maxsize=4096)
def facet(*parts: str) -> int:
    """Return a name such as ``("user", "ann")`` as a signed 64-bit number."""
    name = "\x1f".join(parts).replace("\0", "\ufffd").encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


def terms_of(
    position: int,
    sample: Sample,
    segments: Iterable[str],
    reason: str,
    ended: Iterable[Mapping[str, Any]],
) -> Terms:
    """
    Return what the index holds of a sample.

    *ended* are rows of its evaluations; of each count its metric, evaluator version, score,
    passed and reason.
    """
    it = sample.interaction
    fields = {
        "app": it.app, "release": it.release, "user": it.user_id, "session": it.session_id,
        "trace": it.trace_id,
    }  # fmt: skip
    found = {facet(name, value) for name, value in fields.items() if value}
    found |= {facet("segment", segment) for segment in segments}
    found |= {facet("tag", f"{name}={value}") for name, value in it.tags.items()}
    rows = list(ended)
    passes = {item["passed"] for item in rows}
    overall = "failed" if 0 in passes else "passed" if 1 in passes else "unscored"
    found.add(facet("ended", "", overall))
    if reason:
        found.add(facet("reason", "", reason))
    for item in rows:
        metric, passed = item["metric"], item["passed"]
        name = "unscored" if passed is None else "passed" if passed else "failed"
        found.add(facet("metric", metric))
        found.add(facet("ended", metric, name))
        found.add(facet("evaluator", metric, item["evaluator_version"]))
        if why := item["reason"]:
            found |= {facet("reason", metric, why), facet("reason", "", why)}
        if (score := item["score"]) is not None:
            found.add(facet("bin", metric, name, str(score_bin(score))))
    words = f"{(it.query or '')[:_MOST_QUERY_CHARS]}\n{it.output[:_MOST_OUTPUT_CHARS]}"
    plain = words.replace("\0", " ").encode("utf-8", "replace").decode().strip()
    release = facet("release", it.release) if it.release else 0
    return Terms(position, frozenset(found), plain, release)


def allot_positions(connection: Connection, times_ms: Mapping[str, int]) -> dict[str, int]:
    """
    Return a position for each sample, given by id and epoch milliseconds.

    Where there are more samples of one millisecond than it has places, the rest follows it.
    """
    bits = TIE_BITS[connection.dialect.name]
    placed: dict[str, int] = {}
    taken: set[int] = set()
    waiting, draw = sorted(times_ms), 0
    while waiting:
        drawn = {
            sample_id: (min(max(times_ms[sample_id], 0), LATEST_MS) << bits)
            + facet("position", sample_id, str(draw)) % (1 << bits + draw)
            for sample_id in waiting
        }
        there = select(samples.c.position).where(samples.c.position.in_(list(drawn.values())))
        taken |= set(connection.execute(there).scalars())
        for sample_id, position in drawn.items():
            if position not in taken:
                taken.add(position)
                placed[sample_id] = position
        waiting, draw = [name for name in waiting if name not in placed], draw + 1
    return placed


def write_terms(connection: Connection, items: Iterable[Terms]) -> None:
    """Put samples into the index; ones that are there already are replaced."""
    ordered = sorted(items)
    if not ordered:
        return
    if connection.dialect.name == "sqlite":
        statement = f"INSERT INTO {TERMS} (rowid, words, facets) VALUES (:p, :w, :f)"  # noqa: S608
        rows = [_as_fts5(item) for item in ordered]
    else:
        statement = (
            f"INSERT INTO {TERMS} (position, facets, words)"  # noqa: S608  # ours
            " SELECT p, f, to_tsvector('simple', w)"
            " FROM jsonb_to_recordset(CAST(:rows AS jsonb))"
            " AS given(p bigint, f bigint[], w text) ON CONFLICT (position)"
            " DO UPDATE SET facets = excluded.facets, words = excluded.words"
        )
        # Releases follow each other in time: their own index, on the first element, finds an old
        # one.
        given = [
            {"p": item.position, "f": [item.release, *sorted(item.facets)], "w": item.words}
            for item in ordered
        ]  # fmt: skip
        rows = [{"rows": json.dumps(given, ensure_ascii=False)}]
    connection.execute(text(statement), rows)


def _as_fts5(item: Terms) -> dict[str, Any]:
    facets = " ".join(map(token_of, sorted(item.facets)))
    return {"p": item.position, "f": facets, "w": item.words}


def remove_terms(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Take samples out of the index, before they are deleted or changed."""
    if connection.dialect.name == "sqlite":
        _remove_fts5(connection, _stored_terms(connection, sample_ids))
        return
    placed = samples.c.sample_id.in_(sample_ids) & samples.c.position.is_not(None)
    positions = list(connection.execute(select(samples.c.position).where(placed)).scalars())
    gone = text(f"DELETE FROM {TERMS} WHERE position = ANY(:gone)")  # noqa: S608  # ours
    connection.execute(gone, {"gone": positions})


def replace_terms(connection: Connection, before: Sequence[Terms], after: Iterable[Terms]) -> None:
    """Change what the index holds of samples to *after*; SQLite must know what it was *before*."""
    if connection.dialect.name == "sqlite":
        _remove_fts5(connection, before)
    write_terms(connection, after)


def _remove_fts5(connection: Connection, items: Sequence[Terms]) -> None:
    # The index keeps no texts: what is taken out of it is worked out again.
    statement = (
        f"INSERT INTO {TERMS} ({TERMS}, rowid, words, facets)"  # noqa: S608  # ours
        " VALUES ('delete', :p, :w, :f)"
    )
    if items:
        connection.execute(text(statement), [_as_fts5(item) for item in items])


def _stored_terms(connection: Connection, sample_ids: Sequence[str]) -> list[Terms]:
    """Return what the index holds of stored samples that have a place in it."""
    ended = ended_evaluations(connection, sample_ids)
    placed = samples.c.sample_id.in_(sample_ids) & samples.c.position.is_not(None)
    return [
        terms_of(
            row.position, sample_of(row.payload), row.segments, row.reason,
            ended.get(row.sample_id, ()),
        )
        for row in connection.execute(select(samples).where(placed, samples.c.app != DOCTOR_APP))
    ]  # fmt: skip


def index_stored(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Put stored samples into the index, those without a place as well."""
    missing = samples.c.sample_id.in_(sample_ids) & samples.c.position.is_(None)
    times = select(samples.c.sample_id, samples.c.occurred_at_ms)
    rows = connection.execute(times.where(missing, samples.c.app != DOCTOR_APP))
    if places := allot_positions(connection, {row.sample_id: row.occurred_at_ms for row in rows}):
        moved = samples.update().where(samples.c.sample_id == bindparam("id"))
        connection.execute(
            moved.values(position=bindparam("p")), [{"id": i, "p": p} for i, p in places.items()]
        )
    write_terms(connection, _stored_terms(connection, sample_ids))


def index_older(connection: Connection, limit: int = 200) -> int:
    """Index samples of before there was an index, the newest first; return how many."""
    waiting = (
        select(samples.c.sample_id)
        .where(samples.c.position.is_(None), samples.c.app != DOCTOR_APP)
        .order_by(samples.c.sample_id.desc())
    )
    ids = list(connection.execute(waiting.limit(limit)).scalars())
    if ids:
        index_stored(connection, ids)
    return len(ids)


def samples_of_user(connection: Connection, user_id: str) -> list[str]:
    """List the samples of a user; those that are not in the index yet are read one by one."""
    mark = facet("user", user_id)
    if connection.dialect.name == "sqlite":
        query, value = f"SELECT rowid FROM {TERMS} WHERE {TERMS} MATCH :of", token_of(mark)  # noqa: S608
        positions = connection.execute(text(query), {"of": f"facets : {value}"})
    else:
        query = f"SELECT position FROM {TERMS} WHERE facets @> CAST(:of AS bigint[])"  # noqa: S608
        positions = connection.execute(text(query), {"of": [mark]})
    placed = [int(position) for position in positions.scalars()]
    columns = select(samples.c.sample_id, samples.c.payload)
    batches = [samples.c.position.in_(some) for some in batched(placed, _AT_ONCE)]
    return [
        row.sample_id
        for some in (*batches, samples.c.position.is_(None))
        for row in connection.execute(columns.where(some))
        if row.payload["interaction"].get("user_id") == user_id
    ]


def token_of(number: int) -> str:
    """Return a facet as a word of the FTS5 table."""
    return f"x{number % 2**64:016x}"


def ended_evaluations(
    connection: Connection, sample_ids: Sequence[str]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return how the evaluations of each sample ended, by metric and version."""
    e = evaluations.c
    key = (e.metric, e.evaluator_version)
    query = select(e.sample_id, *key, e.status, e.score, e.passed, e.reason)
    mine = query.where(e.sample_id.in_(sample_ids)).order_by(*key)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in connection.execute(mine).mappings():
        found.setdefault(row["sample_id"], []).append(dict(row))
    return found
