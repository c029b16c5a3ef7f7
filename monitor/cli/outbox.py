"""``groundwatch alerts outbox``: messages on their way, and those that were given up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from alerts import dead_letters
from alerts.ledger import deliveries
from monitor.cli.console import out
from monitor.cli.stores import open_store
from monitor.models.alerting import DeliveryStatus
from monitor.report.listing import Listing
from monitor.report.words import harmless, moment
from monitor.settings import Settings

app = typer.Typer(
    invoke_without_command=True, help="Messages: waiting, sent, or given up, and why."
)

Named = Annotated[str, typer.Argument(help="The id that `outbox ls` shows, or its beginning.")]


@app.callback()
def outbox(context: typer.Context) -> None:
    """Messages: waiting, sent, or given up, and why."""
    if context.invoked_subcommand is None:
        ls()


@app.command("ls")
def ls(
    dead: Annotated[bool, typer.Option("--dead", help="Only those that were given up.")] = False,
) -> None:
    """List messages, the newest first."""
    now = datetime.now(UTC)
    status = DeliveryStatus.DEAD if dead else None
    with open_store(Settings.from_env()).read() as connection:
        found = deliveries(connection, status=status)
    listed = Listing.of(
        "id", "created", "event", "channel", "recipient", "state", "attempts", "last error"
    )
    for item in found:
        listed.add_row(
            item.delivery_id[:8],
            moment(item.created_at, now),
            str(item.event),
            item.channel,
            Text(harmless(item.recipient, 40)),
            str(item.status),
            str(item.attempts),
            item.error_code or "",
        )
    out.print(listed if found else "no messages were given up" if dead else "no messages yet")


@app.command("retry")
def retry(name: Named) -> None:
    """Try a message again that was given up."""
    with open_store(Settings.from_env()).write() as connection:
        found = dead_letters.retry(connection, name, datetime.now(UTC))
    out.print(f"message {found} waits to be sent again")


@app.command("drop")
def drop(name: Named) -> None:
    """Let go of a message that waits or was given up."""
    with open_store(Settings.from_env()).write() as connection:
        found = dead_letters.drop(connection, name, datetime.now(UTC))
    out.print(f"message {found} was let go")
