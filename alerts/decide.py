"""
Turn verdicts into incidents, timeline and outbox, inside the caller's transaction.

`decide` is the whole way: read the stored states, step each with its verdict (`alerts.state`),
write what changed, apply the silences, and let the `Notifier` put messages about the groups that
have news (`alerts.grouping`) into the outbox, for whom the routes name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection, bindparam, insert, select, update

from alerts.conditions import (
    JUDGE_CHANGED,
    MONITOR_PREFIX,
    RULE_PREFIX,
    ThresholdRule,
    blindness,
    judge_all,
)
from alerts.facts import Backgrounds
from alerts.grouping import (
    COMMON_CAUSE_WITHIN,
    AlertGroup,
    GroupEvents,
    GroupMessage,
    Member,
    group_message,
    is_over,
    key_name,
    names_in,
    place,
    unsilenced_events,
)
from alerts.model import (
    OVER,
    SAMPLE_CHARS,
    AlertKey,
    AlertState,
    AlertThresholds,
    JudgedBy,
    Snapshot,
)
from alerts.outbox import outbox_row
from alerts.routing import Recipient, RoutingConfig, SilenceRule, silence_for
from alerts.state import Decision, Observation, Timers, close, step, timers_for
from alerts.store import (
    Stored,
    close_groups,
    first_snapshots,
    groups_of,
    last_snapshot,
    load,
    members_of,
    notified_recipients,
    open_groups,
    reopen_groups,
    save,
    silence_named,
    silences_after,
    write_groups,
    write_incidents,
)
from monitor.format import plain_text
from monitor.models.alerting import AlertEvent, DeliveryStatus, Severity, TimelineEvent
from monitor.models.status import Status, Verdict
from monitor.store.alert_tables import alert_channels, incidents, outbox
from monitor.store.engine import database_now, insert_new

_log = structlog.get_logger("groundwatch.alerts")
_MOST_SAMPLES = 3
_MOST_WITH_BACKGROUND = 50
_ALSO_TO_THOSE_NOTIFIED = {AlertEvent.ESCALATED, AlertEvent.JOINED}
_ADDED = "it was already firing when this channel was set up"


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
    worst_of: Callable[..., Sequence[str]] = lambda **_: (),
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
    worst_of
        Returns explanations of the worst samples, redacted already, of an app, metric and
        evaluator_version; called only for what changed.
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
        elif (event := change.decision.event) is not None:
            version, shared = change.verdict.evaluator_version, ""
            said = worst_of(app=key.app, metric=key.metric, evaluator_version=version)
            texts = (plain_text(text, SAMPLE_CHARS) for text in said)
            if key.metric.startswith(MONITOR_PREFIX):
                shared = "the monitor"
            elif version and key.app in new_judge:
                shared = f"the judge changed to {version.partition(' pass ')[0]}"
            decision = change.decision
            events.append(
                Snapshot.of_step(
                    change.before,
                    decision.state,
                    event,
                    decision.reason,
                    change.verdict,
                    quiet=decision.quiet,
                    thresholds=None if key.metric.startswith(RULE_PREFIX) else thresholds,
                    samples=tuple(text for text in texts if text)[:_MOST_SAMPLES],
                    report_url=report_url,
                    labels=config.labels_of_app(key.app),
                    shared_cause=shared,
                )
            )
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
        own = timers_for(verdict, timers)
        if rule is not None:
            own = replace(own, warning_for_s=rule.for_s, critical_for_s=rule.for_s)
        seen = replace(Observation.of(verdict), basis=JudgedBy.of(verdict, thresholds, rule))
        yield _Change(state, version, verdict, step(state, seen, now, own))
    for key, (state, version, forgotten) in sorted(known.items()):
        if state is not None and forgotten and key not in current:
            last = Verdict(
                **key._asdict(), policy="none", n=0,
                status=Status.INSUFFICIENT_DATA, point_status=Status.INSUFFICIENT_DATA,
                reason="not evaluated any more: the app is silent, or the metric or window is gone",
                evaluated_at=now, since=now, status_since=now,
            )  # fmt: skip
            yield _Change(state, version, last, close(state, now, timers))


@dataclass(slots=True)
class Silenced:
    """The incidents that are silenced now, and the news of those whose silence has ended."""

    incident_ids: set[str] = field(default_factory=set)
    ended: list[Snapshot] = field(default_factory=list)


def apply_silences(
    connection: Connection,
    config: RoutingConfig,
    events: Sequence[Snapshot],
    verdicts: Mapping[AlertKey, Verdict],
    now: datetime,
) -> Silenced:
    """
    Write down which incidents are silenced now, and return them.

    *events* are those of this evaluation, whose incidents are written already. What still fires
    when its silence ends is news.
    """
    rules: list[SilenceRule] = [*silences_after(connection, now), *config.maintenance]
    found, changes = Silenced(), []
    by = incidents.c.silenced_by.label("silenced_by")
    query = select(incidents, by).where(incidents.c.resolved_at.is_(None))
    if not rules:
        query = query.where(incidents.c.silenced_by.is_not(None))
    for row in connection.execute(query).all():
        last = None
        verdict = verdicts.get(AlertKey(row.app, row.metric, row.segment, row.window_s))
        if verdict is None:
            last = last_snapshot(connection, row.incident_id)
            verdict = last.verdict
        rule = silence_for(rules, config.labels(verdict, Severity(row.level)), now)
        if rule is not None:
            found.incident_ids.add(row.incident_id)
        elif row.silenced_by is not None:
            last = last or last_snapshot(connection, row.incident_id)
            silence = silence_named(connection, row.silenced_by)
            who = f"{silence.author}: {silence.comment}" if silence else row.silenced_by
            if not last.flapping:
                news = {
                    "event": AlertEvent.UNSILENCED,
                    "verdict": verdict,
                    "at": now,
                    "quiet": False,
                    "note": f"it was silenced by {who}",
                }
                found.ended.append(last.model_copy(update=news))
        name = None if rule is None else rule.silence_id
        if name != row.silenced_by:
            changes.append({"id": row.incident_id, "by": name})
    if changes:
        one = update(incidents).where(incidents.c.incident_id == bindparam("id"))
        connection.execute(one.values(silenced_by=bindparam("by")), changes)
    # The end of what was silenced is silenced as well.
    found.incident_ids |= {
        event.incident_id
        for event in events
        if event.event is not AlertEvent.FIRED
        and silence_for(rules, config.labels(event.verdict, event.level), now)
    }
    return found


@dataclass(slots=True)
class Notifier:
    """Notifies people of the events of one evaluation; made again for each."""

    connection: Connection
    plan: RoutingConfig
    timers: Timers
    now: datetime
    before: dict[str, AlertGroup] = field(init=False)
    members: dict[str, list[Member]] = field(init=False)  #: what fired before this evaluation

    def __post_init__(self) -> None:
        self.before = open_groups(self.connection)
        self.members = members_of(self.connection, self.before, firing=True)

    def assign_groups(self, events: Sequence[Snapshot]) -> dict[str, AlertGroup]:
        """Return the group of every alert that fired, by incident id; reopen it if it was over."""
        fired = [event for event in events if event.event is AlertEvent.FIRED]
        by_app = {group.app: group for group in self.before.values() if group.flapping} | {
            member.key.app: self.before[group_id]
            for group_id, found in self.members.items()
            for member in found
        }
        recent = [
            group
            for group in self.before.values()
            if self.now - group.opened_at <= COMMON_CAUSE_WITHIN
        ]
        by_cause = {group.cause: group for group in recent if group.cause}
        young: dict[str, set[str]] = {}
        if any(event.shared_cause for event in fired):
            alone = [group.group_id for group in recent if group.cause is None]
            for first in first_snapshots(self.connection, alone):
                if first.shared_cause:
                    young.setdefault(first.shared_cause, set()).add(first.key.app)
        again = {event.incident_id for event in fired if not event.is_first}
        was_in = groups_of(self.connection, again, self.now)
        placed = place(fired, by_app, by_cause, young, was_in)
        groups = {group.group_id: group for group in placed.values()}
        over = groups.keys() - self.before.keys()
        for group_id in reopen_groups(self.connection, over, self.now):
            self.before[group_id] = groups[group_id]
        return placed

    def notify(
        self, events: Sequence[Snapshot], placed: Mapping[str, AlertGroup], silenced: Silenced
    ) -> None:
        """
        Write what becomes of the groups, and put messages about news into the outbox.

        Everything about the incidents themselves must be written already.
        """
        of_incident = {m.incident_id: g for g, found in self.members.items() for m in found}
        # What flaps may not fire now.
        of_flapping = {name: group for group in self.before.values() for name in group.flapping}
        happened: dict[str, GroupEvents] = {}
        for event in (*events, *silenced.ended):
            group = placed.get(event.incident_id)
            if group is None and event.incident_id in of_incident:
                group = self.before[of_incident[event.incident_id]]
            group = group or of_flapping.get(key_name(event.key))
            if group is not None:
                each = happened.setdefault(group.group_id, GroupEvents(group=group))
                each.events.append(event)
        remind_after_s = {
            Severity.CRITICAL: self.timers.repeat_after_s,
            Severity.WARNING: self.timers.warning_repeat_after_s,
        }
        wait_s = self.plan.group_wait_s
        fired = {event.key for event in events if event.event is AlertEvent.FIRED}
        ever = members_of(self.connection, happened)
        after, messages, over = [], [], []
        for group_id, each in happened.items():
            members, began = ever.get(group_id, []), each.group.opened_at
            each.members = [m for m in members if m.over_at is None]
            each.recovered = [m for m in members if m.over_at is not None and m.over_at >= began]
            each.silenced = silenced.incident_ids
            if group_id in self.before:
                earlier = [member.key for member in members if member.key not in fired]
                each.known_names = names_in(earlier, each.group)
            group, found = group_message(
                each, self.now, remind_after_s=remind_after_s, group_wait_s=wait_s
            )
            after.append(group)
            if found is not None:
                messages.append((found, each))
            if is_over(group, each.members):
                over.append(group.group_id)
        self._enqueue(messages)
        self._greet_new_channels()
        write_groups(self.connection, self.before, after)
        close_groups(self.connection, over, self.now)

    def _enqueue(self, found: Sequence[tuple[GroupMessage, GroupEvents]]) -> None:
        later = {
            message.group.group_id for message, _ in found if message.event is not AlertEvent.FIRED
        }
        notified = notified_recipients(self.connection, later)
        # Dispatchers go by the database's clock: a fast one of ours must not delay a message.
        due_at = min(self.now, database_now(self.connection)) if found else self.now
        rows: list[dict[str, Any]] = []
        backgrounds = Backgrounds(self.connection, self.now)
        for number, (message, each) in enumerate(found):
            over = message.event in OVER
            # Whom the routes name, and who was notified before.
            recipients: dict[Recipient, str | None] = {}
            if over or message.event in _ALSO_TO_THOSE_NOTIFIED:
                recipients |= notified.get(message.group.group_id, {})
            for event in () if over else unsilenced_events(each):
                labels = self.plan.labels(event.verdict, event.level)
                recipients |= self.plan.recipients(labels, self.now)
            snapshot = message.snapshot()
            # In a storm nobody reads the background, and reading it would take long.
            if recipients and number < _MOST_WITH_BACKGROUND:
                snapshot = backgrounds.added_to(snapshot, over=over)
            waits = message.event is AlertEvent.FIRED and snapshot.level is Severity.WARNING
            wait = timedelta(seconds=self.plan.group_wait_s if waits else 0)
            rows += [
                outbox_row(snapshot, to, fallback, now=self.now, due_at=due_at + wait)
                for to, fallback in recipients.items()
            ]
        worse = [
            message.group.group_id for message, _ in found if message.event is AlertEvent.ESCALATED
        ]
        if worse and self.plan.group_wait_s > 0:
            # Nothing that got worse waits for others to join.
            waiting = (outbox.c.status == DeliveryStatus.WAITING) & (outbox.c.attempts == 0)
            mine = update(outbox).where(outbox.c.incident_id.in_(worse), waiting)
            self.connection.execute(mine.values(due_at=due_at))
        if rows:
            self.connection.execute(insert(outbox), rows)

    def _greet_new_channels(self) -> None:
        """Send channels that were never seen before what already fires, once."""
        known = set(self.connection.execute(select(alert_channels.c.channel)).scalars())
        new = self.plan.addresses.keys() - known
        if not new:
            return
        rows = [{"channel": channel} for channel in sorted(new)]
        insert_new(self.connection, alert_channels, rows, returning=alert_channels.c.channel)
        messages = []
        firing = members_of(self.connection, self.before, firing=True)
        for group_id, group in self.before.items():
            unsilenced = [member for member in firing.get(group_id, ()) if not member.silenced]
            if group.told_at is None:
                continue
            # Each channel gets what its own routes name, the worst first.
            greeted: set[Recipient] = set()
            for lead in sorted(
                unsilenced, key=lambda member: member.level is not Severity.CRITICAL
            ):
                last = last_snapshot(self.connection, lead.incident_id)
                labels = self.plan.labels(last.verdict, lead.level)
                fresh = {
                    to: fallback
                    for to, fallback in self.plan.recipients(labels, self.now).items()
                    if to.channel in new and to not in greeted
                }
                if fresh:
                    greeted |= fresh.keys()
                    others = tuple(member for member in unsilenced if member is not lead)
                    message = GroupMessage(
                        group=group, event=AlertEvent.FIRED, lead=last, others=others
                    )
                    added = {"note": _ADDED, "at": self.now}
                    snapshot = message.snapshot().model_copy(update=added)
                    messages += [
                        outbox_row(snapshot, to, fallback, now=self.now, due_at=self.now)
                        for to, fallback in fresh.items()
                    ]
        insert_new(self.connection, outbox, messages, returning=outbox.c.delivery_id)
