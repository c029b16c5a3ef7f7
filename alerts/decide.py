"""
Turn verdicts into incidents, timeline and outbox, inside the caller's transaction.

`decide` is the whole way: read the stored states, step each with its verdict (`alerts.state`),
write what changed, and let the `Notifier` group, silence and route what people must know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection

from alerts.conditions import (
    JUDGE_CHANGED,
    MONITOR_PREFIX,
    RULE_PREFIX,
    ThresholdRule,
    blindness,
    judge_all,
)
from alerts.evidence import (
    AlertKey,
    AlertState,
    AlertThresholds,
    JudgedBy,
    Observation,
    Reason,
    Timers,
    timers_for,
)
from alerts.notifier import Notifier
from alerts.routing import Recipient, RoutingConfig
from alerts.silencing import apply_silences
from alerts.snapshot import SAMPLE_CHARS, Snapshot
from alerts.state import Decision, close, step
from alerts.store import Stored, load, save, write_incidents
from monitor.models.alerting import AlertEvent, TimelineEvent
from monitor.models.status import Status, Verdict
from monitor.report.format import plain_text

_log = structlog.get_logger("groundwatch.alerts")
_MOST_SAMPLES = 3


class _Change(NamedTuple):
    before: AlertState
    version: int
    verdict: Verdict
    decision: Decision


def decide(
    connection: Connection,
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
    timers: Timers,
    channels: Sequence[Recipient] | RoutingConfig,
    worst: Mapping[AlertKey, tuple[str, ...]] | None = None,
    thresholds: AlertThresholds | None = None,
    report_url: str | None = None,
) -> list[TimelineEvent]:
    """
    Step every alert that *verdicts* are about, and enqueue the messages about what changed.

    Nothing is sent here. An incident that no verdict has been about for a day is closed.

    Parameters
    ----------
    connection
        Of a writing transaction.
    verdicts
        Those of the status window only.
    now
        The time of the evaluation.
    timers
        How long what must hold.
    channels
        Who is notified of what, or recipients who are all notified of everything.
    worst
        Explanations of the worst samples, redacted already; read only for keys that changed, so
        it may be a lazy mapping.
    thresholds
        Where warning and critical begin, for messages.
    report_url
        Where the page is, for links.

    Returns
    -------
    list of TimelineEvent
        What happened, as it was written.
    """
    config = channels if isinstance(channels, RoutingConfig) else RoutingConfig.everyone(channels)
    current = {
        AlertKey.of(verdict): verdict
        for verdict in (*verdicts, *blindness(verdicts), *judge_all(verdicts, config.rules))
    }
    known = load(connection, {key.app for key in current}, now)
    changes = [
        change
        for change in _steps(known, current, now, timers, config.rules, thresholds)
        if change.decision.state != change.before
    ]
    written = save(connection, [(c.decision.state, c.version) for c in changes], now)
    new_judge = {
        verdict.app
        for verdict in verdicts
        if verdict.metric == JUDGE_CHANGED and verdict.status is Status.WARNING
    }
    events: list[Snapshot] = []
    for change, is_written in zip(changes, written, strict=True):
        key = change.before.key
        if not is_written:
            _log.warning("alert_decided_elsewhere", app=key.app, metric=key.metric)
        elif change.decision.event is not None:
            texts = (plain_text(text, SAMPLE_CHARS) for text in (worst or {}).get(key, ()))
            version, shared = change.verdict.evaluator_version, ""
            if key.metric.startswith(MONITOR_PREFIX):
                shared = "the monitor"
            elif version and key.app in new_judge:
                shared = f"the judge changed to {version}"
            frozen = {
                "thresholds": None if key.metric.startswith(RULE_PREFIX) else thresholds,
                "samples": tuple(text for text in texts if text)[:_MOST_SAMPLES],
                "report_url": report_url,
                "shared_cause": shared,
            }
            events.append(_snapshot(change, frozen))
    notifier = Notifier(connection, config, timers, now)
    groups = notifier.assign_groups(events)
    write_incidents(connection, events, groups)
    silenced = apply_silences(connection, config, events, current, now)
    notifier.notify(events, groups, silenced)
    return [snapshot.timeline_event() for snapshot in events]


def _steps(
    known: Mapping[AlertKey, Stored],
    current: Mapping[AlertKey, Verdict],
    now: datetime,
    timers: Timers,
    rules: Sequence[ThresholdRule],
    thresholds: AlertThresholds | None,
) -> Iterator[_Change]:
    """Step what is evaluated, and close what is not evaluated any more."""
    by_name = {f"{RULE_PREFIX}{rule.name}": rule for rule in rules}
    for key, verdict in sorted(current.items()):
        of_monitor, rule = key.metric.startswith(MONITOR_PREFIX), by_name.get(key.metric)
        state, version, _ = known.get(key, Stored(AlertState(key=key), 0, forgotten=False))
        # A monitor that was never blind needs no row.
        if state is None or (not version and of_monitor and verdict.status is Status.HEALTHY):
            continue
        own = timers.of_monitor() if of_monitor else timers
        if rule is not None:
            own = replace(own, warning_for_s=rule.for_s, critical_for_s=rule.for_s)
        seen = replace(Observation.of(verdict), basis=judged_by(verdict, thresholds, rule))
        yield _Change(state, version, verdict, step(state, seen, now, timers_for(verdict, own)))
    for key, (state, version, forgotten) in sorted(known.items()):
        if state is not None and forgotten and key not in current:
            last = Verdict(
                **key._asdict(),
                policy="none",
                status=Status.INSUFFICIENT_DATA,
                point_status=Status.INSUFFICIENT_DATA,
                reason="not evaluated any more: the app is silent, or the metric or window is gone",
                n=0,
                evaluated_at=now,
                since=now,
                status_since=now,
            )
            yield _Change(state, version, last, close(state, now, timers))


def judged_by(
    verdict: Verdict, thresholds: AlertThresholds | None, rule: ThresholdRule | None
) -> JudgedBy | None:
    """
    Return the evaluator, policy and threshold of *verdict*, or of the *rule* that made it.

    None for verdicts about the monitor itself, whose rules are built in, and for those of a rule
    that is gone. An alert whose basis changes is closed as superseded.
    """
    if verdict.metric.startswith(RULE_PREFIX):
        if rule is None:
            return None
        # A rule for every metric is about another one each time.
        evaluator = "" if rule.metric == "*" else verdict.evaluator_version
        return JudgedBy(evaluator=evaluator, policy=rule.of, threshold=rule.threshold)
    if verdict.metric.startswith(MONITOR_PREFIX):
        return None
    return JudgedBy(
        evaluator=verdict.evaluator_version,
        policy=verdict.policy,
        threshold="" if thresholds is None else thresholds.in_words(),
    )


def _snapshot(change: _Change, frozen: Mapping[str, Any]) -> Snapshot:
    before, decision = change.before, change.decision
    state = decision.state
    superseded = ""
    if before.basis is not None and state.basis is not None:
        superseded = before.basis.changes_to(state.basis)
    return Snapshot.model_validate(
        {
            **frozen,
            "incident_id": state.incident_id,
            "sequence": state.sequence,
            "event": decision.event,
            "reason": decision.reason.value,
            "level": state.level or state.peak,
            "peak": state.peak,
            "previous_level": None if decision.event is AlertEvent.FIRED else before.level,
            "status_before": state.status_before,
            "since": state.breach_since,
            "opened_at": state.opened_at,
            "at": state.seen_at,
            "verdict": change.verdict,
            "stale_since": before.stale_since,
            "well_since": before.resolved_at if decision.reason is Reason.REOPENED else None,
            "superseded": superseded,
            "quiet": decision.quiet,
            "flapping": state.quiet_since is not None,
            "onsets": state.quiet_onsets,
        }
    )
