"""Keys and states of alerts, and the evidence that is frozen with each event; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self, get_args

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from alerts.conditions import MONITOR_PREFIX, RULE_PREFIX, ThresholdRule
from monitor.models.alerting import AlertEvent, Severity, TimelineEvent
from monitor.models.status import Status, Verdict
from monitor.settings import Settings

#: Events that end an alert.
OVER = frozenset({AlertEvent.RESOLVED, AlertEvent.SETTLED})
#: What is quoted of one explanation.
SAMPLE_CHARS = 300


class AlertKey(NamedTuple):
    """What an alert is about."""

    app: str
    metric: str
    segment: str
    window_s: int

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return the key of the alert that a verdict is about."""
        return cls(verdict.app, verdict.metric, verdict.segment, verdict.window_s)


class Evidence(StrEnum):
    """What an evaluation means for an alert."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    UNCERTAIN = "uncertain"  #: too little data, or the monitor does not see

    @classmethod
    def of(cls, status: Status) -> Self:
        """Return what a status means for an alert."""
        known = {Status.HEALTHY, Status.WARNING, Status.CRITICAL}
        return cls(status.value if status in known else "uncertain")


class _Stored(BaseModel):
    """What a newer release may have stored with more fields; an older one has to read it."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class JudgedBy(_Stored):
    """How a status was judged; statuses that were judged differently are not compared."""

    evaluator: str = ""
    policy: str = ""
    threshold: str = ""

    @classmethod
    def of(
        cls, verdict: Verdict, thresholds: AlertThresholds | None, rule: ThresholdRule | None
    ) -> Self | None:
        """
        Return the evaluator, policy and threshold of *verdict*, or of the *rule* that made it.

        None for verdicts about the monitor itself, whose rules are built in, and for those of a
        rule that is gone. An alert whose basis changes is closed as superseded.
        """
        if verdict.metric.startswith(RULE_PREFIX):
            if rule is None:
                return None
            # A rule for every metric is about another one each time.
            evaluator = "" if rule.metric == "*" else verdict.evaluator_version
            return cls(evaluator=evaluator, policy=rule.of, threshold=rule.threshold)
        if verdict.metric.startswith(MONITOR_PREFIX):
            return None
        threshold = "" if thresholds is None else thresholds.in_words()
        return cls(evaluator=verdict.evaluator_version, policy=verdict.policy, threshold=threshold)

    def changes_to(self, now: JudgedBy) -> str:
        """Return what is different *now*, in words; '' when nothing is."""
        before, after = self.model_dump(), now.model_dump()
        return "; ".join(
            f"{name} changed from {old or 'unknown'} to {after[name] or 'unknown'}"
            for name, old in before.items()
            if old != after[name]
        )


class EvidenceRun(_Stored):
    """For how long the evidence has been of one sort; uncertain evidence does not end a run."""

    since: AwareDatetime
    informed: int  #: evaluations in the run that saw new samples

    @classmethod
    def after(
        cls, before: Self | None, goes_on: bool, *, at: datetime, is_new: bool
    ) -> Self | None:
        """Return a run after one more evaluation at *at*; None where it does not go on."""
        if not goes_on:
            return None
        if before is None:
            return cls(since=at, informed=int(is_new))
        return before.model_copy(update={"informed": before.informed + is_new})


class Phase(StrEnum):
    """Where an alert stands towards people."""

    OK = "ok"
    PENDING = "pending"  #: bad, but not for long enough yet
    FIRING = "firing"
    RECOVERING = "recovering"  #: firing and healthy again, but not for long enough yet


class Reason(StrEnum):
    """Why a step ended as it did."""

    NOT_NEWER = "not_newer"
    UNCERTAIN = "uncertain"
    STILL_HEALTHY = "still_healthy"
    PENDING = "pending"
    CLEARED_WHILE_PENDING = "cleared_while_pending"
    BREACH_HELD = "breach_held"
    REOPENED = "reopened"
    STILL_FIRING = "still_firing"
    CRITICAL_HELD = "critical_held"
    CRITICAL_CLEARED = "critical_cleared"
    REPEAT_DUE = "repeat_due"
    RECOVERING = "recovering"
    RELAPSED = "relapsed"
    HEALTHY_HELD = "healthy_held"
    NO_NEWS_STILL_FIRING = "no_news_still_firing"
    NO_LONGER_EVALUATED = "no_longer_evaluated"
    EXPIRED_NO_DATA = "expired_no_data"
    SUPERSEDED = "superseded"
    STABLE_AGAIN = "stable_again"


#: Why an incident may end without anything having recovered.
CLOSED = frozenset({Reason.NO_LONGER_EVALUATED, Reason.EXPIRED_NO_DATA, Reason.SUPERSEDED})


class SentMessage(_Stored):
    """A message that was sent: when, and about which level."""

    at: AwareDatetime
    level: Severity


class AlertState(_Stored):
    """
    All that is remembered of a key between two evaluations; survives JSON unchanged.

    After an incident was resolved its fields stay until the next one fires. One that is
    reopened keeps its id and goes on counting; the other fields are those of what fires now.
    """

    key: AlertKey
    phase: Phase = Phase.OK
    phase_since: AwareDatetime | None = None
    reason: Reason | None = None  #: why the phase or the level changed last
    level: Severity | None = None
    peak: Severity | None = None
    # what the last evaluations said
    seen_at: AwareDatetime | None = None
    seen_n_total: int | None = None
    seen: Evidence | None = None
    basis: JudgedBy | None = None  #: by what the last evaluation was judged
    bad: EvidenceRun | None = None
    critical: EvidenceRun | None = None
    not_critical: EvidenceRun | None = None
    healthy: EvidenceRun | None = None
    stale_since: AwareDatetime | None = None  #: firing, and nothing is known since
    no_data_since: AwareDatetime | None = None  #: the same, though the monitor sees
    # the incident
    incident_id: str | None = None
    status_before: Evidence | None = None
    breach_since: AwareDatetime | None = None
    opened_at: AwareDatetime | None = None
    resolved_at: AwareDatetime | None = None  #: it may be reopened; None when it may not
    sequence: int = 0
    last_notified_at: AwareDatetime | None = None
    # flapping
    told: tuple[SentMessage, ...] = ()  #: messages of the last day
    onsets: tuple[AwareDatetime, ...] = ()  #: when it began in the last day
    quiet_since: AwareDatetime | None = None  #: flapping, and people are left in peace
    quiet_peak: Severity | None = None  #: the worst level they know of
    quiet_onsets: int = 0  #: how often it began in all, for the next message

    def but(self, **changes: Any) -> Self:
        """Copy the state with some fields changed."""
        return self.model_copy(update=changes)


class AlertThresholds(_Stored):
    """Pass rates, in [0, 1], below which warning and critical begin; shown in messages."""

    warning_rate: float = Field(ge=0, le=1)
    critical_rate: float = Field(ge=0, le=1)

    def of(self, level: Severity) -> float:
        """Return the threshold of one level."""
        return self.critical_rate if level is Severity.CRITICAL else self.warning_rate

    def in_words(self) -> str:
        """Return both thresholds in words; stored with alerts, and compared."""
        return f"warning below {self.warning_rate:.4g}, critical below {self.critical_rate:.4g}"


def thresholds_from(settings: Settings) -> AlertThresholds:
    """Return the thresholds between healthy, warning and critical from the settings."""
    return AlertThresholds(warning_rate=settings.warning_rate, critical_rate=settings.critical_rate)


class Other(_Stored):
    """Another alert that fires at the same time and is reported in the same message."""

    app: str
    metric: str
    segment: str
    level: Severity


class Background(_Stored):
    """The background of an alert, each part in a line; empty where nothing is known."""

    changed: str = ""  #: releases, evaluators, questions since shortly before it began
    segments: str = ""  #: those that explain the fall, the worst first
    pipeline: str = ""  #: how samples went through the monitor


class Snapshot(_Stored):
    """What was known when an event was decided; holds no secret and no address of a channel."""

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
    labels: Mapping[str, str] = {}  #: of its app, by the routes file
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
    recovered: tuple[Other, ...] = ()  #: what of this incident is over by now, with its worst level
    note: str = ""
    test: bool = False

    @classmethod
    def of_step(
        cls, before: AlertState, state: AlertState, event: AlertEvent, reason: Reason,
        verdict: Verdict, **shown: Any,
    ) -> Self:  # fmt: skip
        """Freeze the evidence of a step of an alert; *shown* is what messages show besides."""
        superseded = ""
        if before.basis is not None and state.basis is not None:
            superseded = before.basis.changes_to(state.basis)
        return cls.model_validate(
            {
                **shown,
                "incident_id": state.incident_id,
                "sequence": state.sequence,
                "event": event,
                "reason": reason.value,
                "level": state.level or state.peak,
                "peak": state.peak,
                "previous_level": None if event is AlertEvent.FIRED else before.level,
                "status_before": state.status_before,
                "since": state.breach_since,
                "opened_at": state.opened_at,
                "at": state.seen_at,
                "verdict": verdict,
                "stale_since": before.stale_since,
                "well_since": before.resolved_at if reason is Reason.REOPENED else None,
                "superseded": superseded,
                "flapping": state.quiet_since is not None,
                "onsets": state.quiet_onsets,
            }
        )

    @field_validator("verdict", mode="before")
    @classmethod
    def _drop_fields_of_newer_releases(cls, stored: Any) -> Any:
        return _known(Verdict, stored)

    @property
    def key(self) -> AlertKey:
        """What the alert is about."""
        return AlertKey.of(self.verdict)

    @property
    def is_first(self) -> bool:
        """Whether its incident begins with it."""
        return self.event is AlertEvent.FIRED and self.sequence == 1

    def stored(self) -> dict[str, Any]:
        """Return it as JSON without defaults: half as long, and read back the same."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def timeline_event(self) -> TimelineEvent:
        """Return the line of the timeline that this is the evidence of."""
        mine = ("incident_id", "sequence", "event", "level", "previous_level", "reason", "at")
        return TimelineEvent(
            **self.key._asdict(),
            **{name: getattr(self, name) for name in mine},
            **{name: getattr(self.verdict, name) for name in ("pass_rate", "low", "high", "n")},
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
