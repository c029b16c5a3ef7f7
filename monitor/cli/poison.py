"""``groundwatch poison``: entries that no worker could score, set aside with their reason."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from monitor.cli.console import open_store, out
from monitor.queue import names
from monitor.queue.consumer import connect, translated
from monitor.report.format import plain_text, utc_time
from monitor.report.listing import Listing
from monitor.settings import Settings
from monitor.store.dead_letters import (
    begin_retry,
    drop_dead_letter,
    end_retry,
    find_dead_letter,
    newest_dead_letters,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Entries that no worker could score, set aside with their reason.",
)

Named = Annotated[str, typer.Argument(help="The id that `poison ls` shows, or its beginning.")]
_MOST_SHOWN = 4_000


@app.command("ls")
def ls() -> None:
    """List what was set aside, the newest first."""
    now = datetime.now(UTC)
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        found = newest_dead_letters(connection)
    listed = Listing.of("id", "at", "app", "reason", "size", "state", "detail")
    for item in found:
        listed.add_row(
            item.entry_id,
            utc_time(item.at, now),
            Text(plain_text(item.app, 40)),
            item.reason,
            f"{len(item.body):,} B",
            item.state,
            Text(plain_text(item.detail, 100)),
        )
    out.print(listed if found else "nothing was set aside")


@app.command("show")
def show(
    name: Named,
    whole: Annotated[bool, typer.Option("--whole", help="All of its body, as it came.")] = False,
) -> None:
    """Show one entry: why it was set aside, and what it holds."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        item = find_dead_letter(connection, name)
    if whole:
        typer.echo(item.body, nl=False)
        return
    for what, value in (
        ("entry", item.entry_id),
        ("sample", item.sample_id or "unknown"),
        ("app", item.app),
        ("at", item.at.isoformat(timespec="seconds")),
        ("reason", item.reason),
        ("detail", item.detail),
        ("version", item.version),
        ("size", f"{len(item.body):,} bytes"),
    ):
        out.print(Text(f"{what:8} {plain_text(value, 500)}"), soft_wrap=True)
    text = item.body[:_MOST_SHOWN].decode("utf-8", "replace")
    # As a JSON string, so that nothing in it reaches the terminal.
    out.print(Text(json.dumps(text)), soft_wrap=True)
    if len(item.body) > _MOST_SHOWN:
        out.print("… cut; all of it: groundwatch poison show --whole ID > FILE")


@app.command("retry")
def retry(name: Named) -> None:
    """Put an entry into the queue again, as after an upgrade of the workers."""
    settings = Settings.from_env()
    with closing(open_store(settings)) as store, closing(connect(settings.broker_url)) as client:
        with translated():
            client.ping()
        with store.write() as connection:
            item = find_dead_letter(connection, name)
            begin_retry(connection, item, bucket_s=settings.windows.bucket_s)
        fields: Any = {
            names.FIELD_VERSION: item.version,
            names.FIELD_APP: item.app,
            names.FIELD_BODY: item.body,
        }
        with translated():
            client.xadd(names.SAMPLES, fields)
        with store.write() as connection:
            end_retry(connection, item)
    out.print(f"entry {item.entry_id} waits to be scored again")


@app.command("drop")
def drop(name: Named) -> None:
    """Delete what an entry holds; that it failed stays counted."""
    with closing(open_store(Settings.from_env())) as store, store.write() as connection:
        item = find_dead_letter(connection, name)
        drop_dead_letter(connection, item.entry_id, why="dropped by hand")
    out.print(f"entry {item.entry_id} was let go")
