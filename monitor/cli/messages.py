"""``groundwatch alerts``: where messages go, what became of them, and trying that out."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from alerts import MessageForm
from monitor.cli import console
from monitor.cli.console import err, out
from monitor.errors import DeliveryError, GroundwatchError, SettingsError
from monitor.format import plain_text, short_id, utc_time
from monitor.models.alerting import AlertEvent, Severity

if TYPE_CHECKING:
    from alerts.routing import SilenceRule
    from monitor.models.alerting import Delivery

#: Where the address of a channel comes from; of all others it is the routes file.
_SETTINGS = {"slack": "slack_webhook_url", "email": "smtp_url"}

#: What lists of messages have in common.
MESSAGE_COLUMNS: dict[str, Callable[[Delivery], console.Cell]] = {
    "event": lambda item: item.event,
    "channel": lambda item: item.channel,
    "recipient": lambda item: console.safe(item.recipient, 40),
    "state": lambda item: item.status,
    "last error": lambda item: item.error_code or "",
}

outbox_app = console.group("Messages that are waiting, sent or given up, and why.", alone=True)
NamedMessage = Annotated[str, typer.Argument(help="Id of the message, or its first characters.")]


Dead = Annotated[
    bool, typer.Option("--dead", help="Only dead letters: messages that were given up.")
]


@outbox_app.callback()
def outbox(context: typer.Context, dead: Dead = False, as_json: console.AsJson = False) -> None:
    """Messages that are waiting, sent or given up, and why."""
    if console.is_alone(context):
        list_messages(dead, as_json)


@outbox_app.command("ls")
def list_messages(dead: Dead = False, as_json: console.AsJson = False) -> None:
    """List messages, the newest first."""
    from alerts.queries import deliveries
    from monitor.models.alerting import DeliveryStatus

    now = datetime.now(UTC)
    status = DeliveryStatus.DEAD if dead else None
    none = "no messages were given up" if dead else "no messages yet"
    with console.reading() as connection:
        found = deliveries(connection, status=status)
    console.print_rows(found, {
        "id": lambda item: short_id(item.delivery_id),
        "created": lambda item: utc_time(item.created_at, now),
        **MESSAGE_COLUMNS,
        "attempts": lambda item: str(item.attempts),
    }, as_json=as_json, none=none)  # fmt: skip


@outbox_app.command("retry")
def retry(name: NamedMessage) -> None:
    """Retry a message that was given up."""
    from alerts import dispatch

    with console.writing() as connection:
        found = dispatch.retry(connection, name, datetime.now(UTC))
    out.print(f"message {found} waits to be sent again")


@outbox_app.command("drop")
def drop(name: NamedMessage) -> None:
    """Delete a message that waits or was given up."""
    from alerts import dispatch

    with console.writing() as connection:
        found = dispatch.drop(connection, name, datetime.now(UTC))
    out.print(f"message {found} was deleted")


def route(
    app: Annotated[str, typer.Option(help="The app that the alert is about.")],
    severity: Annotated[Severity, typer.Option(help="Its severity.")] = Severity.CRITICAL,
    metric: Annotated[str, typer.Option(help="The metric that it is about.")] = "groundedness",
    label: Annotated[list[str] | None, typer.Option(help="More labels, as name=value.")] = None,
    at: Annotated[str, typer.Option(help="When: 2026-03-29T02:30+02:00; unset: now.")] = "",
) -> None:
    """Show where an alert would be sent, and why, without sending it."""
    from alerts.conditions import MONITOR_PREFIX
    from alerts.dispatch import wiring_from
    from alerts.routing import silence_for
    from alerts.store import silences_after

    settings = console.read_settings()
    now = console.parse_time(at, datetime.now(UTC)) if at else datetime.now(UTC)
    plan = wiring_from(settings).plan
    labels = plan.labels_of_app(app) | {
        "app": app, "metric": metric, "segment": "*", "severity": severity.value,
        "kind": "monitor" if metric.startswith(MONITOR_PREFIX) else "quality",
    }  # fmt: skip
    labels |= console.parse_pairs(label, "--label name=value")
    for each, refusal in plan.explain(labels, now):
        verdict = "matches" if refusal is None else f"no: {refusal}"
        console.say(plain_text(f"{each.name}: {verdict}", 200))
    places = plan.recipients(labels, now)
    for to, fallback in places.items():
        instead = f", else {fallback}" if fallback else ""
        console.say(plain_text(f"-> {to.channel} {to.address}".rstrip() + instead, 200))
    if not places:
        out.print("-> nobody: no channel is configured")
    silences: list[SilenceRule] = []
    # A machine without a store has none.
    with suppress(GroundwatchError), console.reading() as connection:
        silences += silences_after(connection, now)
    silence = silence_for([*silences, *plan.maintenance], labels, now)
    if silence is not None:
        text = f"but it is silenced now: {silence.silence_id}, by {silence.author}"
        console.say(plain_text(text, 200), style="yellow")


def test(channel: Annotated[str, typer.Argument(help="The name of a channel.")]) -> None:
    """Send one real message marked TEST, and show the reply."""
    from alerts.dispatch import wiring_from
    from alerts.drill import send_test
    from monitor.settings import variable

    channels, failed = wiring_from(console.read_settings()).channels, False
    if channel not in channels:
        there = ", ".join(channels) or (
            "none; set GROUNDWATCH_SLACK_WEBHOOK_URL, or GROUNDWATCH_SMTP_URL and _EMAIL_TO"
        )
        raise SettingsError(f"no channel is called {channel!r}; set up: {there}")
    for address in channels[channel].addresses:
        where = Text(f"{channel} {plain_text(address, 60)}".strip())
        started_s = time.monotonic()
        try:
            receipt = send_test(channels[channel], datetime.now(UTC), address or None)
        except DeliveryError as error:
            setting, failed = variable(_SETTINGS.get(channel, "alerts_file")), True
            advice = "" if setting in str(error) else f"; check {setting} and the network"
            said = Text(f": not delivered: {error} ({error.code}){advice}", style="red")
            err.print(where + said, soft_wrap=True)
            continue
        took_ms = (time.monotonic() - started_s) * 1000
        unsure = "" if receipt.confirmed else ", which does not confirm that it was shown"
        text = f": the server replied {plain_text(receipt.answer)!r} after {took_ms:.0f} ms{unsure}"
        out.print(where + Text(text, style="green"))
    if failed:
        raise typer.Exit(1)


def render(
    form: Annotated[MessageForm, typer.Option(help="Output format.")] = MessageForm.TEXT,
    event: Annotated[AlertEvent, typer.Option(help="The event it announces.")] = AlertEvent.FIRED,
) -> None:
    """Print a message as it would be sent, without sending it."""
    from alerts.drill import rendered

    typer.echo(rendered(form, event, datetime.now(UTC)))


def drill(
    watched: Annotated[str, typer.Argument(metavar="APP", help="App whose routes are tried.")],
) -> None:
    """Fire, escalate and resolve a test alert through the real outbox, marked TEST."""
    from alerts import drill as drills
    from alerts.dispatch import Dispatcher, wiring_from
    from alerts.queries import deliveries
    from alerts.routing import Recipient

    settings = console.read_settings()
    channels, plan = wiring_from(settings)
    if not channels:
        raise SettingsError(
            "no channel is configured, so nobody would be notified; set"
            " GROUNDWATCH_SLACK_WEBHOOK_URL, GROUNDWATCH_SMTP_URL or GROUNDWATCH_ALERTS_FILE"
        )
    console.quiet_logs()
    silences, recipients = dict[str, None](), dict[Recipient, str | None]()
    with closing(console.open_store(settings)) as store:
        dispatcher = Dispatcher(store, channels, Random())  # noqa: S311
        began = drills.begin_drill(store, watched, datetime.now(UTC))
        for event in drills.act(began, datetime.now(UTC)):
            silence = drills.silence_over(store, plan, event, datetime.now(UTC))
            silences |= {} if silence is None else {silence: None}
            drills.enqueue(store, plan, event, recipients, datetime.now(UTC))
            dispatcher.run_once()
        with store.read() as connection:
            sent = deliveries(connection, incident_id=began.incident_id)
    sent.sort(key=lambda item: item.sequence)
    if silences:
        names = ", ".join(map(plain_text, silences))
        console.warn(f"a drill is always sent; silence {names} would mute an alert")
    print_sent(sent, none=f"the routes name no channel for {plain_text(watched)}")


def print_sent(sent: Sequence[Delivery], *, none: str) -> None:
    """Print what became of messages; end with 1 unless all were delivered."""
    console.print_rows(sent, MESSAGE_COLUMNS, none=none)
    if not sent or any(item.status in {"waiting", "dead"} for item in sent):
        raise typer.Exit(1)
