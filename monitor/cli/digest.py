"""``groundwatch digest``: the daily or weekly page, now."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from random import Random
from typing import Annotated

import typer
from rich.text import Text

from alerts.channels.base import Recipient
from alerts.dispatch import Dispatcher
from alerts.ledger import deliveries
from alerts.periodic import enqueue, recipients_of_digests
from alerts.wiring import wiring_from
from monitor.cli.console import out, parse_duration_s, quiet_logs
from monitor.cli.stores import open_store
from monitor.report.digest import Digest
from monitor.report.digest_text import render_digest
from monitor.report.listing import Listing
from monitor.report.periods import window_before
from monitor.report.words import harmless
from monitor.settings import Settings
from monitor.store.engine import Store
from workers.digest_facts import read_digest


def digest(
    window: Annotated[str, typer.Option(help="How far back: 24h, 7d.")] = "24h",
    send: Annotated[
        str | None, typer.Option(help="Send it through this channel; all: those of the settings.")
    ] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Show it here; so does leaving out --send.")
    ] = False,
) -> None:
    """
    Show or send what happened: verdict, changes, incidents, movers, coverage, cost.

    It comes by itself with GROUNDWATCH_DIGEST=daily or weekly.
    """
    settings = Settings.from_env()
    store, now = open_store(settings), datetime.now(UTC)
    period = window_before(now, parse_duration_s(window))
    found = read_digest(store, settings, period, now=now)
    if print_ or send is None:
        typer.echo(render_digest(found, width=out.width), nl=False)
    if send is not None:
        _send(found, store, settings, send)


def _send(found: Digest, store: Store, settings: Settings, name: str) -> None:
    channels, _ = wiring_from(settings)
    named = settings.digest_channels if name == "all" else (name,)
    recipients: list[Recipient] = recipients_of_digests(channels, named)
    quiet_logs()
    # A name of its own: who asks twice wants it twice.
    found = found.model_copy(update={"name": f"{found.name}-{uuid.uuid4().hex[:12]}"})
    with store.write() as connection:
        enqueue(connection, found, recipients, found.made_at)
    Dispatcher(store, channels, Random()).run_once()  # noqa: S311
    with store.read() as connection:
        sent = deliveries(connection, incident_id=found.name)
    listed = Listing.of("channel", "recipient", "state", "last error")
    for item in sent:
        recipient = Text(harmless(item.recipient, 60))
        listed.add_row(item.channel, recipient, item.status, item.error_code or "")
    out.print(listed if sent else "no channel is set up that takes digests")
    if not sent or any(item.status in {"waiting", "dead"} for item in sent):
        raise typer.Exit(1)
