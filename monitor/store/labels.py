"""
Labels: what people say of evaluations, who and when, and what of it is refused and why.

A label belongs to a sample, a metric and the evaluator version whose verdict it stands beside; the
last word of each annotator counts. Several annotators make one verdict by majority.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, Row, select

from monitor.errors import own_words
from monitor.models.interaction import Name
from monitor.store.engine import put
from monitor.store.samples import note_act
from monitor.store.tables import evaluations, labels, samples

#: The annotator of labels that the app itself sends with its samples.
APP_ANNOTATOR = "app"
#: The metric that a label means where it names none.
USUAL_METRIC = "groundedness"
MOST_NOTE_CHARS = 500
_AT_ONCE = 500
_WORDS = {"pass": True, "fail": False, "good": True, "bad": False, "1": True, "0": False}


def _verdict(value: object) -> object:
    return _WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value


class LabelRecord(BaseModel):
    """A label as it comes in: a line of JSONL, an object of the API. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sample_id: str = Field(min_length=1, max_length=64)
    label: Annotated[bool, BeforeValidator(_verdict)] = Field(
        description='Whether the sample passes: 1 or 0, true or false, "pass" or "fail".'
    )
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


class Taken(StrEnum):
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
        return self not in {Taken.STORED, Taken.CHANGED, Taken.DUPLICATE}


class LabelOutcome(NamedTuple):
    """What became of one label, with the detail for people."""

    taken: Taken
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One person's verdict on one evaluation: whether the sample passes."""

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
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "label"
        return LabelOutcome(Taken.UNREADABLE, f"{where}: {own_words(first['msg'])}")


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
    known = _known(connection, {record.sample_id for _, record in given})
    said: dict[tuple[str, str, str], LabelRecord] = {}
    rows: dict[tuple[str, str, str, str], Label] = {}
    for i, record in given:
        who = (record.annotator or annotator)[:200]
        key = (record.sample_id, record.metric, who)
        before = said.setdefault(key, record)
        if before.label != record.label and before.labelled_at == record.labelled_at:
            detail = f"{who} says pass and fail of {record.sample_id} at the same time"
            outcomes[i] = LabelOutcome(Taken.CONTRADICTING, detail)
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
                outcome = LabelOutcome(Taken.DUPLICATE)
                if label.note and label.note != stored.note:
                    rows[place] = label
            elif stored.labelled_at > label.labelled_at:
                outcome = LabelOutcome(Taken.OLDER, "the annotator has said otherwise since")
            else:
                outcome = LabelOutcome(Taken.CHANGED)
                rows[place] = label
                verdict = "fail to pass" if label.human_passed else "pass to fail"
                note_act(
                    connection, who=who, act="changed label",
                    target=f"{label.sample_id} {label.metric} {verdict}", at=now,
                )  # fmt: skip
        outcomes[i] = outcome
    save_labels(connection, rows.values())
    return [outcome or LabelOutcome(Taken.STORED) for outcome in outcomes]


def _labels_from(
    record: LabelRecord, found: _Known | None, *, who: str, now: datetime
) -> tuple[LabelOutcome, list[Label]]:
    """Return the labels that a record makes, or why it makes none."""
    if found is None:
        return LabelOutcome(Taken.UNKNOWN_SAMPLE, f"no sample {record.sample_id}"), []
    verdicts = found.verdicts.get(record.metric, {})
    if not verdicts:
        detail = f"{record.sample_id} has no verdict of {record.metric}"
        return LabelOutcome(Taken.NOT_EVALUATED, detail), []
    if record.release is not None and record.release != found.release:
        detail = f"{record.sample_id} is of release {found.release or 'unknown'}"
        return LabelOutcome(Taken.OTHER_RELEASE, detail), []
    wanted = record.evaluator_version
    if wanted is not None and wanted not in verdicts:
        detail = f"{record.sample_id} was judged by {', '.join(sorted(verdicts))}"
        return LabelOutcome(Taken.OTHER_EVALUATOR, detail), []
    return LabelOutcome(Taken.STORED), [
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
    wanted = sorted(sample_ids)
    for first in range(0, len(wanted), _AT_ONCE):
        batch = wanted[first : first + _AT_ONCE]
        query = select(samples.c.sample_id, samples.c.app, samples.c.release)
        for sample_id, app, of in connection.execute(query.where(samples.c.sample_id.in_(batch))):
            found[sample_id] = _Known(app, of or "", {}, {})
        columns = evaluations.c
        verdicts = select(
            columns.sample_id, columns.metric, columns.evaluator_version, columns.passed
        ).where(columns.sample_id.in_(batch), columns.passed.is_not(None))
        for sample_id, metric, version, passed in connection.execute(verdicts):
            found[sample_id].verdicts.setdefault(metric, {})[version] = bool(passed)
        for row in connection.execute(select(labels).where(labels.c.sample_id.in_(batch))):
            if row.sample_id in found:
                key = (row.metric, row.evaluator_version, row.labelled_by)
                found[row.sample_id].labels[key] = _label(row)
    return found


def save_labels(connection: Connection, found: Iterable[Label]) -> None:
    """Store labels as they are; a person's later label replaces the earlier one."""
    put(connection, labels, [_row(label) for label in found])


def _row(label: Label) -> dict[str, Any]:
    return {
        "sample_id": label.sample_id,
        "metric": label.metric,
        "evaluator_version": label.evaluator_version,
        "labelled_by": label.labelled_by,
        "app": label.app,
        "judge_passed": int(label.judge_passed),
        "human_passed": int(label.human_passed),
        "note": label.note,
        "labelled_at_ms": round(label.labelled_at.timestamp() * 1000),
        "release": label.release,
        "drawn": int(label.drawn),
    }


def _label(row: Row[Any]) -> Label:
    return Label(
        sample_id=row.sample_id,
        app=row.app,
        metric=row.metric,
        evaluator_version=row.evaluator_version,
        labelled_by=row.labelled_by,
        judge_passed=bool(row.judge_passed),
        human_passed=bool(row.human_passed),
        note=row.note,
        labelled_at=datetime.fromtimestamp(row.labelled_at_ms / 1000, UTC),
        release=row.release,
        drawn=bool(row.drawn),
    )


def labels_of(connection: Connection, sample_id: str) -> list[Label]:
    """List the labels of a sample's evaluations, oldest first."""
    query = select(labels).where(labels.c.sample_id == sample_id).order_by(labels.c.labelled_at_ms)
    return [_label(row) for row in connection.execute(query)]


def all_labels(
    connection: Connection, *, app: str | None = None, metric: str | None = None
) -> Iterable[Label]:
    """Yield every label, of one app or metric only where it is named, oldest first."""
    query = select(labels).order_by(labels.c.labelled_at_ms, labels.c.sample_id)
    if app is not None:
        query = query.where(labels.c.app == app)
    if metric is not None:
        query = query.where(labels.c.metric == metric)
    for row in connection.execute(query):
        yield _label(row)
