"""What the state machine of alerts works on: keys, evidence, stored states, timers; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from alerts.conditions import MONITOR_PREFIX
from monitor.models.alerting import Severity
from monitor.models.status import Status, Verdict
from monitor.settings import Settings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """
    How long something must hold, in seconds; 0 means at once.

    Unless its timer is 0, a conclusion also needs ``min_new_evaluations`` evaluations
    that saw new samples: reading the same window again proves nothing. A silence of
    more than ``max_gap_s`` between two evaluations starts all of them again.
    """

    warning_for_s: float
    critical_for_s: float
    resolve_after_s: float
    repeat_after_s: float  #: between reminders of what is critical
    warning_repeat_after_s: float = 86_400.0
    reopen_within_s: float = 1_800.0  #: what fires again so soon is the same incident
    abandon_after_s: float = 86_400.0  #: firing without any data for so long ends an incident
    settle_after_s: float = 28_800.0  #: healthy for so long ends flapping
    min_new_evaluations: int = 2
    max_gap_s: float = 300.0
    #: The same two for alerts about the monitor itself, where they differ.
    monitor_for_s: float | None = None
    monitor_resolve_after_s: float | None = None
    #: The first three for policies that collect evidence; only timers that somebody has set.
    evidence_warning_for_s: float = 0.0
    evidence_critical_for_s: float = 0.0
    evidence_resolve_after_s: float = 0.0

    def of_monitor(self) -> Self:
        """Return the timers of alerts about the monitor itself."""
        for_s, after_s = self.monitor_for_s, self.monitor_resolve_after_s
        return replace(
            self,
            warning_for_s=self.warning_for_s if for_s is None else for_s,
            resolve_after_s=self.resolve_after_s if after_s is None else after_s,
        )


class JudgedBy(BaseModel):
    """How a status was judged; statuses that were judged differently are not compared."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    evaluator: str = ""
    policy: str = ""
    threshold: str = ""

    def changes_to(self, now: JudgedBy) -> str:
        """Return what is different *now*, in words; '' when nothing is."""
        before, after = self.model_dump(), now.model_dump()
        return "; ".join(
            f"{name} changed from {old or 'unknown'} to {after[name] or 'unknown'}"
            for name, old in before.items()
            if old != after[name]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One evaluation of a key."""

    evidence: Evidence
    at: datetime
    n_total: int
    blind: bool = False  #: uncertain because the monitor does not see
    basis: JudgedBy | None = None  #: None when there is only one

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return a verdict as evidence for an alert."""
        known = {Status.HEALTHY, Status.WARNING, Status.CRITICAL}
        evidence = Evidence(verdict.status.value if verdict.status in known else "uncertain")
        return cls(
            evidence=evidence,
            at=verdict.evaluated_at,
            # The monitor has no samples of its own: each of its evaluations is new evidence.
            n_total=round(verdict.evaluated_at.timestamp() * 1000)
            if verdict.metric.startswith(MONITOR_PREFIX)
            else verdict.n_total,
            blind=verdict.status is Status.BLIND,
        )


class EvidenceRun(BaseModel):
    """For how long the evidence has been of one sort; uncertain evidence does not end a run."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    since: AwareDatetime
    informed: int  #: evaluations in the run that saw new samples


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


class SentMessage(BaseModel):
    """A message that was sent: when, and about which level."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: AwareDatetime
    level: Severity


class AlertState(BaseModel):
    """
    All that is remembered of a key between two evaluations; survives JSON unchanged.

    After an incident was resolved its fields stay until the next one fires. One that is
    reopened keeps its id and goes on counting; the other fields are those of what fires now.
    """

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

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
    told: tuple[SentMessage, ...] = ()  #: what people were told in the last day
    onsets: tuple[AwareDatetime, ...] = ()  #: when it began in the last day
    quiet_since: AwareDatetime | None = None  #: flapping, and people are left in peace
    quiet_peak: Severity | None = None  #: the worst level they know of
    quiet_onsets: int = 0  #: how often it began, all in all, when they hear of it next

    def but(self, **changes: Any) -> Self:
        """Copy the state with some fields changed."""
        return self.model_copy(update=changes)


#: Fewer than this many missed evaluations are no gap.
_GAP_EVALUATIONS = 3
_LEAST_GAP_S = 300.0


class AlertThresholds(BaseModel):
    """Pass rates, in [0, 1], below which warning and critical begin; shown in messages."""

    # A newer release may have added fields to what is stored.
    model_config = ConfigDict(frozen=True, extra="ignore")

    warning_rate: float = Field(ge=0, le=1)
    critical_rate: float = Field(ge=0, le=1)

    def of(self, level: Severity) -> float:
        """Return the threshold of one level."""
        return self.critical_rate if level is Severity.CRITICAL else self.warning_rate

    def in_words(self) -> str:
        """Return both thresholds in words; stored with alerts, and compared."""
        return f"warning below {self.warning_rate:.4g}, critical below {self.critical_rate:.4g}"


def timers_from(settings: Settings) -> Timers:
    """Return the timers of the state machine from the settings."""
    chosen = settings.alert_timers
    held = chosen.model_fields_set
    return Timers(
        warning_for_s=chosen.warning_for_s,
        critical_for_s=chosen.critical_for_s,
        resolve_after_s=chosen.resolve_after_s,
        repeat_after_s=chosen.repeat_after_s,
        warning_repeat_after_s=chosen.warning_repeat_after_s,
        reopen_within_s=chosen.reopen_within_s,
        evidence_warning_for_s=chosen.warning_for_s if "warning_for_s" in held else 0.0,
        evidence_critical_for_s=chosen.critical_for_s if "critical_for_s" in held else 0.0,
        evidence_resolve_after_s=chosen.resolve_after_s if "resolve_after_s" in held else 0.0,
        # No statistics stand behind these, whatever the policy: only time makes them sure.
        monitor_for_s=chosen.warning_for_s,
        monitor_resolve_after_s=chosen.resolve_after_s,
        max_gap_s=max(_LEAST_GAP_S, _GAP_EVALUATIONS * settings.evaluate_every_s),
    )


def timers_for(verdict: Verdict, timers: Timers) -> Timers:
    """Return the timers of one verdict; see `timers_of_evidence`."""
    return timers if verdict.evidence is None else timers_of_evidence(timers)


def timers_of_evidence(timers: Timers) -> Timers:
    """
    Return the timers of a policy that collects evidence.

    Its evidence is the hold, so it needs no time by default: breaches notify at once, and a
    recovery is believed when the policy believes it. Timers that are set hold as a minimum.
    """
    return replace(
        timers,
        warning_for_s=timers.evidence_warning_for_s,
        critical_for_s=timers.evidence_critical_for_s,
        resolve_after_s=timers.evidence_resolve_after_s,
    )


def thresholds_from(settings: Settings) -> AlertThresholds:
    """Return the thresholds between healthy, warning and critical from the settings."""
    return AlertThresholds(warning_rate=settings.warning_rate, critical_rate=settings.critical_rate)
