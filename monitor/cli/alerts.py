"""``groundwatch alerts``: incidents, messages on their way, and trying a channel."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from alerts.channels.base import Channel
from alerts.channels.registry import channels_from
from alerts.ledger import deliveries, incidents_since
from alerts.try_channel import send_test
from monitor.cli.console import err, out, parse_duration_s
from monitor.cli.stores import open_store
from monitor.errors import DeliveryError, SettingsError
from monitor.report.words import duration, harmless, moment
from monitor.settings import Settings, variable

#: Where the address of a channel comes from.
_SETTINGS = {"slack": "slack_webhook_url", "email": "smtp_url"}

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Incidents, and the messages about them."
)


@app.command("ls")
def ls(
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "7d",
) -> None:
    """List incidents, the newest first."""
    now = datetime.now(UTC)
    since = now - timedelta(seconds=parse_duration_s(window))
    with open_store(Settings.from_env()).read() as connection:
        found = incidents_since(connection, since)
    table = _table("opened", "level", "app", "metric", "state")
    for incident in found:
        lasted = duration(((incident.resolved_at or now) - incident.opened_at).total_seconds())
        state = f"resolved after {lasted}" if incident.resolved_at else f"open for {lasted}"
        table.add_row(
            moment(incident.opened_at, now),
            str(incident.level),
            Text(harmless(incident.app, 40)),
            Text(harmless(incident.metric, 40)),
            state,
        )
    out.print(table if found else f"no incidents in the last {window}")


@app.command("outbox")
def outbox() -> None:
    """List messages: waiting, sent, or given up, and why."""
    now = datetime.now(UTC)
    with open_store(Settings.from_env()).read() as connection:
        found = deliveries(connection)
    table = _table("created", "event", "channel", "recipient", "state", "attempts", "last error")
    for item in found:
        table.add_row(
            moment(item.created_at, now),
            str(item.event),
            item.channel,
            Text(harmless(item.recipient, 40)),
            str(item.status),
            str(item.attempts),
            item.error_code or "",
        )
    out.print(table if found else "no messages yet")


@app.command("test")
def test(channel: Annotated[str, typer.Argument(help="slack or email.")]) -> None:
    """Send one real message marked TEST, and show what the other side answers."""
    channels = channels_from(Settings.from_env())
    if channel not in channels:
        there = ", ".join(channels) or "none; set GROUNDWATCH_SLACK_WEBHOOK_URL or _SMTP_URL"
        raise SettingsError(f"no channel {channel!r} is set up; there is: {there}")
    outcomes = [_try(channels[channel], address) for address in channels[channel].addresses]
    if not all(outcomes):
        raise typer.Exit(1)


def _try(channel: Channel, address: str) -> bool:
    where = Text(f"{channel.name} {harmless(address, 60)}".strip())
    started_s = time.monotonic()
    try:
        receipt = send_test(channel, datetime.now(UTC), address or None)
    except DeliveryError as error:
        setting = variable(_SETTINGS[channel.name])
        advice = "" if setting in str(error) else f"; check {setting} and the way there"
        said = Text(f": not delivered: {error} ({error.code}){advice}", style="red")
        err.print(where + said, soft_wrap=True)
        return False
    took_ms = (time.monotonic() - started_s) * 1000
    out.print(
        where
        + Text(
            f": the other side answered {harmless(receipt.answer)!r} after {took_ms:.0f} ms",
            style="green",
        )
    )
    return True


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name)
    return table
