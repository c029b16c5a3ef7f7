"""What an operator does to the data: mark deploys, retry dead letters, erase a person's data."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from monitor.cli.console import (
    AsJson,
    Cell,
    open_store,
    out,
    parse_time,
    print_json,
    print_rows,
    safe,
)
from monitor.queue import names
from monitor.queue.consumer import connect, translated
from monitor.report.format import file_size, plain_text, utc_second, utc_time
from monitor.settings import Settings
from monitor.store.insights import ReleaseMark, add_mark, read_marks
from monitor.store.ledger import (
    DeadLetter,
    begin_retry,
    drop_dead_letter,
    end_retry,
    find_dead_letter,
    newest_dead_letters,
)
from monitor.store.verdicts import read_verdicts
from workers.context import Components
from workers.operations import forget_user

_LONGEST = 200
_LONGEST_NOTE = 2000
_SHOWN = timedelta(days=90)


def backup(
    path: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
) -> None:
    """Copy a SQLite store to a file while everything runs, and check the copy."""
    with closing(open_store(Settings.from_env())) as store:
        store.copy_to(path)
    out.print(Text(f"{path}: {file_size(path.stat().st_size)}, whole"))


def deploys(
    app: Annotated[str | None, typer.Argument(help="Name of the app.")] = None,
    release: Annotated[str | None, typer.Option(help="What went out, such as v12.")] = None,
    at: Annotated[
        str | None,
        typer.Option(help="When: 2026-11-21T14:05 (UTC unless it says), or 30m for 30 min ago."),
    ] = None,
    note: Annotated[str, typer.Option(help="A word about it.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the deploys of 90 days.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="List them as JSON.")] = False,
) -> None:
    """Record a deploy, or list them; reports show the pass rate before and after."""
    store = open_store(Settings.from_env())
    now = datetime.now(UTC)
    if list_ or as_json:
        with store.read() as connection:
            marks = read_marks(connection, app=app, since=now - _SHOWN)
        columns: dict[str, Callable[[ReleaseMark], Cell]] = {
            "at (UTC)": lambda item: utc_second(item.at),
            "app": lambda item: safe(item.app, 80),
            "release": lambda item: safe(item.release, 80),
            "note": lambda item: safe(item.note, 80),
        }
        print_rows(marks[::-1], columns, as_json=as_json, none="no deploys are marked")
        return
    if not app or not release:
        raise typer.BadParameter("which app and release? groundwatch deploys APP --release v12")
    moment = now if at is None else parse_time(at, now)
    if moment > now + timedelta(minutes=5):
        raise typer.BadParameter(f"{at!r} is still to come; mark a deploy when it is out")
    made = ReleaseMark(
        app=_plain(app, "APP"),
        release=_plain(release, "--release"),
        at=moment,
        note=plain_text(note, _LONGEST_NOTE),
        made_at=now,
    )
    with store.write() as connection:
        add_mark(connection, made)
        is_known = bool(read_verdicts(connection, made.app))
    out.print(Text(f"marked: {made.app} {made.release} at {utc_second(made.at)}"))
    if not is_known:
        out.print(Text(f"nothing of {made.app} has been scored yet; is the name right?"))


def _plain(text: str, what: str) -> str:
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise typer.BadParameter(f"{what} needs 1 to {_LONGEST} printable characters")
    return text.strip()


dead_letters_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Dead letters: entries that no worker could score, with the reason.",
)

Named = Annotated[
    str, typer.Argument(help="The id that `dead-letters list` shows, or its beginning.")
]
_MOST_SHOWN = 4_000


@dead_letters_app.command("list")
@dead_letters_app.command("ls", hidden=True)
def list_dead_letters(as_json: AsJson = False) -> None:
    """List the dead letters, the newest first."""
    now = datetime.now(UTC)
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        found = newest_dead_letters(connection)
    if as_json:
        print_json([_without_body(item) for item in found])
        return
    columns: dict[str, Callable[[DeadLetter], Cell]] = {
        "id": lambda item: item.entry_id,
        "at": lambda item: utc_time(item.at, now),
        "app": lambda item: safe(item.app, 40),
        "reason": lambda item: item.reason,
        "size": lambda item: f"{len(item.body):,} B",
        "state": lambda item: item.state,
        "detail": lambda item: safe(item.detail, 100),
    }
    print_rows(found, columns, as_json=False, none="no dead letters")


def _without_body(item: DeadLetter) -> dict[str, Any]:
    values = asdict(item)
    return values | {"size_bytes": len(values.pop("body"))}


@dead_letters_app.command("show")
def show_dead_letter(
    name: Named,
    whole: Annotated[bool, typer.Option("--whole", help="All of its body, as it came.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one entry: why no worker could score it, and what it holds."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        item = find_dead_letter(connection, name)
    if whole:
        typer.echo(item.body, nl=False)
        return
    if as_json:
        print_json(_without_body(item) | {"text": item.body.decode("utf-8", "replace")})
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
        out.print("… cut; all of it: groundwatch dead-letters show --whole ID > FILE")


@dead_letters_app.command("retry")
def retry_dead_letters(name: Named) -> None:
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


@dead_letters_app.command("drop")
def drop_dead_letters(name: Named) -> None:
    """Delete what an entry holds; it stays counted as failed."""
    with closing(open_store(Settings.from_env())) as store, store.write() as connection:
        item = find_dead_letter(connection, name)
        drop_dead_letter(connection, item.entry_id, why="dropped by hand")
    out.print(f"entry {item.entry_id} was deleted")


def forget(
    user_id: Annotated[str, typer.Option(help="The user_id that the app gave with its samples.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what there is.")] = False,
) -> None:
    """Delete the texts of one user: samples, explanations, and what still waits."""
    if not user_id:
        raise typer.BadParameter("which user? Give the user_id that the app sends")
    settings = Settings.from_env()
    with closing(open_store(settings)) as store, closing(connect(settings.broker_url)) as client:
        done = forget_user(
            client,
            store,
            user_id,
            rules=Components(settings).rules,
            who=getpass.getuser(),
            now=datetime.now(UTC),
            dry_run=dry_run,
        )
    said = ", ".join(f"{what} {n:,}" for what, n in done.items() if n) or "nothing"
    out.print(Text(("would delete: " if dry_run else "deleted: ") + said))
    if done and not dry_run:
        out.print("backups, and messages that were delivered, may still hold some of it")
