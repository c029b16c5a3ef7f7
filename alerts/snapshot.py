"""The evidence of one event, frozen when it was decided: all that a message is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import Connection, select, update

from alerts.evidence import AlertKey, AlertThresholds, Evidence
from monitor.models.alerting import AlertEvent, Severity, TimelineEvent
from monitor.models.status import Verdict
from monitor.report.format import plain_text
from monitor.store.alert_tables import alert_events, outbox

#: What is quoted of one explanation.
SAMPLE_CHARS = 300
#: In place of a quote that was deleted.
_DELETED = "(deleted)"


class Other(BaseModel):
    """Another alert that fires at the same time and is reported in the same message."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    app: str
    metric: str
    segment: str
    level: Severity


class Background(BaseModel):
    """The background of an alert, each part in a line; empty where nothing is known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    changed: str = ""  #: releases, evaluators, questions since shortly before it began
    segments: str = ""  #: those that explain the fall, the worst first
    pipeline: str = ""  #: how samples went through the monitor


class Snapshot(BaseModel):
    """What was known when an event was decided; holds no secret and no address of a channel."""

    # A newer release may add fields; an older dispatcher still has to deliver.
    model_config = ConfigDict(frozen=True, extra="ignore")

    incident_id: str
    sequence: int
    event: AlertEvent
    reason: str
    level: Severity
    peak: Severity
    previous_level: Severity | None
    status_before: Evidence | None  #: before the breach; None when nothing was known
    since: AwareDatetime  #: when the breach began
    opened_at: AwareDatetime  #: when it fired
    at: AwareDatetime
    verdict: Verdict
    # Its name in documents of releases before 0.2.
    thresholds: AlertThresholds | None = Field(
        None, validation_alias=AliasChoices("thresholds", "lines")
    )
    samples: tuple[str, ...] = ()
    example_id: str = ""  #: the sample to show; its texts are read when the message is sent
    report_url: str | None = None  #: where the page is
    lead_id: str = ""  #: the incident that this is about, where it is not the first of its group
    background: Background = Background()
    trend: tuple[float | None, ...] = ()  #: pass rates of equal stretches of time, oldest first
    stale_since: AwareDatetime | None = None  #: nothing is known since
    well_since: AwareDatetime | None = None  #: it was over since, and fires again
    superseded: str = ""  #: what changed in how it is judged, which closed it
    quiet: bool = False  #: recorded without a message
    flapping: bool = False  #: no more messages until it is stable
    onsets: int = 0  #: how often it began while it was flapping
    shared_cause: str = ""  #: what may make other apps fire at the same time
    cause: str | None = None  #: what several apps of this incident share
    others: tuple[Other, ...] = ()  #: what else fires, the worst first
    more: int = 0  #: how many besides those
    note: str = ""
    test: bool = False

    @field_validator("verdict", mode="before")
    @classmethod
    def _drop_fields_of_newer_releases(cls, stored: Any) -> Any:
        return _known(Verdict, stored)

    @property
    def key(self) -> AlertKey:
        """What the alert is about."""
        return AlertKey.of(self.verdict)

    @property
    def link_id(self) -> str:
        """The incident whose page is linked."""
        return self.lead_id or self.incident_id

    @property
    def is_first(self) -> bool:
        """Whether its incident begins with it."""
        return self.event is AlertEvent.FIRED and self.sequence == 1

    def stored(self) -> dict[str, Any]:
        """Return it as JSON without defaults: half as long, and read back the same."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def timeline_event(self) -> TimelineEvent:
        """Return the line of the timeline that this is the evidence of."""
        return TimelineEvent(
            **self.key._asdict(),
            incident_id=self.incident_id,
            sequence=self.sequence,
            event=self.event,
            level=self.level,
            previous_level=self.previous_level,
            reason=self.reason,
            at=self.at,
            pass_rate=self.verdict.pass_rate,
            low=self.verdict.low,
            high=self.verdict.high,
            n=self.verdict.n,
        )


def _known(model: type[BaseModel], stored: Any) -> Any:
    """Return *stored* without what *model* has no field for, at every depth."""
    if not isinstance(stored, Mapping):
        return stored
    kept = {}
    for name, field in model.model_fields.items():
        if name in stored:
            kinds = get_args(field.annotation) or (field.annotation,)
            nested = next(
                (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None
            )
            kept[name] = _known(nested, stored[name]) if nested else stored[name]
    return kept


def forget_quotes(connection: Connection, explanations: Iterable[str], *, dry_run: bool) -> int:
    """
    Delete every quote of these explanations from timelines and messages; return how many had one.

    Messages that were delivered already are beyond reach. Questions and answers are not stored
    with alerts, only the id of their sample.
    """
    quotes = {plain_text(text, SAMPLE_CHARS) for text in explanations}
    if not quotes:
        return 0
    found = 0
    for table, key in ((alert_events, "event_id"), (outbox, "delivery_id")):
        for name, snapshot in connection.execute(select(table.c[key], table.c.snapshot)).all():
            quoted = snapshot.get("samples") or []
            if quotes.isdisjoint(quoted):
                continue
            found += 1
            if not dry_run:
                kept = [_DELETED if text in quotes else text for text in quoted]
                row = update(table).where(table.c[key] == name)
                connection.execute(row.values(snapshot={**snapshot, "samples": kept}))
    return found
