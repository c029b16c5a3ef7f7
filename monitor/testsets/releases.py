"""
Parts of an app's live traffic, by release, variant or any tag: read, compared, and judged.

A release is ``worse`` than the one before it where the pass rate has fallen, and by more than the
allowed drop as far as is known; ``ok`` where the drop is certainly less than the allowed one. Both
hold at every look: however often one asks, a release that did not fall is ever called worse with a
probability of at most alpha, and one that fell by the allowed drop or more is ever called ok with a
probability of at most alpha.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sqlalchemy import Connection, select

from monitor.models import CustomEvaluation, EvaluationStatus, Tally
from monitor.models.evaluation import PassRule
from monitor.models.status import OTHER, segment_name
from monitor.rolling.tallies import PassCounts, pass_counts, tally_of
from monitor.stats.two_rates import Blocks, drop_evidence, expected_gain, no_drop_evidence
from monitor.store.columns import record_of
from monitor.store.drift import read_states
from monitor.store.query import BASELINE_SUMS, active_streams, bucket_sums, window_tallies
from monitor.store.tables import evaluations, samples
from monitor.testsets.compare import Comparison, Variant, arm_of_tally, compare

Floats = NDArray[np.float64]

#: Samples that are read where a tag has no segments: the newest ones.
MOST_READ: Final = 20_000
_AT_ONCE: Final = 500
#: Dimensions that are fields of an interaction; all others are tags.
_FIELDS: Final = frozenset({"release", "environment"})
ALPHA: Final = 0.02
#: Falls that are bet on, in allowed drops; and how far below the allowed drop.
_FALLS: Final = (2.0, 4.0, 8.0)
_REST: Final = (1.0, 2.0)
#: So many samples of the release before, for each of the new one: more would add little.
_MOST_BEFORE: Final = 4.0
_HALVINGS: Final = 8
_MOST_MORE: Final = 10_000_000
OTHER_VERSIONS: Final = "scored by different versions of the evaluator"


class TrafficPart(NamedTuple):
    """
    One metric of one part of the traffic: its evaluator, sums, and closed buckets.

    ``n`` scores are in the closed buckets; dependent ones are worth fewer in ``counts``.
    """

    version: str
    tally: Tally
    counts: PassCounts
    n: int
    design_effect: float = 1.0


class TrafficParts(NamedTuple):
    """Parts by metric and value; ``cut`` says that older evaluations were left out."""

    of: Mapping[str, Mapping[str, TrafficPart]]
    cut: bool = False


def read_parts(
    connection: Connection,
    *,
    app: str,
    by: str,
    since: datetime,
    now: datetime,
    bucket_s: int,
    values: frozenset[str] | None = None,
) -> TrafficParts:
    """
    Read the parts of an app's traffic since *since*, by the values of *by*.

    From the sums of segments where *by* is one of GROUNDWATCH_SEGMENTS; else from the newest
    20,000 samples. Of several versions of an evaluator the newest one counts.
    """
    from_s, to_s = int(since.timestamp()), int(now.timestamp()) // bucket_s * bucket_s
    prefix = segment_name(by, "")
    streams = active_streams(connection, since_s=from_s, segment=None, app=app)
    roots = {one.key.metric: one.stream_id for one in streams if one.key.segment == "*"}
    states = read_states(connection, list(roots.values()))
    found: dict[str, dict[str, TrafficPart]] = defaultdict(dict)
    for stream in streams:
        value = stream.key.segment.removeprefix(prefix)
        if not stream.key.segment.startswith(prefix) or value == OTHER:
            continue
        if values is not None and value not in values:
            continue
        tallies = window_tallies(connection, from_s=from_s, app=app, segment=stream.key.segment)
        state = states.get(roots.get(stream.key.metric, -1), {})
        effect = max(1.0, float(state.get("design_effect", 1.0)))
        rows = bucket_sums(connection, stream.stream_id, from_s=from_s, to_s=to_s)
        found[stream.key.metric][value] = TrafficPart(
            stream.key.evaluator_version,
            tallies.get(stream.stream_id, Tally()),
            pass_counts(rows, design_effect=effect),
            _n_of(rows),
            effect,
        )
    if found:
        return TrafficParts(found)
    found_in, cut = _from_samples(connection, app, by, since, now, bucket_s)
    wanted = {
        metric: {value: part for value, part in of.items() if values is None or value in values}
        for metric, of in found_in.items()
    }
    return TrafficParts({metric: of for metric, of in wanted.items() if of}, cut)


def compare_parts(metric: str, of: Mapping[str, TrafficPart], a: str, b: str) -> Comparison:
    """Compare one metric of two parts; `monitor.testsets.compare.decide` names winners."""
    one, other = of[a], of[b]
    if one.version != other.version:
        return Comparison(
            metric=metric, a=Variant(name=a, n=one.tally.n), b=Variant(name=b, n=other.tally.n),
            reason=OTHER_VERSIONS,
        )  # fmt: skip
    return compare(
        metric,
        arm_of_tally(a, one.tally, design_effect=one.design_effect),
        arm_of_tally(b, other.tally, design_effect=other.design_effect),
        direction=(PassRule.read(one.version) or PassRule(0.7)).direction,
        blocks=pair_blocks(one.counts, other.counts),
    )


def _from_samples(
    connection: Connection, app: str, by: str, since: datetime, now: datetime, bucket_s: int
) -> TrafficParts:
    # The newest samples by their index, and their evaluations by key: however long the history.
    query = (
        select(samples.c.position, samples.c.sample_rate, samples.c.payload)
        .where(samples.c.app == app, samples.c.occurred_at_ms >= round(since.timestamp() * 1000))
        .order_by(samples.c.occurred_at_ms.desc())
        .limit(MOST_READ)
    )
    e, read = evaluations.c, 0
    newest: dict[tuple[str, str], str] = {}
    tallies: dict[tuple[str, str], dict[int, Tally]] = defaultdict(dict)
    for batch in connection.execute(query).partitions(_AT_ONCE):
        read += len(batch)
        of = {row.position: row for row in batch}
        completed = select(e.position, e.metric, e.evaluator_version, e.occurred_at_ms).where(
            e.status == EvaluationStatus.COMPLETED.value, e.position.in_(list(of))
        )
        for row in connection.execute(completed.order_by(e.occurred_at_ms.desc())):
            sample = of[row.position]
            it = sample.payload["interaction"]
            value = it.get(by) if by in _FIELDS else (it.get("tags") or {}).get(by)
            if value is None:
                continue
            key = (row.metric, value)
            if newest.setdefault(key, row.evaluator_version) != row.evaluator_version:
                continue
            # What passes stands in the record's criteria; 0.7 is for those that name none.
            evaluation = CustomEvaluation.model_validate(record_of(row, sample.payload))
            one = tally_of(evaluation, sample_rate=sample.sample_rate, pass_score=0.7)
            start_s = row.occurred_at_ms // 1000 // bucket_s * bucket_s
            tallies[key][start_s] = tallies[key].get(start_s, Tally()) + one
    found: dict[str, dict[str, TrafficPart]] = defaultdict(dict)
    for (metric, name), buckets in tallies.items():
        closed = [
            (float(start_s), *(float(getattr(buckets[start_s], sum_)) for sum_ in BASELINE_SUMS))
            for start_s in sorted(buckets)
            if start_s + bucket_s <= now.timestamp()
        ]
        found[metric][name] = TrafficPart(
            newest[metric, name], Tally.total(buckets.values()), pass_counts(closed), _n_of(closed)
        )
    return TrafficParts(found, cut=read == MOST_READ)


def _n_of(rows: Sequence[Sequence[float]]) -> int:
    """Return the number of scores in buckets: starts, then `BASELINE_SUMS`."""
    return round(sum(row[1] for row in rows))


class ReleaseStatus(StrEnum):
    """What is known of a release."""

    OK = "ok"
    WORSE = "worse"
    NOT_YET = "not yet"


class ReleaseVerdict(BaseModel, frozen=True, extra="forbid"):
    """
    One metric of a release against the one before; rates in [0, 1], a drop is before - after.

    ``n_before`` and ``n_after`` count scores. Those that depend on each other, or have other
    weights, are worth the independent ones of ``effective_n_before`` and ``effective_n_after``.
    """

    metric: str
    status: ReleaseStatus
    before: float | None = Field(None, ge=0.0, le=1.0)
    after: float | None = Field(None, ge=0.0, le=1.0)
    n_before: int = Field(ge=0)
    n_after: int = Field(ge=0)
    effective_n_before: float = Field(ge=0.0)
    effective_n_after: float = Field(ge=0.0)
    unscored_before: int = Field(0, ge=0, description="Skipped or failed, and in no figure.")
    unscored_after: int = Field(0, ge=0)
    drop_low: float = Field(-1.0, description="Bounds on the drop that hold at every look.")
    drop_high: float = 1.0
    max_drop: float
    alpha: float
    more_n: int | None = Field(
        None, description="About so many more samples of the release decide, if the rates go on."
    )


def pair_blocks(before: PassCounts, after: PassCounts) -> Blocks:
    """
    Pair the buckets of two releases to blocks, one for each bucket of the later release.

    Where both ran at the same time, a block has both sides of one bucket, so that no time of day
    is mistaken for a release. What a release counted before the next one began is used up from its
    newest bucket backwards: four samples for each new one at first, then fewer, so that some are
    always left. What is paired with a bucket never depends on later ones, nor on what passed.
    """
    begun_s = int(after.start_s[0]) if after.start_s.size else 0
    rows_before = [(int(s), float(passed), float(n)) for s, passed, n in zip(*before, strict=True)]
    past = [(passed, n) for s, passed, n in rows_before if s < begun_s]
    at_once = {s: (passed, n) for s, passed, n in rows_before if s >= begun_s}
    rows: list[tuple[float, float, float, float]] = []
    in_all, seen, used, beside = sum(n for _, n in past), 0.0, 0.0, 0.0
    for start_s, passed, n in zip(*after, strict=True):
        s, m = at_once.get(int(start_s), (0.0, 0.0))
        seen, beside = seen + float(n), beside + m
        wanted = max(0.0, _MOST_BEFORE * seen - beside)
        while past and used < in_all * wanted / (wanted + in_all):
            more_s, more_m = past.pop()
            s, m, used = s + more_s, m + more_m, used + more_m
        rows.append((s, m, float(passed), float(n)))
    columns = np.array(rows).reshape(-1, 4).T
    return Blocks(*columns)


def judge_release(
    metric: str, before: PassCounts, after: PassCounts, *, max_drop: float, alpha: float = ALPHA
) -> ReleaseVerdict:
    """
    Judge a release by its closed buckets and those of the release before.

    Sizes need not be whole where samples are worth less than one. *max_drop* is the drop that is
    allowed, in (0, 1), *alpha* the probability of each kind of false verdict, over all looks.

    Notes
    -----
    No test can find a fall from 90 % to 80 % in fewer than ln(1/alpha) / 0.020 = 196 samples a side
    on average at alpha = 2 %; with four samples before for each new one, in 115 new ones.
    """
    blocks = pair_blocks(before, after)
    rates = [
        float(side.passed.sum() / side.n.sum()) if side.n.sum() > 0 else None
        for side in (before, after)
    ]
    made = ReleaseVerdict(
        metric=metric, status=ReleaseStatus.NOT_YET, before=rates[0], after=rates[1],
        n_before=round(before.n.sum()), n_after=round(after.n.sum()),
        effective_n_before=float(before.n.sum()), effective_n_after=float(after.n.sum()),
        max_drop=max_drop, alpha=alpha,
    )  # fmt: skip
    if rates[0] is None or rates[1] is None:
        return made
    needed = math.log(1 / alpha)

    def fell(above: float) -> Floats:
        bets = [above + part * max_drop for part in _FALLS]
        return np.asarray(np.maximum.accumulate(drop_evidence(blocks, above=above, bets=bets)))

    def stayed(below: float) -> Floats:
        bets = [below - part * max_drop for part in _REST]
        return np.asarray(np.maximum.accumulate(no_drop_evidence(blocks, below=below, bets=bets)))

    passed_before, all_before, passed_after, all_after = (np.cumsum(one) for one in blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        drops = passed_before / all_before - passed_after / all_after
    worse = (fell(0.0) >= needed) & (drops > max_drop)
    ok = stayed(max_drop) >= needed
    found: dict[str, object] = {}
    if worse.any() or ok.any():
        first_worse = int(np.argmax(worse)) if worse.any() else len(worse)
        first_ok = int(np.argmax(ok)) if ok.any() else len(ok)
        found["status"] = ReleaseStatus.WORSE if first_worse < first_ok else ReleaseStatus.OK
    else:
        is_worse = rates[0] - rates[1] > max_drop
        gained = fell(0.0)[-1] if is_worse else stayed(max_drop)[-1]
        ratio = min(_MOST_BEFORE, float(blocks.n_before.sum() / blocks.n_after.sum()))
        gain = expected_gain(rates[0], rates[1], null=0.0 if is_worse else max_drop, ratio=ratio)
        if gain > 0 and (more := math.ceil((needed - gained) / gain)) < _MOST_MORE:
            found["more_n"] = max(1, more)
    drop = rates[0] - rates[1]
    found["drop_low"] = _edge(lambda at: fell(at)[-1] >= needed, -1.0, drop)
    found["drop_high"] = _edge(lambda at: stayed(at)[-1] >= needed, 1.0, drop)
    return made.model_copy(update=found)


def judge_parts(
    parts: TrafficParts,
    before: str,
    after: str,
    *,
    max_drop: float,
    metrics: Collection[str] | None = None,
) -> tuple[list[ReleaseVerdict], dict[str, str]]:
    """
    Judge each of *metrics*, by default all, of the part *after* against the part *before*.

    Return the verdicts, and by metric why others are not comparable. `ALPHA` is shared out over the
    verdicts: the probability that any of them is false stays the same.
    """
    known, refused = {}, {}
    for metric, of in sorted(parts.of.items()):
        if metrics and metric not in metrics:
            continue
        if missing := {before, after} - of.keys():
            refused[metric] = f"no scores under {', '.join(missing)}"
        elif of[before].version != of[after].version:
            refused[metric] = OTHER_VERSIONS
        else:
            known[metric] = of[before], of[after]
    verdicts = []
    for metric, sides in known.items():
        counts, level = (side.counts for side in sides), ALPHA / len(known)
        found = judge_release(metric, *counts, max_drop=max_drop, alpha=level)
        update: dict[str, object] = {}
        for name, side in zip(("before", "after"), sides, strict=True):
            update[f"n_{name}"] = side.n
            update[f"unscored_{name}"] = side.tally.skipped + side.tally.failed
        if found.more_n is not None:  # of scores, as people count them
            update["more_n"] = math.ceil(found.more_n * sides[1].n / found.effective_n_after)
        verdicts.append(found.model_copy(update=update))
    return verdicts, refused


def _edge(refuted: Callable[[float], bool], outside: float, inside: float) -> float:
    """Halve [outside, inside] until the edge of the drops that are refuted is found."""
    if not refuted(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        if refuted(middle):
            outside = middle
        else:
            inside = middle
    return outside
