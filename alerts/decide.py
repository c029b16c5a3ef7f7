"""Turn verdicts into incidents, timeline and outbox, inside the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection, bindparam, case, insert, update

from alerts.evidence import AlertKey, JudgedBy, Observation, Reason, Thresholds, Timers, timers_for
from alerts.grouping import Group
from alerts.notifier import Notifier
from alerts.routing import MONITOR_PREFIX, Recipient, RoutingConfig
from alerts.silencing import hush
from alerts.snapshot import SAMPLE_CHARS, Snapshot
from alerts.state import AlertState, Decision, close, step
from alerts.store import Stored, load, save
from alerts.threshold_rules import RULE_PREFIX, ThresholdRule, hold_s, judge_all
from monitor.models.alerting import AlertEvent, Level, TimelineEvent
from monitor.models.status import Status, Verdict
from monitor.report.format import plain_text
from monitor.store.alert_tables import alert_events, incidents

_log = structlog.get_logger("groundwatch.alerts")
_MOST_SAMPLES = 3
#: One begins an incident, and what has settled was over before.
_ENDS_NOTHING = {AlertEvent.FIRED, AlertEvent.SETTLED}
_IS_CRITICAL = incidents.c.peak_level == Level.CRITICAL.value
#: What is reopened is no better than it was.
_WORST_SO_FAR = case((_IS_CRITICAL, incidents.c.peak_level), else_=bindparam("peak"))


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
    lines: Thresholds | None = None,
    report_url: str | None = None,
) -> list[TimelineEvent]:
    """
    Step every alert that *verdicts* speak of, and enqueue what people must know.

    Give a writing transaction, and only the verdicts of the status window. Nothing is
    sent here. *channels* are the plan of who hears of what, or a list of places that all
    hear of everything. *worst* (a sentence on each of the worst samples, redacted already) is
    asked only for keys with news, so it may be a lazy mapping. An incident whose key
    no verdict speaks of for a day is closed.
    """
    events: list[Snapshot] = []
    plan = channels if isinstance(channels, RoutingConfig) else RoutingConfig.everyone(channels)
    all_verdicts = (*verdicts, *blindness(verdicts), *judge_all(verdicts, plan.rules))
    speaking = {AlertKey.of(verdict): verdict for verdict in all_verdicts}
    known = load(connection, {key.app for key in speaking}, now)
    changes = [
        change
        for change in _changes(known, speaking, now, timers, plan.rules, lines)
        if change.decision.state != change.before
    ]
    written = save(connection, [(c.decision.state, c.version) for c in changes], now)
    for (before, _, verdict, decision), is_written in zip(changes, written, strict=True):
        if not is_written:
            _log.warning("alert_decided_elsewhere", app=before.key.app, metric=before.key.metric)
        elif decision.event is not None:
            excerpts = (worst or {}).get(before.key, ())
            events.append(_snapshot(before, decision, verdict, excerpts, lines, report_url))
    _tell(connection, events, speaking, plan, timers, now)
    return [snapshot.timeline_event() for snapshot in events]


def _tell(
    connection: Connection,
    events: Sequence[Snapshot],
    speaking: Mapping[AlertKey, Verdict],
    plan: RoutingConfig,
    timers: Timers,
    now: datetime,
) -> None:
    announcer = Notifier(connection, plan, timers, now)
    placed = announcer.place(events)
    _write(connection, events, placed)
    announcer.tell(events, placed, hush(connection, plan, events, speaking, now))


def _changes(
    known: Mapping[AlertKey, Stored],
    speaking: Mapping[AlertKey, Verdict],
    now: datetime,
    timers: Timers,
    rules: Sequence[ThresholdRule],
    lines: Thresholds | None,
) -> Iterator[_Change]:
    """Step what is evaluated, and close what nobody evaluates any more."""
    for key, verdict in sorted(speaking.items()):
        state, version, _ = known.get(key, Stored(AlertState(key=key), 0, forgotten=False))
        if state is not None and (version or not starts_nothing(verdict)):
            mine = timers_for(verdict, _timers_of(key, timers, rules))
            seen = replace(observe(verdict), basis=basis_of(verdict, lines, rules))
            yield _Change(state, version, verdict, step(state, seen, now, mine))
    for key, (state, version, forgotten) in sorted(known.items()):
        if state is not None and forgotten and key not in speaking:
            yield _Change(state, version, _last_word(key, now), close(state, now, timers))


def _timers_of(key: AlertKey, timers: Timers, rules: Sequence[ThresholdRule]) -> Timers:
    if key.metric.startswith(MONITOR_PREFIX):
        return timers.of_monitor()
    for_s = hold_s(key.metric, rules)
    return timers if for_s is None else replace(timers, warning_for_s=for_s, critical_for_s=for_s)


def _last_word(key: AlertKey, now: datetime) -> Verdict:
    return Verdict(
        **key._asdict(),
        policy="none",
        status=Status.INSUFFICIENT_DATA,
        point_status=Status.INSUFFICIENT_DATA,
        reason="nobody evaluates it any more: the app is silent, or the metric or window is gone",
        n=0,
        evaluated_at=now,
        since=now,
        status_since=now,
    )


def _snapshot(
    before: AlertState,
    decision: Decision,
    verdict: Verdict,
    excerpts: tuple[str, ...],
    lines: Thresholds | None,
    report_url: str | None,
) -> Snapshot:
    state = decision.state
    assert decision.event is not None
    return Snapshot.model_validate(
        {
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
            "verdict": verdict,
            "lines": None if verdict.metric.startswith(RULE_PREFIX) else lines,
            "samples": _clean(excerpts),
            "report_url": report_url,
            "stale_since": before.stale_since,
            "well_since": before.resolved_at if decision.reason is Reason.REOPENED else None,
            "superseded": what_changed(before.basis, state.basis),
            "quiet": decision.quiet,
            "flapping": state.quiet_since is not None,
            "onsets": state.quiet_onsets,
        }
    )


def _clean(excerpts: Iterable[str]) -> tuple[str, ...]:
    clean = (plain_text(text, SAMPLE_CHARS) for text in excerpts)
    return tuple(text for text in clean if text)[:_MOST_SAMPLES]


def _write(connection: Connection, events: Sequence[Snapshot], placed: Mapping[str, Group]) -> None:
    opened = [_incident(event, placed[event.incident_id]) for event in events if event.is_first]
    if opened:
        connection.execute(insert(incidents), opened)
    which = update(incidents).where(incidents.c.incident_id == bindparam("id"))
    reopened = [
        _changed(event) | {"group_id": placed[event.incident_id].group_id, "silenced_by": None}
        for event in events
        if event.event is AlertEvent.FIRED and not event.is_first
    ]
    if reopened:
        connection.execute(which.values(peak_level=_WORST_SO_FAR), reopened)
    changed = [_changed(event) for event in events if event.event not in _ENDS_NOTHING]
    if changed:
        connection.execute(which.values(peak_level=_WORST_SO_FAR), changed)
    settled = [
        {"id": event.incident_id, "updated_at": event.at, "sequence": event.sequence}
        for event in events
        if event.event is AlertEvent.SETTLED
    ]
    if settled:
        connection.execute(which, settled)
    lines = [_timeline_row(event) for event in events]
    if lines:
        connection.execute(insert(alert_events), lines)


def _incident(event: Snapshot, group: Group) -> dict[str, Any]:
    return {
        **event.key._asdict(),
        "incident_id": event.incident_id,
        "level": event.level.value,
        "peak_level": event.peak.value,
        "since": event.since,
        "opened_at": event.opened_at,
        "updated_at": event.at,
        "sequence": event.sequence,
        "group_id": group.group_id,
    }


def _changed(event: Snapshot) -> dict[str, Any]:
    over = event.event is AlertEvent.RESOLVED
    return {
        "id": event.incident_id,
        "level": event.level.value,
        "peak": event.peak.value,
        "updated_at": event.at,
        "resolved_at": event.at if over else None,
        "sequence": event.sequence,
    }


def _timeline_row(event: Snapshot) -> dict[str, Any]:
    return {
        "incident_id": event.incident_id,
        "sequence": event.sequence,
        "event": event.event.value,
        "at": event.at,
        "snapshot": event.stored(),
    }


# --- basis ---
# By what each verdict was judged, so that nothing is compared across a change of it; pure.


def basis_of(
    verdict: Verdict, lines: Thresholds | None, rules: Sequence[ThresholdRule]
) -> JudgedBy | None:
    """Say by what *verdict* was judged; None of the monitor itself, whose rules are built in."""
    if verdict.metric.startswith(MONITOR_PREFIX):
        return None
    if not verdict.metric.startswith(RULE_PREFIX):
        threshold = "" if lines is None else lines.in_words()
        return JudgedBy(
            evaluator=verdict.evaluator_version, policy=verdict.policy, threshold=threshold
        )
    name = verdict.metric.removeprefix(RULE_PREFIX)
    rule = next((rule for rule in rules if rule.name == name), None)
    if rule is None:
        return None
    # A rule for every metric looks at another one each time.
    evaluator = "" if rule.metric == "*" else verdict.evaluator_version
    return JudgedBy(evaluator=evaluator, policy=rule.of, threshold=rule.line)


def what_changed(before: JudgedBy | None, now: JudgedBy | None) -> str:
    """Write what is another between two bases, for people."""
    if before is None or now is None:
        return ""
    return "; ".join(
        f"{name} changed from {old or 'unknown'} to {new or 'unknown'}"
        for name, old, new in before.differences(now)
    )


# --- blindness ---
# The alert of the monitor itself: it does not see how an app does; pure.


#: Reserved: no evaluator may be named so.
BLIND_METRIC = "monitor:blind"
_CLEAR = "the monitor sees every metric of this app"


def blindness(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Say of each app and window whether the monitor sees: a warning when any metric is blind."""
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.metric.startswith(MONITOR_PREFIX):
            continue
        groups[verdict.app, verdict.window_s].append(verdict)
    return [_judge(group) for group in groups.values()]


def observe(verdict: Verdict) -> Observation:
    """Read a verdict as evidence; a blind monitor sees no new samples, yet each look is news."""
    seen = Observation.of(verdict)
    if not verdict.metric.startswith(MONITOR_PREFIX):
        return seen
    return replace(seen, n_total=round(verdict.evaluated_at.timestamp() * 1000))


def starts_nothing(verdict: Verdict) -> bool:
    """Say whether nothing needs to be remembered of a monitor that always saw."""
    return verdict.metric.startswith(MONITOR_PREFIX) and verdict.status is Status.HEALTHY


def _judge(group: Sequence[Verdict]) -> Verdict:
    blind = [verdict for verdict in group if verdict.status is Status.BLIND]
    status = Status.WARNING if blind else Status.HEALTHY
    now = max(verdict.evaluated_at for verdict in group)
    return Verdict(
        app=group[0].app,
        metric=BLIND_METRIC,
        window_s=group[0].window_s,
        policy="any_blind",
        status=status,
        point_status=status,
        reason=_reason(blind) if blind else _CLEAR,
        n=0,
        n_failed=sum(verdict.n_failed for verdict in blind),
        evaluated_at=now,
        since=now,
        status_since=min((verdict.status_since for verdict in blind), default=now),
    )


def _reason(blind: Sequence[Verdict]) -> str:
    first = min(blind, key=lambda verdict: (verdict.metric, verdict.segment))
    more = f" (and {len(blind) - 1} more like it)" if len(blind) > 1 else ""
    return f"{first.metric}: {first.reason}{more}"
