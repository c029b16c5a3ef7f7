"""Trying alerts out: a drill through the real outbox, one test message, and rendering alone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import insert

from alerts import MessageForm
from alerts.channels import chat, programs, slack
from alerts.channels.base import Channel, Receipt
from alerts.channels.email import compose
from alerts.message import Message, render
from alerts.model import AlertThresholds, Evidence, Snapshot
from alerts.outbox import outbox_row
from alerts.routing import Recipient, RoutingConfig, SilenceRule, silence_for
from alerts.store import silences_after
from monitor.models.alerting import DRILL_ID, AlertEvent, Severity
from monitor.models.status import Drift, Status, Verdict
from monitor.store.alert_tables import incidents, outbox
from monitor.store.engine import Store

#: The metric of a drill's incident, in lists and reports.
DRILL_METRIC = "drill"
#: The delivery id of what is only rendered.
_ID = "0123456789abcdef01234567"
_STORY = (
    (AlertEvent.FIRED, Severity.WARNING),
    (AlertEvent.ESCALATED, Severity.CRITICAL),
    (AlertEvent.RESOLVED, Severity.CRITICAL),
)


def begin_drill(store: Store, app: str, now: datetime) -> Snapshot:
    """Store the incident of a drill; it is over from the start, so that none stays open."""
    found = sample_snapshot(now)
    verdict = found.verdict.model_copy(update={"app": app, "metric": DRILL_METRIC})
    snapshot = found.model_copy(
        update={
            "incident_id": f"{DRILL_ID}{uuid.uuid4().hex[:10]}",
            "verdict": verdict,
            "status_before": Evidence.HEALTHY,
        }
    )
    name, level = snapshot.incident_id, Severity.CRITICAL.value
    row = snapshot.key._asdict() | dict.fromkeys(("opened_at", "updated_at", "resolved_at"), now)
    row |= {"incident_id": name, "group_id": name, "level": level, "peak_level": level}
    row |= {"since": snapshot.since, "sequence": len(_STORY)}
    with store.write() as connection:
        connection.execute(insert(incidents), [row])
    return snapshot


def act(snapshot: Snapshot, now: datetime) -> Iterator[Snapshot]:
    """Yield the events of a drill."""
    for sequence, (event, level) in enumerate(_STORY, start=1):
        yield _after(snapshot, event).model_copy(
            update={"sequence": sequence, "level": level, "at": now}
        )


def silence_over(
    store: Store, plan: RoutingConfig, snapshot: Snapshot, now: datetime
) -> str | None:
    """Return the silence or maintenance that would apply to a real alert like it now, if any."""
    with store.read() as connection:
        quieting: list[SilenceRule] = [*silences_after(connection, now), *plan.maintenance]
    found = silence_for(quieting, plan.labels(snapshot.verdict, snapshot.level), now)
    return None if found is None else found.silence_id


def enqueue(
    store: Store, plan: RoutingConfig, event: Snapshot, notified: dict[Recipient, str | None],
    now: datetime,
) -> None:  # fmt: skip
    """
    Put one event of a drill into the outbox, for whom the routes name.

    *notified* collects the recipients, who get what follows as well.
    """
    if event.event is not AlertEvent.RESOLVED:
        notified |= plan.recipients(plan.labels(event.verdict, event.level), now)
    rows = [
        outbox_row(event, to, fallback, now=now, due_at=now) for to, fallback in notified.items()
    ]
    if rows:
        with store.write() as connection:
            connection.execute(insert(outbox), rows)


def rendered(form: MessageForm, event: AlertEvent, now: datetime) -> str:
    """Return the message about an incident that never was."""
    snapshot = _after(sample_snapshot(now), event)
    return written(form, render(snapshot, {event}, recipient="oncall@example.org"))


def _after(snapshot: Snapshot, event: AlertEvent) -> Snapshot:
    """Return the evidence with which *event* comes: what is over has a good rate."""
    verdict = snapshot.verdict
    if event in {AlertEvent.RESOLVED, AlertEvent.SETTLED}:
        well = {"status": Status.HEALTHY, "pass_rate": 0.93, "low": 0.88, "high": 0.97}
        verdict = verdict.model_copy(update=well)
    return snapshot.model_copy(update={"event": event, "verdict": verdict})


def written(form: MessageForm, message: Message) -> str:
    """Return a message as the channel would send it; a routing key is left out."""
    if form is MessageForm.TEXT:
        return message.text
    if form is MessageForm.HTML:
        return message.html
    if form is MessageForm.EMAIL:
        return compose(message, _ID, sender="groundwatch@example.org").as_string()
    documents: dict[MessageForm, Callable[[], object]] = {
        MessageForm.SLACK: lambda: slack.payload(message, _ID),
        MessageForm.TEAMS: lambda: chat.card(message, _ID),
        MessageForm.DISCORD: lambda: chat.embed(message, _ID),
        MessageForm.PAGERDUTY: lambda: programs.event_of(message, _ID, ""),
        MessageForm.ALERTMANAGER: lambda: [programs.alert(message, _ID)],
        MessageForm.WEBHOOK: lambda: json.loads(programs.document(message)),
    }
    return json.dumps(documents[form](), indent=2, ensure_ascii=False)


def send_test(channel: Channel, now: datetime, address: str | None = None) -> Receipt:
    """
    Send one message marked TEST, to *address* or the channel's first one.

    One attempt, outside the outbox; nothing is stored. Raise DeliveryError if the channel did not
    take it; the text says why and holds no secret.
    """
    recipient = channel.addresses[0] if address is None else address
    message = render(sample_snapshot(now), {AlertEvent.FIRED}, recipient=recipient)
    return channel.deliver(message, f"test-{uuid.uuid4().hex[:16]}")


def sample_snapshot(now: datetime) -> Snapshot:
    """Return the evidence of an incident that never was."""
    began = now - timedelta(minutes=12)
    verdict = Verdict(
        app="test-app",
        metric="groundedness",
        window_s=3600,
        policy="test",
        status=Status.CRITICAL,
        point_status=Status.CRITICAL,
        reason="this is a test of the channel: nothing is wrong, and nothing is to be done",
        pass_rate=0.62,
        low=0.55,
        high=0.69,
        average_score=0.66,
        n=200,
        n_total=200,
        drift=Drift(reference_pass_rate=0.94, reference_n=3_400),
        evaluated_at=now,
        since=began,
        status_since=began,
        window_pass_rate=0.66,
        window_n=200,
    )
    return Snapshot(
        incident_id="test",
        sequence=1,
        event=AlertEvent.FIRED,
        reason="test",
        level=Severity.CRITICAL,
        peak=Severity.CRITICAL,
        previous_level=None,
        status_before=Evidence.HEALTHY,
        since=began,
        opened_at=now,
        at=now,
        verdict=verdict,
        thresholds=AlertThresholds(warning_rate=0.85, critical_rate=0.70),
        samples=("0.05: this is where the reason for a bad score would stand",),
        test=True,
    )
