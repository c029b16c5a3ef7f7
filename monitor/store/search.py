"""
Find the samples that a filter wants, in pages, and the neighbours of one.

The lists of positions that `monitor.store.sample_index` keeps for each facet intersect in order. A
page is read by position, so the thousandth costs as much as the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Connection, LargeBinary, select, text, type_coerce

from monitor.models.status import BINS, score_bin
from monitor.queue.names import DOCTOR_APP
from monitor.store import Sort
from monitor.store.columns import decompressed, epoch_ms, facet, time_of
from monitor.store.engine import among
from monitor.store.sample_filter import NO_SAMPLE, SampleFilter
from monitor.store.sample_index import (
    FOUND,
    LATEST_MS,
    PERIOD_BITS,
    TERMS,
    TIE_BITS,
    ended_evaluations,
    token_of,
    words_of,
)
from monitor.store.samples import why_no_texts
from monitor.store.tables import evaluations, labels, samples

_NEAR, _FAR, _FEW, _FEWEST = 3_000, 60_000, 2_500, 300
#: So many among the nearest say how frequent a sample is; of more than a few, a part has a page.
_TELLING, _PARTS = 4, (100, 25, 4)
_BINS_AT_ONCE = 10
#: Samples that are read at once to compare them with a phrase.
_MOST_COMPARED = 2_000
#: What PostgreSQL passes over between two words, in JSON: escapes and punctuation; and tags and
#: entities, where it takes for such what looks so. Each sign is read in one way only, so that the
#: time is linear; possessive groups would do as well, but lose signs before Python 3.11.5.
_BETWEEN = (
    r"""(?:\\["\\nrtbf]|</?[a-z!?][^<>]*>|&#?\w+;|<(?!/?[a-z!?][^<>]*>)|&(?!#?\w+;)|[^\w\\<&]|_)+""",
    r"""(?:\\["\\nrtbf]|[^\w\\]|_)+""",
)
#: More are three weeks; GIN takes the square of their number.
_MOST_PERIODS = 200
#: An index is read for its lists then, never in order.
_OFF = (
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true)"
)


class FoundEvaluation(BaseModel):
    """How one evaluation of a sample ended; ``passed`` is null where it enters no rate."""

    model_config = ConfigDict(frozen=True)

    metric: str
    evaluator_version: str
    status: str
    score: float | None
    passed: bool | None
    reason: str


class FoundSample(BaseModel):
    """A sample as a list shows it, with how its evaluations ended and what people said."""

    model_config = ConfigDict(frozen=True)

    sample_id: str
    app: str
    occurred_at: AwareDatetime
    query: str | None
    output: str
    release: str | None
    user_id: str | None
    session_id: str | None
    trace_id: str | None
    tags: dict[str, str]
    tool_calls: int = Field(description="How many tools were called on the way to the answer.")
    no_texts: str = Field(
        description="Why it has no texts: not_captured, forgotten or another; empty if it has."
    )
    outcome: str
    reason: str
    evaluations: tuple[FoundEvaluation, ...]
    labels: dict[str, bool] = Field(description="By metric, whether people let it pass.")


@dataclass(frozen=True, slots=True)
class SamplePage:
    """One page of a list, and the cursor of the next."""

    items: Sequence[FoundSample]
    next: str | None


def find_samples(
    connection: Connection,
    wanted: SampleFilter,
    *,
    apps: Collection[str] | None = None,
    sort: Sort = Sort.NEWEST,
    cursor: str = "",
    limit: int = 50,
) -> SamplePage:
    """
    Return one page of the samples that *wanted* names.

    Of *apps* only, unless that is None; *cursor* is `SamplePage.next` of the page before. Raise
    ValueError if the cursor is not one of this order, or an order by score has no metric.
    """
    by_score = sort in {Sort.LOWEST, Sort.HIGHEST}
    first_bin, at = _read_cursor(cursor, by_score=by_score)
    if not by_score:
        found = [(0, p) for p in _positions(connection, wanted, apps, (), sort, at, limit + 1)]
    else:
        if not wanted.metric:
            raise ValueError("an order by score needs a metric")
        bins = list(range(BINS) if sort is Sort.LOWEST else reversed(range(BINS)))
        found = []
        if first_bin is not None:
            bins = bins[bins.index(first_bin) + 1 :]
            found = _of_bins(connection, wanted, apps, [first_bin], at, limit + 1)
        for begins in range(0, len(bins), _BINS_AT_ONCE):
            if (more := limit + 1 - len(found)) > 0:
                these = bins[begins : begins + _BINS_AT_ONCE]
                found += _of_bins(connection, wanted, apps, these, None, more)
    shown, after = found[:limit], None
    if len(found) > limit:
        number, position = shown[-1]
        after = f"{number}.{position}" if by_score else str(position)
    return SamplePage(_read(connection, [position for _, position in shown]), after)


def _of_bins(
    connection: Connection,
    wanted: SampleFilter,
    apps: Collection[str] | None,
    bins: Sequence[int],
    at: int | None,
    limit: int,
) -> list[tuple[int, int]]:
    """Return bins and positions of the samples with a score in *bins*, in their order."""
    any_of = wanted.bins(bins) or [NO_SAMPLE]
    found = _positions(connection, wanted, apps, any_of, Sort.NEWEST, at, limit)
    if len(bins) == 1:
        return [(bins[0], position) for position in found]
    if len(found) == limit:
        of_bins: list[tuple[int, int]] = []
        for number in bins:
            if (more := limit - len(of_bins)) > 0:
                of_bins += _of_bins(connection, wanted, apps, [number], at, more)
        return of_bins
    # Most bins have few samples: they are found in one look, and sorted by their scores.
    query = select(evaluations.c.score, evaluations.c.position).where(
        evaluations.c.position.in_(found),
        evaluations.c.metric == wanted.metric,
        evaluations.c.passed.is_not(None),
        evaluations.c.score.is_not(None),
    )
    scored = {(score_bin(row.score), row.position) for row in connection.execute(query)}
    placed = [(number, position) for number, position in scored if number in bins]
    return sorted(placed, key=lambda one: (bins.index(one[0]), -one[1]))


def _read_cursor(cursor: str, *, by_score: bool) -> tuple[int | None, int | None]:
    if not cursor:
        return None, None
    number, dot, position = cursor.rpartition(".")
    digits = (number if dot else "0", position)
    readable = all(re.fullmatch(r"[0-9]{1,19}", part) for part in digits)
    in_range = readable and int(digits[0]) in range(BINS) and int(position) < 2**63
    if bool(dot) != by_score or not in_range:
        raise ValueError("the cursor is not one of this list; begin again without one")
    return (int(number) if dot else None), int(position)


class Neighbours(NamedTuple):
    """The samples beside one in a list; None at its ends."""

    newer: str | None
    older: str | None


def neighbours(
    connection: Connection, wanted: SampleFilter, sample_id: str, apps: Collection[str] | None
) -> Neighbours:
    """Return the next newer and older sample that *wanted* names."""
    of = select(samples.c.position).where(samples.c.sample_id == sample_id)
    position = connection.execute(of).scalar()
    if position is None or position < 0:  # it waits for its place in the index
        return Neighbours(None, None)
    sides: list[str | None] = []
    for sort in (Sort.OLDEST, Sort.NEWEST):
        found = _positions(connection, wanted, apps, (), sort, position, 1)
        query = select(samples.c.sample_id).where(samples.c.position.in_(found))
        sides.append(connection.execute(query).scalar())
    return Neighbours(*sides)


def _positions(
    connection: Connection,
    wanted: SampleFilter,
    apps: Collection[str] | None,
    one_of: Sequence[int],
    sort: Sort,
    after: int | None,
    limit: int,
) -> list[int]:
    """Return positions in the order of *sort*, beyond *after*."""
    phrases = [phrase for phrase in wanted.phrases() if not phrase.rstrip("*").isalnum()]
    if connection.dialect.name == "sqlite" or not phrases:
        return _candidates(connection, wanted, apps, one_of, sort, after, limit)
    found, step = list[int](), 4 * limit
    while len(found) < limit:
        near = _candidates(connection, wanted, apps, one_of, sort, after, step)
        found += _with_phrases(connection, near, phrases)
        if len(near) < step:
            break
        after, step = near[-1], min(4 * step, _MOST_COMPARED)
    return found[:limit]


def _with_phrases(
    connection: Connection, positions: Sequence[int], phrases: Sequence[str]
) -> list[int]:
    """Return those of *positions* whose samples say the phrases; the index knows words alone."""
    # Most only have the words, somewhere: what cannot say the phrases is not even parsed.
    words = [re.findall(r"[^\W_]+", phrase.lower()) for phrase in phrases]
    patterns = [[re.compile(each.join(of)) for each in _BETWEEN] for of in words]
    packed = select(samples.c.position, type_coerce(samples.c.payload, LargeBinary))
    rows = connection.execute(packed.where(among(connection, samples.c.position, positions)))
    said = {}
    for position, value in rows:
        plain = str(decompressed(value, with_ids=False), "utf-8")
        lower = plain.lower()
        if r"\u" in lower or all(
            any(pattern.search(lower) for pattern in either) for either in patterns
        ):
            it = json.loads(plain, strict=False)["interaction"]
            said[position] = words_of(it.get("query"), it["output"])
    parts, values = _phrase_queries(phrases)
    compared = " AND ".join(f"to_tsvector('simple', said) @@ {part}" for part in parts)
    statement = text(
        "SELECT position FROM unnest(CAST(:positions AS bigint[]), CAST(:said AS text[]))"  # noqa: S608  # ours
        f" AS given(position, said) WHERE {compared}"
    )
    given = {"positions": list(said), "said": list(said.values()), **values}
    found = set(connection.execute(statement, given).scalars())
    return [position for position in positions if position in found]


def _phrase_queries(phrases: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return each phrase as PostgreSQL's query, and the values of these."""
    parts, values = list[str](), dict[str, str]()
    for number, phrase in enumerate(phrases):
        stem = phrase.rstrip("*")
        if stem == phrase:
            parts.append(f"phraseto_tsquery('simple', :words_{number})")
        else:
            parts.append(f"to_tsquery('simple', :words_{number})")
            stem = "'" + stem.replace("\\", " ").replace("'", " ") + "':*"
        values[f"words_{number}"] = stem
    return parts, values


def _candidates(
    connection: Connection,
    wanted: SampleFilter,
    apps: Collection[str] | None,
    one_of: Sequence[int],
    sort: Sort,
    after: int | None,
    limit: int,
) -> list[int]:
    """Return positions as `_positions` does; on PostgreSQL of samples with the words of phrases."""
    groups = list(wanted.facets(one_of))
    if apps is not None:
        groups.append([facet("app", app) for app in sorted(apps)] or [NO_SAMPLE])
    phrases = wanted.phrases()
    if wanted.text.strip() and not phrases:
        return []
    conditions, values = wanted.conditions()
    table, position = TERMS, "position"
    if not groups and not phrases:
        table, values["doctor"] = "groundwatch_samples", DOCTOR_APP
        conditions.append("app <> :doctor")
    elif connection.dialect.name == "sqlite":
        parts = [f"facets : ({' OR '.join(map(token_of, group))})" for group in groups]
        # A phrase may end in a star, which stands outside of its quotes.
        parts += [f'words : "{p.rstrip("*")}"{"*" if p.endswith("*") else ""}' for p in phrases]
        position, values["match"] = "rowid", " AND ".join(parts)
        conditions.append(f"{TERMS} MATCH :match")
    else:
        matching, more = _gin_conditions(groups, phrases)
        if wanted.release:
            matching.append("facets[1] = :release")
            more["release"] = facet("release", wanted.release)
        conditions, values = conditions + matching, values | more
    bits = TIE_BITS[connection.dialect.name]
    low = -1 if wanted.since is None else (_until_latest(wanted.since) << bits) - 1
    high = 2**63 - 1 if wanted.until is None else _until_latest(wanted.until) << bits
    if after is not None:
        low, high = (max(low, after), high) if sort is Sort.OLDEST else (low, min(high, after))
    values |= {"low": low, "high": high, "limit": limit}
    spelled, position_of = " AND ".join(conditions), f"{table}.{position}"
    where = spelled.format(position=position_of, facets="facets")
    direction = "ASC" if sort is Sort.OLDEST else "DESC"
    if connection.dialect.name != "sqlite" and table == TERMS:
        indexed = spelled.format(position=position_of, facets=FOUND)
        found = _if_dense(connection, where, direction, values)
        if found is None:
            steps = _steps(len(groups), phrases)
            found = _by_index(connection, indexed, direction, values, steps)
        if found is not None:
            return sorted(found, reverse=sort is not Sort.OLDEST)[:limit]
    statement = (
        f"SELECT {position} FROM {table} WHERE {where} AND {position} > :low"  # noqa: S608  # ours
        f" AND {position} < :high ORDER BY {position} {direction} LIMIT :limit"
    )
    return [int(p) for p in connection.execute(text(statement), values).scalars()]


def _if_dense(
    connection: Connection, where: str, direction: str, values: Mapping[str, Any]
) -> list[int] | None:
    """Return the samples if they are dense among the nearest, or there are no others, else None."""
    # Plans must know the values: a general one reads all samples of an app.
    connection.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    key, low, high = "position", ":low", ":high"
    ordered = f"ORDER BY position {direction}"
    if "release" in values:
        # Of a release, which has an index of its own: compared so, no other one serves.
        key, low, high = "(facets[1], position)", "(:release, :low)", "(:release, :high)"
        ordered = f"ORDER BY facets[1] {direction}, position {direction}"
    dense = (
        f"WITH {TERMS} AS MATERIALIZED (SELECT * FROM {TERMS}"  # noqa: S608  # ours
        f" WHERE {key} > {low} AND {key} < {high} {ordered} LIMIT {_NEAR})"
        f" SELECT ARRAY(SELECT position FROM {TERMS} WHERE {where}"
        f" ORDER BY position {direction} LIMIT :limit), (SELECT count(*) FROM {TERMS})"
    )
    found, read = connection.execute(text(dense), values).one()
    if len(found) == values["limit"] or read < _NEAR:
        return list(found)
    if len(found) >= _TELLING:
        # They say how far to read; the lists that GIN would intersect grow with the store.
        far = min(_FAR, 2 * _NEAR * values["limit"] // len(found))
        further = (
            f"SELECT position FROM (SELECT * FROM {TERMS} WHERE {key} > {low} AND {key} < {high}"  # noqa: S608  # ours
            f" {ordered} LIMIT {far}) AS {TERMS} WHERE {where}"
            f" ORDER BY position {direction} LIMIT :limit"
        )
        found = list(connection.execute(text(further), values).scalars())
        if len(found) == values["limit"]:
            return found
    return None


def _steps(groups: int, phrases: Sequence[str]) -> Sequence[int]:
    """Return what is tried by the index in turn: so many as are few, or a part of the time."""
    if any(not phrase.isalnum() for phrase in phrases):
        # The index does not know which words follow each other: all samples with them are read.
        return [*_PARTS, _FEW]
    return [_FEWEST, *_PARTS, _FEW] if groups + len(phrases) == 1 else [_FEW, *_PARTS]


def _by_index(
    connection: Connection, indexed: str, direction: str, values: Mapping[str, Any],
    steps: Sequence[int],
) -> list[int] | None:  # fmt: skip
    """
    Return the samples if they are few, or enough in the nearest part of the time, else None.

    *steps* are those of `_steps`. PostgreSQL guesses badly how rare a facet is, and would read a
    million rows in order to find the one sample of a user. An expression keeps it off the order, so
    that GIN finds the few.
    """
    ends = text(f"SELECT min(position), max(position) FROM {TERMS}")  # noqa: S608  # ours
    first, last = connection.execute(ends).one()
    low, high = max(values["low"], first - 1), min(values["high"], last + 1)
    connection.execute(text(_OFF))
    few = (
        f"SELECT position FROM {TERMS} WHERE {indexed} AND position + 0 > :low"  # noqa: S608  # ours
        f" AND position + 0 < :high LIMIT :most"
    )
    found: list[int] | None = None
    for step in steps:
        if found is None and step in _PARTS:
            width = max((high - low) // step, 1 << PERIOD_BITS)
            near = (max(low, high - width), high) if direction == "DESC" else (
                low, min(high, low + width)
            )  # fmt: skip
            found = _in_periods(connection, indexed, direction, values, *near)
        elif found is None:
            of_all = connection.execute(text(few), {**values, "most": step + 1}).scalars().all()
            found = list(of_all) if len(of_all) <= step else None
    connection.execute(text("SET LOCAL enable_indexscan = on"))
    return found


def _in_periods(
    connection: Connection, indexed: str, direction: str, values: Mapping[str, Any], low: int,
    high: int,
) -> list[int] | None:  # fmt: skip
    """
    Return the samples if there are enough between two positions, else None.

    The index knows the periods, and skips all others: it costs what the traffic of that time was,
    and does not grow with the history.
    """
    periods = list(range(low >> PERIOD_BITS, (high >> PERIOD_BITS) + 1))
    if len(periods) > _MOST_PERIODS:
        return None
    query = (
        f"SELECT position FROM {TERMS} WHERE {indexed} AND {FOUND} && CAST(:periods AS bigint[])"  # noqa: S608  # ours
        f" AND position + 0 > :low AND position + 0 < :high"
        f" ORDER BY position {direction} LIMIT :limit"
    )
    bounds = {"low": low, "high": high, "periods": periods}
    found = list(connection.execute(text(query), {**values, **bounds}).scalars())
    return found if len(found) == values["limit"] else None


def _until_latest(at: datetime) -> int:
    """Return epoch milliseconds within what positions can say."""
    return min(max(epoch_ms(at), 0), LATEST_MS)


def _gin_conditions(
    groups: Sequence[Sequence[int]], phrases: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    parts, values = list[str](), dict[str, Any]()
    all_of = [group[0] for group in groups if len(group) == 1]
    if all_of:
        parts.append("{facets} @> CAST(:all_of AS bigint[])")
        values["all_of"] = all_of
    for number, group in enumerate(group for group in groups if len(group) > 1):
        parts.append(f"{{facets}} && CAST(:any_{number} AS bigint[])")
        values[f"any_{number}"] = list(group)
    queries, words = _phrase_queries(phrases)
    # Of a phrase all words: the index does not know their order.
    parts += [
        f"words @@ CAST(regexp_replace(CAST({query} AS text), '<(-|[0-9]+)>', '&', 'g') AS tsquery)"
        for query in queries
    ]
    return parts, values | words


def _read(connection: Connection, positions: Sequence[int]) -> list[FoundSample]:
    """Return the samples at *positions*, in their order; one that is gone by now is left out."""
    rows = connection.execute(select(samples).where(samples.c.position.in_(positions))).all()
    ids = [row.sample_id for row in rows]
    ended = ended_evaluations(connection, positions)
    said: dict[str, dict[str, bool]] = {}
    query = select(labels.c.sample_id, labels.c.metric, labels.c.human_passed)
    mine = query.where(labels.c.sample_id.in_(ids)).order_by(labels.c.labelled_at)
    for sample_id, metric, passed in connection.execute(mine):
        said.setdefault(sample_id, {})[metric] = bool(passed)
    texts = ("query", "output", "release", "user_id", "session_id", "trace_id")
    by_position = {}
    for row in rows:
        it = row.payload["interaction"]
        by_position[row.position] = FoundSample(
            **{name: it.get(name) for name in texts},
            **{name: getattr(row, name) for name in ("sample_id", "app", "outcome", "reason")},
            occurred_at=time_of(row.occurred_at_ms),
            tags=it.get("tags") or {},
            tool_calls=len(it.get("tool_calls") or ()),
            no_texts=why_no_texts(it.get("id", ""), it.get("metadata") or {}),
            evaluations=tuple(map(FoundEvaluation.model_validate, ended.get(row.position, ()))),
            labels=said.get(row.sample_id, {}),
        )
    return [by_position[p] for p in positions if p in by_position]
