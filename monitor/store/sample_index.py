"""
The inverted index beside the samples: what it holds of each, and how it is kept up to date.

Each sample has a *position*, a number that grows with its time, and *facets*: what it can be
filtered by, such as its user, its segments and how each metric ended. SQLite keeps both with the
words of question and answer in an FTS5 table; PostgreSQL in a table with GIN indexes. `write_terms`
is part of the transaction that stores a sample; `monitor.store.search` reads what stands here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, text

from monitor.models import Sample
from monitor.queue.names import DOCTOR_APP
from monitor.store.samples import REASON
from monitor.store.tables import evaluations, samples

#: Below the milliseconds of a position: tells samples of one millisecond apart.
TIE_BITS = 21


LATEST_MS = 2**41 - 1


_MOST_QUERY_CHARS, _MOST_OUTPUT_CHARS = 2_000, 6_000


TERMS = "groundwatch_sample_terms"


class Ended(NamedTuple):
    """How one evaluation of a sample ended, as facets need it."""

    metric: str
    evaluator_version: str
    score: float | None
    passed: bool | None
    reason: str


class Terms(NamedTuple):
    """What the index holds of one sample."""

    position: int
    sample_id: str
    facets: frozenset[int]
    words: str
    release: int = 0  #: its facet; 0 without one


def facet(*parts: str) -> int:
    """Return a name such as ``("user", "ann")`` as a signed 64-bit number."""
    name = "\x1f".join(parts).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


def score_bin(score: float) -> int:
    """Return the bin of a score, from 0 to 100, as the buckets' histograms count it."""
    return min(100, max(0, round(100 * score)))


def terms_of(
    position: int, sample: Sample, segments: Iterable[str], reason: str, ended: Sequence[Ended]
) -> Terms:
    """Return what the index holds of a sample."""
    it = sample.interaction
    fields = {
        "app": it.app, "release": it.release, "user": it.user_id, "session": it.session_id,
        "trace": it.trace_id, "id": it.id,
    }  # fmt: skip
    found = {facet(name, value) for name, value in fields.items() if value}
    found |= {facet("segment", segment) for segment in segments}
    found |= {facet("tag", f"{name}={value}") for name, value in it.tags.items()}
    passes = {item.passed for item in ended}
    overall = "failed" if False in passes else "passed" if True in passes else "unscored"
    found.add(facet("ended", "", overall))
    if reason:
        found.add(facet("reason", "", reason))
    for item in ended:
        name = "unscored" if item.passed is None else "passed" if item.passed else "failed"
        found.add(facet("metric", item.metric))
        found.add(facet("ended", item.metric, name))
        found.add(facet("evaluator", item.metric, item.evaluator_version))
        if item.reason:
            found |= {facet("reason", item.metric, item.reason), facet("reason", "", item.reason)}
        if item.score is not None:
            found.add(facet("bin", item.metric, name, str(score_bin(item.score))))
    words = f"{(it.query or '')[:_MOST_QUERY_CHARS]}\n{it.output[:_MOST_OUTPUT_CHARS]}"
    plain = words.replace("\0", " ").encode("utf-8", "replace").decode().strip()
    release = facet("release", it.release) if it.release else 0
    return Terms(position, sample.sample_id, frozenset(found), plain, release)


def allot_positions(connection: Connection, times_ms: Mapping[str, int]) -> dict[str, int]:
    """Return a position for each sample, given by id and epoch milliseconds."""
    placed: dict[str, int] = {}
    taken: set[int] = set()
    waiting, draw = sorted(times_ms), 0
    while waiting:
        drawn = {
            sample_id: (min(max(times_ms[sample_id], 0), LATEST_MS) << TIE_BITS)
            | (facet("position", sample_id, str(draw)) & ((1 << TIE_BITS) - 1))
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
        statement = f"INSERT OR REPLACE INTO {TERMS} (rowid, facets, words) VALUES (:p, :f, :w)"  # noqa: S608
        rows = [
            {"p": item.position, "f": " ".join(map(token_of, sorted(item.facets))), "w": item.words}
            for item in ordered
        ]
    else:
        statement = (
            f"INSERT INTO {TERMS} (position, sample_id, facets, words)"  # noqa: S608  # ours
            " VALUES (:p, :s, CAST(:f AS bigint[]), to_tsvector('simple', :w))"
            " ON CONFLICT (sample_id) DO UPDATE SET position = excluded.position,"
            " facets = excluded.facets, words = excluded.words"
        )
        rows = [
            {"p": item.position, "s": item.sample_id, "f": _release_first(item), "w": item.words}
            for item in ordered
        ]
    connection.execute(text(statement), rows)


def _release_first(item: Terms) -> list[int]:
    # Releases follow each other in time: their own index, on the first element, finds an old one.
    return [item.release, *sorted(item.facets)]


def remove_terms(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Take samples out of the index, before they are deleted or changed."""
    of = select(samples.c.position).where(samples.c.sample_id.in_(sample_ids))
    rows = [{"p": p} for p in connection.execute(of).scalars() if p is not None]
    if rows:
        key = "rowid" if connection.dialect.name == "sqlite" else "position"
        connection.execute(text(f"DELETE FROM {TERMS} WHERE {key} = :p"), rows)  # noqa: S608


def index_stored(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Bring the index up to date with stored samples."""
    mine = samples.c.sample_id.in_(sample_ids)
    rows = connection.execute(select(samples).where(mine, samples.c.app != DOCTOR_APP)).all()
    remove_terms(connection, sample_ids)
    without = {row.sample_id: row.occurred_at_ms for row in rows if row.position is None}
    places = allot_positions(connection, without)
    if places:
        moved = samples.update().where(samples.c.sample_id == bindparam("id"))
        connection.execute(
            moved.values(position=bindparam("p")), [{"id": i, "p": p} for i, p in places.items()]
        )
    ended: dict[str, list[Ended]] = {}
    for item in ended_evaluations(connection, sample_ids):
        passed = None if item.passed is None else bool(item.passed)
        found = Ended(item.metric, item.evaluator_version, item.score, passed, item.reason)
        ended.setdefault(item.sample_id, []).append(found)
    write_terms(connection, [
        terms_of(
            places.get(row.sample_id, row.position), Sample.model_validate(row.payload),
            row.segments, row.reason, ended.get(row.sample_id, ()),
        )
        for row in rows
    ])  # fmt: skip


def index_older(connection: Connection, limit: int = 200) -> int:
    """Index samples of before there was an index, the newest first; return how many."""
    waiting = select(samples.c.sample_id).where(
        samples.c.position.is_(None), samples.c.app != DOCTOR_APP
    )
    ids = list(
        connection.execute(waiting.order_by(samples.c.sample_id.desc()).limit(limit)).scalars()
    )
    if ids:
        index_stored(connection, ids)
    return len(ids)


def token_of(number: int) -> str:
    """Return a facet as a word of the FTS5 table."""
    return f"x{number % 2**64:016x}"


def ended_evaluations(connection: Connection, sample_ids: Sequence[str]) -> Sequence[Any]:
    """Return how the evaluations of samples ended, by metric and version."""
    e = evaluations.c
    query = select(
        e.sample_id, e.metric, e.evaluator_version, e.status, e.score, e.passed,
        REASON.label("reason"),
    ).where(e.sample_id.in_(sample_ids))  # fmt: skip
    return connection.execute(query.order_by(e.metric, e.evaluator_version)).all()
