"""
Write what workers found: exactly once, however often it is delivered.

Samples are inserted where they are not there yet, and only for those that were new
do buckets and counters move, in the same transaction. A crash between the commit and
the acknowledgement means a redelivery that changes nothing. `record` is the door;
`bounded` decides under which app a sample counts, so that no flood of names makes streams without
end; `add_late` keeps hours and days exact that were summed before a sample came.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Connection, select, tuple_

from monitor.models import ROOT, Evaluation, EvaluationStatus, ScoredSample, StreamKey, Tally
from monitor.models.evaluation import OWN, OWN_LEARNT_AT, OWN_LEAST, own_line
from monitor.models.status import OTHER, TALLY_SUMS, segment_name
from monitor.queue.names import DOCTOR_APP
from monitor.queue.wire import OUTSIDE
from monitor.store.columns import facet, pack
from monitor.store.engine import Row, add, among, insert, insert_new, put, rows_of
from monitor.store.labels import APP_ANNOTATOR, USUAL_METRIC, Label, save_labels
from monitor.store.ledger import DeadLetter, Entry, Kind, book, book_outside, set_aside
from monitor.store.query import DAYS, HOURS, STREAM_SUMS, ensure_marks, past_name, read_marks
from monitor.store.sample_index import APPS, Placed, allot_positions, place, terms_of, write_terms
from monitor.store.tables import (
    bucket_bins,
    buckets,
    dead_letters,
    evaluators,
    input_bins,
    pass_lines,
    samples,
    scores,
    streams,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one evaluation adds to one bucket of one stream."""

    evaluation: Evaluation
    stream: StreamKey
    start_s: int
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A scored sample with all its contributions, ready to be written."""

    scored: ScoredSample
    contributions: tuple[Contribution, ...]
    start_s: int
    occurred_at_ms: int  #: in the bucket that begins at ``start_s``, whatever clocks say
    past: bool = False  #: older than the status window when it came: not current
    places: tuple[tuple[str, str], ...] = ()  #: its value in each dimension where it has one
    inputs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: bins by feature
    packed: bytes | None = None  #: as `pack` makes it with `likely_segments`, made ahead

    @property
    def likely_segments(self) -> tuple[str, ...]:
        """Its segments where each of its values has one of its own."""
        return tuple(segment_name(*where) for where in self.places)

    def pack(self, segments: Sequence[str]) -> bytes:
        """Return what the row of the sample keeps."""
        if self.packed is not None and segments == self.likely_segments:
            return self.packed
        records = [
            item.evaluation.model_dump_json(exclude_none=True) for item in self.contributions
        ]
        return pack(self.scored.sample.model_dump_json(exclude_defaults=True), records, segments)

    def joined(self) -> Self:
        """Return it as one of the other apps; the sample keeps its own app in its metadata."""
        sample, known = self.scored.sample, self.scored.sample.interaction
        metadata = {**known.metadata, "app": known.app}
        interaction = known.model_copy(update={"app": OTHER, "metadata": metadata})
        moved = sample.model_copy(update={"interaction": interaction})
        return replace(
            self,
            scored=replace(self.scored, sample=moved),
            packed=None,
            contributions=tuple(
                replace(item, stream=item.stream._replace(app=OTHER)) for item in self.contributions
            ),
        )

    def evaluation_rows(self) -> list[dict[str, Any]]:
        """Return its evaluations as rows."""
        rows = []
        for item in self.contributions:
            evaluation, counts = item.evaluation, item.tally.n == 1
            judged = (evaluation.metadata or {}).get("judged")
            rows.append(
                {
                    "app": item.stream.app,
                    "metric": item.stream.metric,
                    "evaluator_version": item.stream.evaluator_version,
                    "status": evaluation.status.value,
                    "score": item.tally.sum_x if counts else None,
                    "passed": item.tally.passed if counts else None,
                    "occurred_at_ms": self.occurred_at_ms,
                    "reason": evaluation.reason.replace("\0", "\ufffd"),
                    "judged": -1 if judged is None else int(bool(judged)),
                }
            )
        return rows

    def labels(self) -> Iterator[Label]:
        """Yield the label that its app sent, beside each verdict of the usual metric."""
        sample = self.scored.sample
        if sample.interaction.label is None:
            return
        for item in self.contributions:
            if item.stream.metric == USUAL_METRIC and item.tally.n == 1:
                yield Label(
                    sample_id=sample.sample_id,
                    app=item.stream.app,
                    metric=item.stream.metric,
                    evaluator_version=item.stream.evaluator_version,
                    labelled_by=APP_ANNOTATOR,
                    judge_passed=bool(item.tally.passed),
                    human_passed=bool(sample.interaction.label),
                    note="",
                    labelled_at=sample.sampled_at,
                    release=_joining(sample.interaction.release) or "",
                )


def record(
    connection: Connection,
    results: Sequence[Result],
    dead: Sequence[DeadLetter] = (),
    *,
    now: datetime,
    bucket_s: int,
) -> int:
    """Write results and move their buckets; return how many samples were new."""
    received_at_ms = round(now.timestamp() * 1000)
    results, dead = bounded(connection, results, dead, now_s=int(now.timestamp()))
    by_id = {result.scored.sample.sample_id: result for result in results}
    # Without samples that became dead letters and were counted before, as one that was sent twice.
    same = among(connection, dead_letters.c.sample_id, by_id)
    for sample_id in connection.execute(select(dead_letters.c.sample_id).where(same)).scalars():
        del by_id[sample_id]
    # The segments of a sample are decided once.
    known = select(samples.c.sample_id).where(among(connection, samples.c.sample_id, by_id))
    segments: dict[str, tuple[str, ...]] = dict.fromkeys(connection.execute(known).scalars(), ())
    unknown = {key: by_id[key] for key in sorted(by_id) if key not in segments}
    ends = {key: (item.scored.outcome.value, item.scored.reason) for key, item in by_id.items()}
    placed = [
        Placed(result.scored.sample.interaction.app, result.places, result.start_s)
        for result in unknown.values()
    ]
    segments |= dict(zip(unknown, place(connection, placed), strict=True))
    positions = allot_positions(
        connection, {key: result.occurred_at_ms for key, result in unknown.items()}
    )
    new_ids = insert_new(
        connection,
        samples,
        [
            {
                "sample_id": (sample := result.scored.sample).sample_id,
                "interaction_id": sample.interaction.id,
                "app": sample.interaction.app,
                "occurred_at_ms": result.occurred_at_ms,
                "received_at_ms": received_at_ms,
                "sample_rate": sample.sample_rate,
                "outcome": ends[key][0],
                "reason": ends[key][1],
                "payload": result.pack(segments[key]),
                "segments": [],
                "trace_id": _joining(sample.interaction.trace_id),
                "session_id": _joining(sample.interaction.session_id),
                "release": _joining(sample.interaction.release),
                "position": positions[key],
            }
            for key, result in unknown.items()
        ],
        returning=samples.c.sample_id,
        key=("sample_id",),  # of two at one position the later one is refused, not skipped
    )
    fresh = [by_id[key] for key in sorted(new_ids)]
    ended = {result.scored.sample.sample_id: result.evaluation_rows() for result in fresh}
    _insert_scores(
        connection, [row | {"position": positions[key]} for key in ended for row in ended[key]]
    )
    if found := [label for item in fresh for label in item.labels()]:
        save_labels(connection, found)
    _add_to_buckets(
        connection,
        [
            (segment, item, result.past)
            for result in fresh
            for segment in (ROOT, *segments[result.scored.sample.sample_id])
            for item in result.contributions
        ],
    )
    _learn_lines(connection, [item for result in fresh for item in result.contributions])
    counted = [item for item in fresh if item.scored.sample.interaction.app != DOCTOR_APP]
    inputs: Counter[InputKey] = Counter()
    for item in fresh:
        for feature, histogram in item.inputs.items():
            for position, n in histogram.items():
                inputs[item.scored.sample.interaction.app, item.start_s, feature, position] += n
    add_input_counts(connection, inputs)
    terms = [
        terms_of(positions[key], item.scored.sample, segments[key], ends[key][1], ended[key])
        for item in counted
        if (key := item.scored.sample.sample_id) in positions
    ]
    write_terms(connection, terms)
    entries = [
        Entry(item.scored.sample.interaction.app, item.start_s, Kind(outcome), reason, 1)
        for item in counted
        for outcome, reason in [ends[item.scored.sample.sample_id]]
    ]
    start_s = received_at_ms // 1000 // bucket_s * bucket_s
    entries += [
        Entry(item.app, start_s, Kind.FAILED, item.reason, 1)
        for item in set_aside(connection, dead)
    ]
    outside = Counter(
        item.scored.sample.interaction.app
        for item in counted
        if item.scored.sample.hook_id == OUTSIDE
    )
    if outside:
        book_outside(connection, outside, now=now, bucket_s=bucket_s)
    # One call, so that the rows of the ledger are locked in one order.
    book(connection, entries)
    return len(fresh)


def _insert_scores(connection: Connection, rows: Sequence[Row]) -> None:
    names = ("app", "metric", "evaluator_version")
    versions = [(row["app"], row["metric"], row["evaluator_version"]) for row in rows]
    keys = {
        key: {"evaluator_key": facet(*key), "metric_key": facet(*key[:2])}
        for key in sorted(set(versions))
    }
    known = [dict(zip(names, key, strict=True)) | numbers for key, numbers in keys.items()]
    insert_new(connection, evaluators, known, returning=evaluators.c.evaluator_key)
    completed, given = EvaluationStatus.COMPLETED.value, []
    for row, key in zip(rows, versions, strict=True):
        values = {name: value for name, value in row.items() if name not in names} | keys[key]
        given.append(values | {"status": ""} if values["status"] == completed else values)
    insert(connection, scores, given)


def bounded(
    connection: Connection, results: Sequence[Result], dead: Sequence[DeadLetter], *, now_s: int
) -> tuple[list[Result], list[DeadLetter]]:
    """
    Return what is to be written, with apps beyond the bound of `PLACES` joined in one.

    Such a sample counts under the app ``(other)`` and keeps its own name as
    ``metadata["app"]``. Frequent names displace rare ones, as in `admit`.
    """
    apps = [item.scored.sample.interaction.app for item in results] + [item.app for item in dead]
    counted = sorted(set(apps) - {DOCTOR_APP})
    places = [Placed(APPS[0], [(APPS[1], app)], now_s) for app in apps if app in counted]
    named = {
        app
        for (_, [(_, app)], _), [segment] in zip(places, place(connection, places), strict=True)
        if segment == segment_name(APPS[1], app)
    } | {DOCTOR_APP}
    if named.issuperset(apps):
        return list(results), list(dead)
    return (
        [
            item if item.scored.sample.interaction.app in named else item.joined()
            for item in results
        ],
        [item if item.app in named else replace(item, app=OTHER) for item in dead],
    )


#: App, start of the bucket in epoch seconds, feature and bin.
InputKey = tuple[str, int, str, int]


def add_input_counts(connection: Connection, counts: Mapping[InputKey, int]) -> None:
    """Add to the histograms of what apps are asked, within the transaction of the samples."""
    names = ("app", "start_s", "feature", "bin")
    rows = [dict(zip(names, key, strict=True)) | {"count": n} for key, n in counts.items()]
    add(connection, input_bins, rows, sums=["count"])


def add_late(connection: Connection, sums: Iterable[Row], bins: Iterable[Row]) -> None:
    """Add rows of buckets to the hours and days that were summed before they came."""
    marks = read_marks(connection, lock=True)
    if not any(mark.complete_to_s for mark in marks.values()):
        ensure_marks(connection)
        marks = read_marks(connection, lock=True)
    sums, bins = list(sums), list(bins)
    for level in (HOURS, DAYS):
        complete_to_s = marks[level.name].complete_to_s
        for table, rows, names in ((level.sums, sums, TALLY_SUMS), (level.bins, bins, ("count",))):
            wider: dict[tuple[Any, ...], dict[str, Any]] = {}
            for row in rows:
                if row["start_s"] < complete_to_s:
                    start_s = row["start_s"] // level.width_s * level.width_s
                    place = (row["stream_id"], start_s, row.get("bin"))
                    if place in wider:
                        wider[place] |= {name: wider[place][name] + row[name] for name in names}
                    else:
                        wider[place] = {**row, "start_s": start_s}
            add(connection, table, wider.values(), sums=names)


def _learn_lines(connection: Connection, items: Iterable[Contribution]) -> None:
    """Add to the first scores of every app from which its own pass line is learnt."""
    scores: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for item in items:
        app, metric, _, version = item.stream
        if version.endswith(OWN) and item.tally.n:
            scores[app, metric, version] += item.tally.histogram.elements()
    columns = (pass_lines.c.app, pass_lines.c.metric, pass_lines.c.evaluator_version)
    of_these = tuple_(*columns).in_(sorted(scores))
    settled = select(*columns).where(of_these, pass_lines.c.n >= OWN_LEARNT_AT[-1])
    for key in connection.execute(settled) if scores else ():
        del scores[tuple(key)]
    if not scores:
        return
    names = [column.name for column in columns]
    new = [
        dict(zip(names, key, strict=True)) | {"n": 0, "bins": {}, "line": OWN_LEAST}
        for key in sorted(scores)
    ]
    insert_new(connection, pass_lines, new, returning=pass_lines.c.app)
    locked = select(pass_lines).where(tuple_(*columns).in_(sorted(scores)))
    rows = rows_of(connection, locked.order_by(*columns).with_for_update())
    for row in rows:
        bins = Counter({int(b): int(c) for b, c in row["bins"].items()})
        new_scores = scores[row["app"], row["metric"], row["evaluator_version"]]
        for position in new_scores[: OWN_LEARNT_AT[-1] - row["n"]]:
            row["n"] += 1
            bins[position] += 1
            if row["n"] in OWN_LEARNT_AT:
                row["line"] = own_line(bins)
        row["bins"] = {str(b): c for b, c in sorted(bins.items())}
    put(connection, pass_lines, rows)


def _joining(name: str | None) -> str | None:
    """Return a name by which samples are joined, as a column can hold it."""
    return name[:200].replace("\0", "\ufffd") if name else None


def _add_to_buckets(
    connection: Connection, items: Iterable[tuple[str, Contribution, bool]]
) -> None:
    """Add contributions to buckets and streams of a segment each, and whether each is past."""
    by_bucket: dict[tuple[StreamKey, str, int], list[Tally]] = defaultdict(list)
    past: dict[StreamKey, list[Tally]] = defaultdict(list)
    for segment, item, is_past in items:
        by_bucket[item.stream, segment, item.start_s].append(item.tally)
        if is_past:
            past[item.stream._replace(segment=segment)].append(item.tally)
    sums = {
        (stream._replace(segment=segment), start_s): Tally.total(tallies)
        for (stream, segment, start_s), tallies in by_bucket.items()
    }
    by_stream: dict[StreamKey, list[tuple[int, Tally]]] = defaultdict(list)
    for (stream, start_s), tally in sums.items():
        by_stream[stream].append((start_s, tally))
    # How much each stream has counted, up to when, and how many of these were not current.
    rows = []
    for stream, counted in by_stream.items():
        new, old = Tally.total([tally for _, tally in counted]), Tally.total(past.get(stream, ()))
        rows.append(
            stream._asdict()
            | {"n_total": new.n, "last_bucket_s": max(start_s for start_s, _ in counted)}
            | {name: getattr(new, name) for name in STREAM_SUMS}
            | {"past_n": old.n}
            | {past_name(name): getattr(old, name) for name in STREAM_SUMS}
        )
    found = add(
        connection, streams, rows, key=StreamKey._fields, latest=["last_bucket_s"],
        sums=["n_total", *STREAM_SUMS, "past_n", *map(past_name, STREAM_SUMS)],
        returning=[streams.c.stream_id, *(streams.c[name] for name in StreamKey._fields)],
    )  # fmt: skip
    stream_ids = {StreamKey(*key): stream_id for stream_id, *key in found}
    bucket_rows, bin_rows = [], []
    for (stream, start_s), tally in sums.items():
        key = {"stream_id": stream_ids[stream], "start_s": start_s}
        bucket_rows.append(key | {name: getattr(tally, name) for name in TALLY_SUMS})
        bin_rows += [key | {"bin": b, "count": count} for b, count in tally.histogram.items()]
    add(connection, buckets, bucket_rows, sums=TALLY_SUMS)
    add(connection, bucket_bins, bin_rows, sums=["count"])
    if bucket_rows:
        add_late(connection, bucket_rows, bin_rows)
