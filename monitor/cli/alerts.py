"""``groundwatch alerts``: incidents, who hears of them, and trying that out."""

from __future__ import annotations

import getpass
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Annotated

import typer
from rich.text import Text
from sqlalchemy import Connection

from alerts import drill as drills
from alerts.channels.base import Channel, Recipient
from alerts.dispatch import Dispatcher
from alerts.ledger import deliveries, incidents_named, incidents_since, open_incidents, snapshots
from alerts.rendering import Form, rendered
from alerts.stored_groups import acknowledge, acknowledgement
from alerts.try_channel import send_test
from alerts.wiring import wiring_from
from monitor.cli import outbox, silences
from monitor.cli.backtest import backtest
from monitor.cli.console import err, out, parse_duration_s, quiet_logs, warn
from monitor.cli.routing import route
from monitor.cli.stores import open_store
from monitor.errors import DeliveryError, SettingsError
from monitor.models.alerting import AlertEvent, Incident
from monitor.report.listing import Listing
from monitor.report.words import harmless, incident_sentence, level_words, moment
from monitor.settings import Settings, variable

#: Where the address of a channel comes from; of all others it is the routes file.
_SETTINGS = {"slack": "slack_webhook_url", "email": "smtp_url"}

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Incidents, and the messages about them."
)
app.add_typer(silences.app, name="silence")
app.add_typer(outbox.app, name="outbox")
app.command("route")(route)
app.command("backtest")(backtest)

Named = Annotated[str, typer.Argument(help="The id that `alerts ls` shows, or its beginning.")]


@app.command("ls")
def ls(
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "7d",
) -> None:
    """List incidents, the newest first."""
    now = datetime.now(UTC)
    since = now - timedelta(seconds=parse_duration_s(window))
    with open_store(Settings.from_env()).read() as connection:
        found = incidents_since(connection, since)
        acks = {i.group_id: acknowledgement(connection, i.group_id or "") for i in found}
    listed = Listing.of("id", "opened", "level", "app", "metric", "state")
    for incident in found:
        ack = None if incident.resolved_at else acks[incident.group_id]
        marks = [
            f"silenced by {incident.hushed_by}" if incident.hushed_by and incident.is_open else "",
            f"acknowledged by {harmless(ack.by, 30)}" if ack else "",
        ]
        listed.add_row(
            incident.incident_id[:8],
            moment(incident.opened_at, now),
            level_words(incident),
            Text(harmless(incident.app, 40)),
            Text(harmless(incident.metric, 40)),
            Text(", ".join([incident_sentence(incident, now), *filter(None, marks)])),
        )
    out.print(listed if found else f"no incidents in the last {window}")


@app.command("show")
def show(name: Named) -> None:
    """Show one incident: what happened and why, and what became of each message."""
    settings, now = Settings.from_env(), datetime.now(UTC)
    with open_store(settings).read() as connection:
        incident = _one(connection, name)
        events = snapshots(connection, incident.incident_id)
        group = incident.group_id or incident.incident_id
        sent = deliveries(connection, incident_id=group)
        ack = acknowledgement(connection, group)
    what = f"{incident.app} · {incident.metric}: {level_words(incident)}"
    out.print(Text(harmless(f"{what}, {incident_sentence(incident, now)}", 200)))
    if ack:
        until = f"reminders are off until {moment(ack.until, now)}"
        out.print(
            Text(harmless(f"acknowledged by {ack.by}: {ack.note or 'no note'}; {until}", 300))
        )
    story = Listing.of("at", "event", "level", "pass rate", "n", "why")
    for event in events:
        found = event.verdict
        rate = "" if found.pass_rate is None else f"{100 * found.pass_rate:.1f} %"
        why = f"{event.reason}: {event.superseded}" if event.superseded else event.reason
        at = moment(event.at, now)
        story.add_row(at, event.event, event.level, rate, f"{found.n:,}", Text(harmless(why, 300)))
    out.print(story)
    messages = Listing.of("message", "event", "channel", "recipient", "state", "last error")
    for item in reversed(sent):
        messages.add_row(
            item.delivery_id[:8],
            item.event,
            item.channel,
            Text(harmless(item.recipient, 40)),
            item.status,
            item.error_code or "",
        )
    if sent:
        out.print(messages)
    elif not wiring_from(settings).channels:
        out.print("nobody was told: no channel is set up")
    else:
        out.print("nobody was told: it is silenced, or was told with another")


@app.command("ack")
def ack(
    name: Named,
    by: Annotated[str, typer.Option(help="Who looks after it.")] = "",
    note: Annotated[str, typer.Option(help="For the others.")] = "",
    lasts: Annotated[str, typer.Option("--for", help="For how long: 2h, 8h.")] = "8h",
) -> None:
    """Say that somebody looks after an incident: no reminders, but news when it gets worse."""
    now = datetime.now(UTC)
    until = now + timedelta(seconds=parse_duration_s(lasts))
    with open_store(Settings.from_env()).write() as connection:
        incident = _one(connection, name)
        group = incident.group_id or incident.incident_id
        who = by or getpass.getuser()
        others = [
            f"{found.app} {found.metric}"
            for found in open_incidents(connection)
            if found.group_id == group and found.incident_id != incident.incident_id
        ]
        if not acknowledge(connection, group, by=who, note=note, now=now, until=until):
            raise SettingsError(f"incident {incident.incident_id} is over already")
    out.print(f"no reminders until {until:%Y-%m-%d %H:%M} UTC; you hear of it if it gets worse")
    if others:
        out.print(Text(harmless(f"nor of what is told with it: {', '.join(others)}", 300)))


@app.command("test")
def test(channel: Annotated[str, typer.Argument(help="The name of a channel.")]) -> None:
    """Send one real message marked TEST, and show what the other side answers."""
    channels = wiring_from(Settings.from_env()).channels
    if channel not in channels:
        there = ", ".join(channels) or "none; set GROUNDWATCH_SLACK_WEBHOOK_URL or _SMTP_URL"
        raise SettingsError(f"no channel {channel!r} is set up; there is: {there}")
    outcomes = [_try(channels[channel], address) for address in channels[channel].addresses]
    if not all(outcomes):
        raise typer.Exit(1)


@app.command("render")
def render(
    form: Annotated[Form, typer.Option(help="How it is written.")] = Form.TEXT,
    event: Annotated[AlertEvent, typer.Option(help="What it tells.")] = AlertEvent.FIRED,
) -> None:
    """Show a message as it would be sent, and send nothing."""
    typer.echo(rendered(form, event, datetime.now(UTC)))


@app.command("drill")
def drill(
    watched: Annotated[str, typer.Argument(metavar="APP", help="Whose routes are tried.")],
) -> None:
    """Fire, escalate and resolve through the real outbox; every message is marked TEST."""
    settings = Settings.from_env()
    channels, plan = wiring_from(settings)
    if not channels:
        raise SettingsError(
            "no channel is set up, so nobody would hear of it; set GROUNDWATCH_SLACK_WEBHOOK_URL,"
            " GROUNDWATCH_SMTP_URL or GROUNDWATCH_ALERTS_FILE"
        )
    quiet_logs()
    store, told = open_store(settings), dict[Recipient, str | None]()
    dispatcher = Dispatcher(store, channels, Random())  # noqa: S311
    began = drills.begin_drill(store, watched, datetime.now(UTC))
    held: dict[str, None] = {}
    for event in drills.act(began, datetime.now(UTC)):
        hush = drills.silence_over(store, plan, event, datetime.now(UTC))
        held |= {} if hush is None else {hush: None}
        drills.enqueue(store, plan, event, told, datetime.now(UTC))
        dispatcher.run_once()
    with store.read() as connection:
        sent = deliveries(connection, incident_id=began.incident_id)
    listed = Listing.of("event", "channel", "recipient", "state", "last error")
    for item in sorted(sent, key=lambda item: item.sequence):
        error = item.error_code or ""
        listed.add_row(item.event, item.channel, Text(item.recipient), item.status, error)
    out.print(listed if sent else f"the routes name no channel for {harmless(watched)}")
    if held:
        warn(
            f"a drill is always sent; silence {', '.join(map(harmless, held))} would hold an alert"
        )
    if not sent or any(item.status in {"waiting", "dead"} for item in sent):
        raise typer.Exit(1)


def _one(connection: Connection, name: str) -> Incident:
    found = incidents_named(connection, name)
    if len(found) != 1:
        problem = "several incidents are" if found else "no incident is"
        raise SettingsError(f"{problem} named {name!r}; see: groundwatch alerts ls")
    return found[0]


def _try(channel: Channel, address: str) -> bool:
    where = Text(f"{channel.name} {harmless(address, 60)}".strip())
    started_s = time.monotonic()
    try:
        receipt = send_test(channel, datetime.now(UTC), address or None)
    except DeliveryError as error:
        setting = variable(_SETTINGS.get(channel.name, "alerts_file"))
        advice = "" if setting in str(error) else f"; check {setting} and the way there"
        said = Text(f": not delivered: {error} ({error.code}){advice}", style="red")
        err.print(where + said, soft_wrap=True)
        return False
    took_ms = (time.monotonic() - started_s) * 1000
    unsure = "" if receipt.confirmed else ", which does not say that it was shown"
    text = f": the other side answered {harmless(receipt.answer)!r} after {took_ms:.0f} ms{unsure}"
    out.print(where + Text(text, style="green"))
    return True
