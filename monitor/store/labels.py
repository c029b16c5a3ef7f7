"""
Labels: people's verdicts on evaluations, why some are refused, and which sample is labelled next.

A label belongs to a sample, a metric and the evaluator version whose verdict it stands beside; the
last word of each annotator counts. Several annotators make one verdict by majority.

Samples to label are drawn at random, half from passes and half from fails, or from bands of scores,
by a hash of their ids, so that a queue resumes where it stopped, and nothing about an answer but
its verdict or band decides whether it is drawn. Only samples of the present release are drawn, by
the present evaluator: labels hold for these.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import (
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from sqlalchemy import ColumnElement, Connection, Select, select

from monitor.errors import first_mistake
from monitor.models.interaction import Name
from monitor.models.status import score_bin
from monitor.stats.agreement import bands_to_label, count_bands, majority
from monitor.store.columns import epoch_ms, matches
from monitor.store.engine import batched, put, rows_of
from monitor.store.query import read_level_lines
from monitor.store.samples import evaluations_of, note_act
from monitor.store.tables import evaluations, labels, samples

#: The annotator of labels that the app itself sends with its samples.
APP_ANNOTATOR = "app"
#: The metric that a label means where it names none.
USUAL_METRIC = "groundedness"
MOST_NOTE_CHARS = 500
_AT_ONCE = 500
#: Drawn among so many of the newest verdicts, so that a draw costs the same however many there are.
_NEWEST = 2_000
#: The release that most of so many of the newest samples are of is the present one.
_PRESENT = 50
#: One sample in so many is offered to a second annotator, so that their agreement is known.
_TWICE_EVERY = 5
#: So many labels settle a level; see `monitor.stats`.
ENOUGH = 50
_WORDS = {"pass": True, "fail": False, "good": True, "bad": False, "1": True, "0": False}


class LabelRecord(BaseModel):
    """A label as it comes in: a line of JSONL, an object of the API. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sample_id: str = Field(
        min_length=1,
        max_length=200,
        validation_alias=AliasChoices("sample_id", "trace_id"),
        description="Its id, or the trace id of the one sample that has it.",
    )
    label: Annotated[
        bool, BeforeValidator(lambda value: _WORDS.get(str(value).strip().lower(), value))
    ] = Field(description='Whether the sample passes: 1 or 0, true or false, "pass" or "fail".')
    metric: Name = USUAL_METRIC
    annotator: Name | None = Field(None, description="Who says so; else who sends it.")
    labelled_at: AwareDatetime | None = Field(None, description="When; else now.")
    note: str = Field("", max_length=MOST_NOTE_CHARS)
    evaluator_version: str | None = Field(None, description="Beside which verdict; else all.")
    release: str | None = Field(None, description="Refused if the sample is of another one.")
    drawn: bool = Field(
        default=False,
        description="Whether the sample was drawn at random, as the queue does; only such labels"
        " say how good all answers are.",
    )


class LabelResult(StrEnum):
    """What became of a label that came in; all but the first three were refused."""

    STORED = "stored"
    CHANGED = "changed"  #: the annotator had said otherwise before; the audit record has it
    DUPLICATE = "duplicate"  #: the annotator had said the same before
    OLDER = "older"  #: the annotator has said otherwise since
    CONTRADICTING = "contradicting"  #: both verdicts at once, by one annotator
    UNKNOWN_SAMPLE = "unknown_sample"
    NOT_EVALUATED = "not_evaluated"  #: the sample has no verdict of this metric
    OTHER_RELEASE = "other_release"
    OTHER_EVALUATOR = "other_evaluator"
    UNREADABLE = "unreadable"

    @property
    def is_refused(self) -> bool:
        """Whether the label is not in the store, in this or an earlier form."""
        return self not in {LabelResult.STORED, LabelResult.CHANGED, LabelResult.DUPLICATE}


class LabelOutcome(NamedTuple):
    """What became of one label, with the detail for people."""

    result: LabelResult
    detail: str = ""


class Label(BaseModel):
    """One person's verdict on one evaluation: whether the sample passes."""

    model_config = ConfigDict(frozen=True)

    sample_id: str
    app: str
    metric: str
    evaluator_version: str
    labelled_by: str
    judge_passed: bool
    human_passed: bool
    note: str
    labelled_at: datetime
    release: str = ""
    drawn: bool = False


def read_record(value: object) -> LabelRecord | LabelOutcome:
    """Read a label from plain values; what is none becomes an outcome that says why."""
    try:
        return LabelRecord.model_validate(value)
    except ValidationError as error:
        where, what = first_mistake(error)
        return LabelOutcome(LabelResult.UNREADABLE, f"{where or 'label'}: {what}")


def take_labels(
    connection: Connection,
    records: Sequence[LabelRecord | LabelOutcome],
    *,
    annotator: str,
    now: datetime,
    apps: Container[str] | None = None,
) -> list[LabelOutcome]:
    """
    Store labels and return what became of each, in their order.

    Each is stored beside every verdict that its metric has on the sample. *annotator* is who
    sends them: records without one of their own are theirs. Samples of other *apps* are unknown.
    """
    outcomes = [item if isinstance(item, LabelOutcome) else None for item in records]
    given = [(i, item) for i, item in enumerate(records) if isinstance(item, LabelRecord)]
    # By time, so that the last word counts whatever the order of the lines.
    given.sort(key=lambda pair: pair[1].labelled_at or now)
    names = {record.sample_id for _, record in given}
    known = _known(connection, names)
    traced = _traced(connection, names - known.keys(), apps)
    known |= _known(connection, set(traced.values()))
    said: dict[tuple[str, str, str], LabelRecord] = {}
    rows: dict[tuple[str, str, str, str], Label] = {}
    for i, named in given:
        sample_id = traced.get(named.sample_id, named.sample_id)
        record = named.model_copy(update={"sample_id": sample_id})
        who = (record.annotator or annotator)[:200]
        key = (record.sample_id, record.metric, who)
        before = said.setdefault(key, record)
        if before.label != record.label and before.labelled_at == record.labelled_at:
            detail = f"{who} says pass and fail of {record.sample_id} at the same time"
            outcomes[i] = LabelOutcome(LabelResult.CONTRADICTING, detail)
            continue
        said[key] = record
        found = known.get(record.sample_id)
        if found is not None and apps is not None and found.app not in apps:
            found = None
        outcome, made = _labels_from(record, found, who=who, now=now)
        for label in made:
            place = (label.sample_id, label.metric, label.evaluator_version, who)
            stored = rows.get(place) or (found.labels.get(place[1:]) if found else None)
            if stored is None:
                rows[place] = label
            elif stored.human_passed == label.human_passed:
                outcome = LabelOutcome(LabelResult.DUPLICATE)
                if label.note and label.note != stored.note:
                    rows[place] = label
            elif stored.labelled_at > label.labelled_at:
                outcome = LabelOutcome(LabelResult.OLDER, "the annotator has said otherwise since")
            else:
                outcome = LabelOutcome(LabelResult.CHANGED)
                rows[place] = label
                verdict = "fail to pass" if label.human_passed else "pass to fail"
                note_act(
                    connection, who=who, act="changed label",
                    target=f"{label.sample_id} {label.metric} {verdict}", at=now,
                )  # fmt: skip
        outcomes[i] = outcome
    save_labels(connection, rows.values())
    return [outcome or LabelOutcome(LabelResult.STORED) for outcome in outcomes]


def _labels_from(
    record: LabelRecord, found: _Known | None, *, who: str, now: datetime
) -> tuple[LabelOutcome, list[Label]]:
    """Return the labels that a record makes, or why it makes none."""
    if found is None:
        return LabelOutcome(LabelResult.UNKNOWN_SAMPLE, f"no sample {record.sample_id}"), []
    verdicts = found.verdicts.get(record.metric, {})
    if not verdicts:
        detail = f"{record.sample_id} has no verdict of {record.metric}"
        return LabelOutcome(LabelResult.NOT_EVALUATED, detail), []
    if record.release is not None and record.release != found.release:
        detail = f"{record.sample_id} is of release {found.release or 'unknown'}"
        return LabelOutcome(LabelResult.OTHER_RELEASE, detail), []
    wanted = record.evaluator_version
    if wanted is not None and wanted not in verdicts:
        detail = f"{record.sample_id} was judged by {', '.join(sorted(verdicts))}"
        return LabelOutcome(LabelResult.OTHER_EVALUATOR, detail), []
    return LabelOutcome(LabelResult.STORED), [
        Label(
            sample_id=record.sample_id,
            app=found.app,
            metric=record.metric,
            evaluator_version=version,
            labelled_by=who,
            judge_passed=passed,
            human_passed=record.label,
            note=record.note.replace("\0", "\ufffd"),
            labelled_at=min(record.labelled_at or now, now),
            release=found.release,
            drawn=record.drawn,
        )
        for version, passed in verdicts.items()
        if wanted in {None, version}
    ]


class _Known(NamedTuple):
    """What the store knows of a sample: its verdicts by metric and version, and its labels."""

    app: str
    release: str
    verdicts: dict[str, dict[str, bool]]
    labels: dict[tuple[str, str, str], Label]


def _known(connection: Connection, sample_ids: set[str]) -> dict[str, _Known]:
    found: dict[str, _Known] = {}
    e = evaluations.c
    for batch in batched(sorted(sample_ids), _AT_ONCE):
        query = select(samples.c.sample_id, samples.c.app, samples.c.release)
        for sample_id, app, of in connection.execute(query.where(samples.c.sample_id.in_(batch))):
            found[sample_id] = _Known(app, of or "", {}, {})
        verdicts = select(e.sample_id, e.metric, e.evaluator_version, e.passed).where(
            e.sample_id.in_(batch), e.passed.is_not(None)
        )
        for sample_id, metric, version, passed in connection.execute(verdicts):
            found[sample_id].verdicts.setdefault(metric, {})[version] = bool(passed)
        for label in _read(connection, labels.c.sample_id.in_(batch)):
            if label.sample_id in found:
                key = (label.metric, label.evaluator_version, label.labelled_by)
                found[label.sample_id].labels[key] = label
    return found


def _traced(connection: Connection, names: set[str], apps: Container[str] | None) -> dict[str, str]:
    """Return the sample of each name that is the trace id of one sample alone."""
    found: dict[str, list[str]] = {}
    c = samples.c
    for batch in batched(sorted(names), _AT_ONCE):
        query = select(c.trace_id, c.sample_id, c.app).where(c.trace_id.in_(batch))
        for trace_id, sample_id, app in connection.execute(query):
            if apps is None or app in apps:
                found.setdefault(trace_id, []).append(sample_id)
    return {trace_id: ids[0] for trace_id, ids in found.items() if len(ids) == 1}


def save_labels(connection: Connection, found: Iterable[Label]) -> None:
    """Store labels as they are; a person's later label replaces the earlier one."""
    flags = ("judge_passed", "human_passed", "drawn")
    rows = (label.model_dump() for label in found)
    put(connection, labels, [row | {name: int(row[name]) for name in flags} for row in rows])


def _read(connection: Connection, *wanted: ColumnElement[bool]) -> list[Label]:
    query = select(labels).where(*wanted).order_by(labels.c.labelled_at, labels.c.sample_id)
    return [Label.model_validate(row) for row in rows_of(connection, query)]


def labels_of(connection: Connection, sample_id: str) -> list[Label]:
    """List the labels of a sample's evaluations, oldest first."""
    return _read(connection, labels.c.sample_id == sample_id)


def all_labels(
    connection: Connection, *, app: str | None = None, metric: str | None = None
) -> list[Label]:
    """List every label, of one app or metric only where it is named, oldest first."""
    return _read(connection, matches(labels.c.app, app), matches(labels.c.metric, metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQueue:
    """The next sample to label, and how far the labels of the present release have come."""

    app: str
    metric: str
    release: str
    evaluator_version: str
    sample_id: str | None  #: None when nothing is left to label
    passes: int  #: samples labelled so far that the evaluator passed
    fails: int

    @property
    def n(self) -> int:
        """How many samples have labels of anyone."""
        return self.passes + self.fails


def draw(
    connection: Connection, *, app: str, metric: str, annotator: str, skip: Collection[str] = ()
) -> LabelQueue | None:
    """
    Draw the next sample for *annotator*, who passes over those in *skip*; None without verdicts.

    First what annotators are split over, then what wants a second annotator, then new samples of
    the verdict that has fewer labels. Where the pass line is an app's own, hardly anything lies
    below it: there new samples come from the band of scores where a label tells most of the level.
    """
    e = evaluations.c
    query = _newest(app, metric, e.passed, e.evaluator_version, samples.c.release, e.score)
    rows = [
        (i, bool(passed), (v, r or ""), score)
        for i, passed, v, r, score in connection.execute(query)
    ]
    if not rows:
        return None
    (version, present), _ = Counter(row[2] for row in rows[:_PRESENT]).most_common(1)[0]
    lines = read_level_lines(connection, (app, metric, version))
    mine = {i: (passed, score) for i, passed, of, score in rows if of == (version, present)}
    of_stream = (
        (labels.c.app == app) & (labels.c.metric == metric) & (labels.c.release == present)
        & (labels.c.evaluator_version == version)
    )  # fmt: skip
    same = (e.sample_id == labels.c.sample_id) & (e.metric == metric)
    said = (
        select(
            labels.c.sample_id, labels.c.labelled_by, labels.c.judge_passed,
            labels.c.human_passed, e.score,
        )
        .join(evaluations, same & (e.evaluator_version == version), isouter=True)
        .where(of_stream)
    )  # fmt: skip
    votes: dict[str, dict[str, bool]] = {}
    judged: dict[str, bool] = {}
    scores: dict[str, float] = {}
    for sample_id, who, passed, good, score in connection.execute(said):
        votes.setdefault(sample_id, {})[who] = bool(good)
        judged[sample_id] = bool(passed)
        if score is not None:
            scores[sample_id] = score
    counts = Counter(judged.values())
    if lines:
        every = scores | {i: score for i, (_, score) in mine.items()}
        at = {i: score_bin(score) for i, score in every.items()}
        goods = {i: list(votes[i].values()) for i in scores}
        said_good = {i: majority(sum(by), len(by) - sum(by)) for i, by in goods.items()}
        good_at = [(at[i], good) for i, good in said_good.items() if good is not None]
        order = bands_to_label(count_bands(lines, Counter(at[i] for i in mine), good_at))
        rank = {i: order.index(bisect(lines, at[i])) for i in mine}
    else:
        fewer = counts[True] <= counts[False]
        rank = {i: int(passed != fewer) for i, (passed, _) in mine.items()}

    def place(sample_id: str) -> tuple[int, bytes] | None:
        by = votes.get(sample_id, {})
        if sample_id in skip or annotator in by:
            return None
        order = _order(sample_id)
        if len(by) > 1 and 2 * sum(by.values()) == len(by):
            return 0, order
        if len(by) == 1 and order[0] % _TWICE_EVERY == 0:
            return 1, order
        return (2 + rank[sample_id], order) if not by else None

    places = ((found, sample_id) for sample_id in mine if (found := place(sample_id)))
    return LabelQueue(
        app=app,
        metric=metric,
        release=present,
        evaluator_version=version,
        sample_id=min(places, default=(None, None))[1],
        passes=counts[True],
        fails=counts[False],
    )


class SamplePair(NamedTuple):
    """One sample from before a moment, and one from after it."""

    before: str
    after: str

    @property
    def shuffled(self) -> tuple[str, ...]:
        """Both, in an order that does not reveal which is which."""
        return tuple(sorted(self, key=lambda sample_id: _order(sample_id, "side")))


def draw_pairs(
    connection: Connection, *, app: str, metric: str, at: datetime, most: int
) -> list[SamplePair]:
    """
    Draw up to *most* pairs at random, among the newest verdicts before and after *at*.

    Every call draws the same pairs in the same order, as long as the samples are there.
    """
    at_ms = evaluations.c.occurred_at_ms
    sides = []
    for within in (at_ms < epoch_ms(at), at_ms >= epoch_ms(at)):
        found = set(connection.execute(_newest(app, metric).where(within)).scalars())
        sides.append(sorted(found, key=lambda sample_id: _order(sample_id, "pair"))[:most])
    return [SamplePair(*pair) for pair in zip(*sides, strict=False)]


def _newest(app: str, metric: str, *columns: ColumnElement[Any]) -> Select[Any]:
    """Select the id and *columns* of the newest verdicts among which samples are drawn."""
    e = evaluations.c
    return (
        select(samples.c.sample_id, *columns)
        .join(samples, samples.c.position == e.position)
        .where(
            evaluations_of(app, metric), e.passed.is_not(None),
            samples.c.interaction_id != "removed",
        )
        .order_by(e.occurred_at_ms.desc())
        .limit(_NEWEST)
    )  # fmt: skip


def _order(sample_id: str, purpose: str = "") -> bytes:
    """Return the place of a sample in a draw: a hash, which nothing about the answer decides."""
    return hashlib.blake2b(f"{purpose}{sample_id}".encode(), digest_size=8).digest()
