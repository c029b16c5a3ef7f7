"""Read from the store what each part of an app's traffic scored: by variant, release, any tag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, select

from monitor.models import CustomEvaluation, EvaluationStatus, Tally
from monitor.models.passing import PassRule
from monitor.models.status import OTHER, segment_name
from monitor.rolling.tallies import PassCounts, pass_counts, tally_of, total
from monitor.store.insights import read_states
from monitor.store.packing import record_of
from monitor.store.query import BASELINE_SUMS, active_streams, bucket_sums, window_tallies
from monitor.store.tables import evaluations, samples
from monitor.testsets.compare import Comparison, Variant, arm_of_tally, compare
from monitor.testsets.releases import pair_blocks

#: Samples that are read where a tag has no segments: the newest ones.
MOST_READ = 20_000
_AT_ONCE = 500
#: Dimensions that are fields of an interaction; all others are tags.
_FIELDS = frozenset({"release", "environment"})


class TrafficPart(NamedTuple):
    """One metric of one part of the traffic: its evaluator, sums, and closed buckets."""

    version: str
    tally: Tally
    counts: PassCounts
    design_effect: float = 1.0


class TrafficParts(NamedTuple):
    """TrafficParts by metric and value; ``cut`` says that older evaluations were left out."""

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
            reason="scored by different versions of the evaluator",
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
        select(samples.c.sample_id, samples.c.sample_rate, samples.c.payload)
        .where(samples.c.app == app, samples.c.occurred_at_ms >= round(since.timestamp() * 1000))
        .order_by(samples.c.occurred_at_ms.desc())
        .limit(MOST_READ)
    )
    e, read = evaluations.c, 0
    newest: dict[tuple[str, str], str] = {}
    tallies: dict[tuple[str, str], dict[int, Tally]] = defaultdict(dict)
    for batch in connection.execute(query).partitions(_AT_ONCE):
        read += len(batch)
        of = {row.sample_id: row for row in batch}
        completed = select(
            e.evaluation_id, e.sample_id, e.metric, e.evaluator_version, e.record, e.occurred_at_ms
        ).where(e.status == EvaluationStatus.COMPLETED.value, e.sample_id.in_(list(of)))
        for row in connection.execute(completed.order_by(e.occurred_at_ms.desc())):
            sample = of[row.sample_id]
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
            newest[metric, name], total(buckets.values()), pass_counts(closed)
        )
    return TrafficParts(found, cut=read == MOST_READ)
