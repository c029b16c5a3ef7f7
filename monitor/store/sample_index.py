"""
What a sample is counted and found by: its segments, and the inverted index beside the samples.

`place` decides which values of a dimension are segments of their own, however many come; `admit` is
the rule, pure. The names of apps are bounded in the same way.

In the index each sample has a *position*, a number that grows with its time, and *facets*: what it
can be filtered by, such as its user, its segments and how each metric ended. SQLite keeps both with
the words of question and answer in an FTS5 table; PostgreSQL in a table with GIN indexes.
`write_terms` is part of the transaction that stores a sample; `monitor.store.search` reads what
stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text, tuple_

from monitor.models import ROOT, Sample
from monitor.models.status import OTHER, score_bin, segment_name
from monitor.queue.names import DOCTOR_APP
from monitor.store.columns import facet, sample_of, segments_of
from monitor.store.engine import among, batched, insert_new, plain_json, put
from monitor.store.tables import dimensions, evaluations, samples, streams

#: The names of apps are bounded like the values of a dimension; this one belongs to no app.
APPS: Final = ("", "app")
_DimensionKey = tuple[str, str]  # app and dimension


class Placed(NamedTuple):
    """Where one sample belongs: its app, its value in each dimension, and its time."""

    app: str
    places: Sequence[tuple[str, str]]
    start_s: int


def place(connection: Connection, items: Sequence[Placed]) -> list[tuple[str, ...]]:
    """
    Return the segments of each sample; a value without a segment of its own goes to the others.

    Only a value that was not known yet costs a lock, on its dimension: writers that see
    known values do not wait for each other.
    """
    seen_at = Counter((item.app, *where) for item in items for where in item.places)
    counts: dict[_DimensionKey, dict[str, int]] = {}
    for (app, dimension, value), n in seen_at.items():
        counts.setdefault((app, dimension), {})[value] = n
    known = _read_censuses(connection, counts)
    new = sorted(
        key
        for key, values in counts.items()
        if key not in known or not known[key].named.keys() >= values.keys()
    )
    if new:
        empty: dict[str, Any] = {"named": {}, "waiting": {}}
        rows = [{"app": key[0], "dimension": key[1], "census": empty} for key in new]
        insert_new(connection, dimensions, rows, returning=dimensions.c.dimension)
        locked = _read_censuses(connection, new, lock=True)
        for key in new:
            seen: dict[str, Seen] = {}
            if len(locked[key].named) + len(counts[key]) > PLACES:
                # How often and when the values with a segment were counted, from their streams.
                app, dimension = key
                n_total, last_s = func.max(streams.c.n_total), func.max(streams.c.last_bucket_s)
                if key == APPS:
                    named = {value: value for value in locked[key].named}
                    column, where = streams.c.app, streams.c.segment == ROOT
                else:
                    named = {segment_name(dimension, value): value for value in locked[key].named}
                    column, where = streams.c.segment, streams.c.app == app
                query = (
                    select(column, n_total, last_s)
                    .where(where, column.in_(list(named)))
                    .group_by(column)
                )
                seen = {
                    named[segment]: Seen(int(n), int(at_s))
                    for segment, n, at_s in connection.execute(query)
                }
            latest_s = max(item.start_s for item in items if item.app == key[0])
            known[key] = admit(locked[key], counts[key], seen, now_s=latest_s)
        rows = [
            {"app": key[0], "dimension": key[1], "census": {
                "named": dict(known[key].named),
                "waiting": {value: list(pair) for value, pair in known[key].waiting.items()},
            }}
            for key in new
        ]  # fmt: skip
        put(connection, dimensions, rows)
    names = {
        (app, dimension, value): segment_name(
            dimension, value if value in known[app, dimension].named else OTHER
        )
        for app, dimension, value in seen_at
    }
    return [tuple(names[item.app, *where] for where in item.places) for item in items]


def _read_censuses(
    connection: Connection, keys: Iterable[_DimensionKey], *, lock: bool = False
) -> dict[_DimensionKey, Census]:
    wanted = sorted(keys)
    if not wanted:
        return {}
    columns = (dimensions.c.app, dimensions.c.dimension)
    query = select(dimensions).where(tuple_(*columns).in_(wanted)).order_by(*columns)
    rows = connection.execute(query.with_for_update() if lock else query)
    return {
        (row.app, row.dimension): Census(
            {value: int(count) for value, count in row.census["named"].items()},
            {value: (int(n), int(error)) for value, (n, error) in row.census["waiting"].items()},
        )
        for row in rows
    }


def read_app_names(connection: Connection) -> Census:
    """Return which apps count under their own names, and which wait for a place."""
    return _read_censuses(connection, [APPS]).get(APPS, Census())


#: Values of a dimension that have a place of their own; and those that are watched for one.
PLACES = 200
_WAITING = 200
#: A value that was not seen for so long gives up its place to a new one.
PATIENCE_S = 7 * 86_400


class Seen(NamedTuple):
    """How often a value with a place was counted, and when last, in epoch seconds."""

    n: int
    last_s: int


@dataclass(frozen=True, slots=True)
class Census:
    """
    Who has a place, and who waits.

    ``named`` gives the count that a value had when it got its place. ``waiting`` gives
    a count and by how much it may be too high: a true count lies between the two.
    """

    named: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def admit(
    census: Census,
    counts: Mapping[str, int],
    seen: Mapping[str, Seen],
    *,
    now_s: int,
    places: int = PLACES,
    waiting: int = _WAITING,
) -> Census:
    """
    Count values, and decide which ones have a place of their own.

    While there is room, a value gets a place when it first comes. Later, one that waits
    takes the place of the least frequent one once it was certainly seen more often, or
    the place of one that has not been seen for a week. Those that wait are counted by
    the Space-Saving algorithm, so that memory stays bounded whatever comes.

    *census* and *counts*: what was known before, and how often each value came now. *seen*: how
    often and when those with a place were counted since they got it; one that is missing was
    not counted yet. *now_s*: epoch seconds of what is counted now. *places* and *waiting*: how
    many values have a place, and how many wait, at most.

    Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
    elements in data streams", ICDT (2005), 398-412.
    """
    named, queue = dict(census.named), dict(census.waiting)
    ranks = {}
    for value, base in named.items():
        count, last_s = seen.get(value, Seen(0, now_s))
        ranks[value] = Seen(base + count, last_s)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        if value in named:
            continue
        if len(named) < places:
            named[value] = 0
            ranks[value] = Seen(counts[value], now_s)
            continue
        if value in queue:
            count, error = queue[value][0] + counts[value], queue[value][1]
        elif len(queue) < waiting:
            count, error = counts[value], 0
        else:  # it takes over the lowest count
            lowest = min(queue, key=lambda other: (queue[other][0], other))
            error = queue.pop(lowest)[0]
            count = error + counts[value]
        least = min(
            ranks, key=lambda other: (not _is_idle(ranks[other], now_s), *ranks[other], other)
        )
        if _is_idle(ranks[least], now_s) or count - error > ranks[least].n:
            del named[least], ranks[least]
            named[value] = count - error - counts[value]
            ranks[value] = Seen(count - error, now_s)
            queue.pop(value, None)
        else:
            queue[value] = (count, error)
    return Census(named, queue)


def _is_idle(seen: Seen, now_s: int) -> bool:
    return now_s - seen.last_s > PATIENCE_S


# --- the index ---

#: Below the milliseconds of a position: tells samples of one millisecond apart. FTS5 keeps with
#: each word how far a position is from that of the sample before, so fewer are a quarter less.
TIE_BITS = {"sqlite": 6, "postgresql": 21}
LATEST_MS = 2**41 - 1
_AT_ONCE = 500
_MOST_QUERY_CHARS, _MOST_OUTPUT_CHARS = 2_000, 6_000
TERMS = "groundwatch_sample_terms"
#: What PostgreSQL's index holds beside words: facets, and the period of 2.3 hours that has the
#: position. So lists of facets and words are read where they meet one period, and nowhere else.
PERIOD_BITS = 44
FOUND = f"(facets || (position >> {PERIOD_BITS}))"


class Terms(NamedTuple):
    """What the index holds of one sample."""

    position: int
    facets: frozenset[int]
    words: str
    release: int = 0  #: its facet; 0 without one
    #: Facets that PostgreSQL's index leaves out, as columns or others say the same, and what it has
    #: in place of a tag and a segment of one name. SQLite's index must know what it held.
    spared: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()


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
    names, tags = set(segments), {f"{name}={value}" for name, value in it.tags.items()}
    found |= {facet("segment", segment) for segment in names} | {facet("tag", tag) for tag in tags}
    rows = list(ended)
    spared = {facet(name, fields[name] or "") for name in ("session", "trace")}
    spared |= {facet("metric", item["metric"]) for item in rows}
    spared |= {facet(kind, name) for kind in ("segment", "tag") for name in names & tags}
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
    release = facet("release", it.release) if it.release else 0
    return Terms(
        position, frozenset(found), words_of(it.query, it.output), release, frozenset(spared),
        frozenset(facet("both", name) for name in names & tags),
    )  # fmt: skip


def words_of(query: str | None, output: str) -> str:
    """Return the text by whose words a sample is found."""
    words = f"{(query or '')[:_MOST_QUERY_CHARS]}\n{output[:_MOST_OUTPUT_CHARS]}"
    # What is stored has another character for NUL; neither is part of a word.
    plain = words.replace("\0", " ").replace("\ufffd", " ")
    return plain.encode("utf-8", "replace").decode().strip()


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
        is_drawn = among(connection, samples.c.position, drawn.values())
        there = select(samples.c.position).where(is_drawn)
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
            # Without the places of words, which are a third: phrases are compared with the sample.
            " SELECT p, f, strip(to_tsvector('simple', w))"
            " FROM jsonb_to_recordset(CAST(:rows AS jsonb))"
            " AS given(p bigint, f bigint[], w text) ON CONFLICT (position)"
            " DO UPDATE SET facets = excluded.facets, words = excluded.words"
        )
        # Releases follow each other in time: their own index, on the first element, finds an old
        # one.
        given = [
            {
                "p": it.position, "w": it.words,
                "f": [it.release, *sorted(it.facets - it.spared - {it.release} | it.joined)],
            }
            for it in ordered
        ]  # fmt: skip
        rows = [{"rows": plain_json(given)}]
    connection.execute(text(statement), rows)


def _as_fts5(item: Terms) -> dict[str, Any]:
    facets = " ".join(map(token_of, sorted(item.facets)))
    return {"p": item.position, "f": facets, "w": item.words}


def remove_terms(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Take samples out of the index, before they are deleted or changed."""
    if connection.dialect.name == "sqlite":
        _remove_fts5(connection, _stored_terms(connection, sample_ids))
        return
    of_these = select(samples.c.position).where(samples.c.sample_id.in_(sample_ids))
    positions = list(connection.execute(of_these).scalars())
    gone = text(f"DELETE FROM {TERMS} WHERE position = ANY(:gone)")  # noqa: S608  # ours
    connection.execute(gone, {"gone": positions})


def replace_terms(connection: Connection, before: Sequence[Terms], after: Iterable[Terms]) -> None:
    """Change what the index holds of samples to *after*; SQLite must know what it was *before*."""
    if connection.dialect.name == "sqlite":
        _remove_fts5(connection, before)
    write_terms(connection, after)


def _remove_fts5(connection: Connection, items: Sequence[Terms]) -> None:
    # The index keeps no texts: what leaves the index is worked out again.
    statement = (
        f"INSERT INTO {TERMS} ({TERMS}, rowid, words, facets)"  # noqa: S608  # ours
        " VALUES ('delete', :p, :w, :f)"
    )
    if items:
        connection.execute(text(statement), [_as_fts5(item) for item in items])


def _stored_terms(connection: Connection, sample_ids: Sequence[str]) -> list[Terms]:
    """Return what the index holds of stored samples that have a place in it."""
    placed = samples.c.sample_id.in_(sample_ids) & (samples.c.position >= 0)
    stored = select(samples).where(placed, samples.c.app != DOCTOR_APP)
    rows = connection.execute(stored).mappings().all()
    ended = ended_evaluations(connection, [row["position"] for row in rows])
    return [
        terms_of(
            row["position"], sample_of(row["payload"]), segments_of(dict(row)), row["reason"],
            ended.get(row["position"], ()),
        )
        for row in rows
    ]  # fmt: skip


def index_stored(connection: Connection, sample_ids: Sequence[str]) -> None:
    """Put stored samples into the index, those without a place as well."""
    missing = samples.c.sample_id.in_(sample_ids) & (samples.c.position < 0)
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
        .where(samples.c.position < 0, samples.c.app != DOCTOR_APP)
        .order_by(samples.c.position.desc())
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
        query = f"SELECT position FROM {TERMS} WHERE {FOUND} @> CAST(:of AS bigint[])"  # noqa: S608
        positions = connection.execute(text(query), {"of": [mark]})
    placed = [int(position) for position in positions.scalars()]
    columns = select(samples.c.sample_id, samples.c.payload)
    batches = [samples.c.position.in_(some) for some in batched(placed, _AT_ONCE)]
    return [
        row.sample_id
        for some in (*batches, samples.c.position < 0)
        for row in connection.execute(columns.where(some))
        if row.payload["interaction"].get("user_id") == user_id
    ]


def token_of(number: int) -> str:
    """Return a facet as a word of the FTS5 table."""
    return f"x{number % 2**64:016x}"


def ended_evaluations(
    connection: Connection, positions: Sequence[int]
) -> dict[int, list[Mapping[str, Any]]]:
    """Return how the evaluations of the sample at each position ended, by metric and version."""
    e = evaluations.c
    key = (e.metric, e.evaluator_version)
    query = select(e.position, *key, e.status, e.score, e.passed, e.reason)
    mine = query.where(among(connection, e.position, positions)).order_by(*key)
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in connection.execute(mine).mappings():
        found.setdefault(row["position"], []).append(dict(row))
    return found
