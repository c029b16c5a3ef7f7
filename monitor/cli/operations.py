"""What an operator does to the data: deploys, dead letters, backup, a person's data; tokens."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import getpass
import json
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import SettingsError
from monitor.format import NONE, file_size, plain_text, utc_second, utc_time

if TYPE_CHECKING:
    from monitor.store.ledger import DeadLetter
    from monitor.store.tokens import Token

_LONGEST = 200
_LONGEST_NOTE = 2000
_SHOWN = timedelta(days=90)


def backup(
    path: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
) -> None:
    """Copy a SQLite store to a file while everything runs, and check the copy."""
    from monitor.store.schema import copy_to

    with console.opened() as (_, store):
        copy_to(store, path)
    console.say(f"{path}: {file_size(path.stat().st_size)}, complete")


def deploys(
    app: console.AnyApp = None,
    release: Annotated[str | None, typer.Option(help="The release, such as v12.")] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="When: 2026-11-21T14:05 (UTC unless it names a zone), or how long ago: 30m."
        ),
    ] = None,
    note: Annotated[str, typer.Option(help="A note.")] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="List the deploys of the last 90 days.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="List them as JSON.")] = False,
) -> None:
    """Record a deploy, or list them; reports show the pass rate before and after it."""
    from monitor.store.verdicts import ReleaseMark, add_mark, read_release_marks, read_verdicts

    now = datetime.now(UTC)
    if list_ or as_json:
        with console.reading() as connection:
            marks = read_release_marks(connection, app=app, since=now - _SHOWN)
        console.print_rows(marks[::-1], {
            "at (UTC)": lambda item: utc_second(item.at),
            "app": lambda item: console.safe(item.app, 80),
            "release": lambda item: console.safe(item.release, 80),
            "note": lambda item: console.safe(item.note, 80),
        }, as_json=as_json, none="no deploys are recorded")  # fmt: skip
        return
    if not app or not release:
        raise typer.BadParameter("name an app and a release: groundwatch deploys APP --release v12")
    moment = now if at is None else console.parse_time(at, now)
    if moment > now + timedelta(minutes=5):
        raise typer.BadParameter(f"{at!r} is still to come; record a deploy once it is out")
    made = ReleaseMark(
        app=_plain(app, "APP"), release=_plain(release, "--release"), at=moment,
        note=plain_text(note, _LONGEST_NOTE), made_at=now,
    )  # fmt: skip
    with console.writing() as connection:
        add_mark(connection, made)
        is_known = bool(read_verdicts(connection, made.app))
    console.say(f"recorded: {made.app} {made.release} at {utc_second(made.at)}")
    if not is_known:
        console.say(f"nothing of {made.app} has been scored yet; is the name right?")


def _plain(text: str, what: str) -> str:
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise typer.BadParameter(f"{what} needs 1 to {_LONGEST} printable characters")
    return text.strip()


dead_letters_app = console.group(
    "Dead letters: entries that no worker could score, with the reason."
)

Named = Annotated[str, typer.Argument(help="Id of the entry, or its first characters.")]
_MOST_SHOWN = 4_000


@dead_letters_app.command("list")
@dead_letters_app.command("ls", hidden=True)
def list_dead_letters(as_json: console.AsJson = False) -> None:
    """List the dead letters, the newest first."""
    from monitor.store.ledger import newest_dead_letters

    now = datetime.now(UTC)
    with console.reading() as connection:
        found = newest_dead_letters(connection)
    console.print_rows(found, {
        "id": lambda item: item.entry_id,
        "at": lambda item: utc_time(item.at, now),
        "app": lambda item: console.safe(item.app, 40),
        "reason": lambda item: item.reason,
        "size": lambda item: f"{len(item.body):,} B",
        "state": lambda item: item.state,
        "detail": lambda item: console.safe(item.detail, 100),
    }, as_json=as_json, json_of=_without_body, none="no dead letters")  # fmt: skip


def _without_body(item: DeadLetter) -> dict[str, Any]:
    values = asdict(item)
    return values | {"size_bytes": len(values.pop("body"))}


@dead_letters_app.command("show")
def show_dead_letter(
    name: Named,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print the whole body, as received.")
    ] = False,
    as_json: console.AsJson = False,
) -> None:
    """Show one entry: why no worker could score it, and what it holds."""
    from monitor.store.ledger import find_dead_letter

    with console.reading() as connection:
        item = find_dead_letter(connection, name)
    if whole:
        typer.echo(item.body, nl=False)
        return
    if as_json:
        console.print_json(_without_body(item) | {"text": item.body.decode("utf-8", "replace")})
        return
    lines = {
        "entry": item.entry_id, "sample": item.sample_id or "unknown", "app": item.app,
        "at": item.at.isoformat(timespec="seconds"), "reason": item.reason, "detail": item.detail,
        "version": item.version, "size": f"{len(item.body):,} bytes",
    }  # fmt: skip
    for what, value in lines.items():
        console.say(f"{what:8} {plain_text(value, 500)}")
    text = item.body[:_MOST_SHOWN].decode("utf-8", "replace")
    # As a JSON string, so that nothing in it reaches the terminal.
    console.say(json.dumps(text))
    if len(item.body) > _MOST_SHOWN:
        out.print("… cut; in full: groundwatch dead-letters show --whole ID > FILE")


@dead_letters_app.command("retry")
def retry_dead_letters(name: Named) -> None:
    """Queue an entry again, for example after upgrading the workers."""
    from monitor.queue import names
    from monitor.queue.consumer import connect, translated
    from monitor.store.ledger import begin_retry, end_retry, find_dead_letter

    with console.opened() as (settings, store), closing(connect(settings.broker_url)) as client:
        with translated():
            client.ping()
        with store.write() as connection:
            item = find_dead_letter(connection, name)
            begin_retry(connection, item, bucket_s=settings.windows.bucket_s)
        fields: Any = {
            names.FIELD_VERSION: item.version, names.FIELD_APP: item.app,
            names.FIELD_BODY: item.body,
        }  # fmt: skip
        with translated():
            client.xadd(names.SAMPLES, fields)
        with store.write() as connection:
            end_retry(connection, item)
    out.print(f"entry {item.entry_id} waits to be scored again")


@dead_letters_app.command("drop")
def drop_dead_letters(name: Named) -> None:
    """Delete what an entry holds; it stays counted as failed."""
    from monitor.store.ledger import drop_dead_letter, find_dead_letter

    with console.writing() as connection:
        item = find_dead_letter(connection, name)
        drop_dead_letter(connection, item.entry_id, why="dropped by hand")
    out.print(f"entry {item.entry_id} was deleted")


def forget(
    user_id: Annotated[str, typer.Option(help="The user_id that the app sent.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what would be deleted.")
    ] = False,
) -> None:
    """Delete the texts of one user: samples, explanations, and what waits in the queue."""
    from monitor.queue.consumer import connect
    from workers.context import Components
    from workers.operations import forget_user

    if not user_id:
        raise typer.BadParameter("name a user: --user-id, as the app sends it")
    with console.opened() as (settings, store), closing(connect(settings.broker_url)) as client:
        done = forget_user(
            client, store, user_id, rules=Components(settings).rules, who=getpass.getuser(),
            now=datetime.now(UTC), dry_run=dry_run,
        )  # fmt: skip
    said = ", ".join(f"{what} {n:,}" for what, n in done.items() if n) or "nothing"
    console.say(("would delete: " if dry_run else "deleted: ") + said)
    if done and not dry_run:
        out.print("backups and delivered messages may still contain such texts")


tokens_app = console.group("Create, list and revoke tokens of the page and the API.")
Name = Annotated[str, typer.Argument(help="Name of the token, such as ci or team-payments.")]


@tokens_app.command()
def create(
    name: Name,
    role: Annotated[
        str, typer.Option(help="viewer reads figures, reader also texts, operator may do all.")
    ] = "viewer",
    only: Annotated[
        list[str] | None, typer.Option("--app", help="Only this app; repeatable. Unset: all apps.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What it may also write: deploys, acknowledgements, silences, labels, feedback;"
            " repeatable."
        ),
    ] = None,
    lasts: Annotated[
        str, typer.Option("--for", help="Expires after this time: 90d. Unset: never.")
    ] = "",
) -> None:
    """Create a token and print it once; only its hash is kept."""
    from monitor.store.tokens import create_token
    from monitor.web.auth import SCOPES, Role

    if role.upper() not in Role.__members__:
        raise typer.BadParameter(f"Invalid role {role!r}: expected viewer, reader or operator")
    for each in scope or ():
        if each not in SCOPES:
            raise typer.BadParameter(f"Invalid scope {each!r}: expected {', '.join(SCOPES)}")
    for text in (name, *(only or ())):
        _plain(text, f"Invalid name {plain_text(text, 60)!r}: it")
    now = datetime.now(UTC)
    expires_at = now + timedelta(seconds=console.parse_duration_s(lasts)) if lasts else None
    with console.writing() as connection:
        secret = create_token(
            connection, name, role=role.lower(), apps=set(only or ()), scopes=set(scope or ()),
            created_by=getpass.getuser(), now=now, expires_at=expires_at,
        )  # fmt: skip
    console.tell(f"token of {name}, shown only once; send it as: Authorization: Bearer TOKEN")
    typer.echo(secret)


@tokens_app.command("list")
def list_tokens(as_json: console.AsJson = False) -> None:
    """List tokens, newest first, also revoked and expired ones."""
    from monitor.store.tokens import read_tokens

    with console.reading() as connection:
        found = read_tokens(connection)
    now = datetime.now(UTC)

    def state(token: Token) -> str:
        if token.revoked_at is not None:
            return f"revoked {utc_time(token.revoked_at, now)}"
        if token.expires_at is None:
            return "live"
        return f"{'until' if token.is_live(now) else 'expired'} {utc_time(token.expires_at, now)}"

    console.print_rows(found, {
        "name": lambda token: console.safe(token.name, 60),
        "role": lambda token: token.role,
        "apps": lambda token: console.safe(", ".join(token.apps) or "all", 80),
        "may write": lambda token: ", ".join(token.scopes) or NONE,
        "created": lambda token: utc_time(token.created_at, now),
        "by": lambda token: console.safe(token.created_by, 40),
        "state": state,
    }, as_json=as_json, none="no tokens; make one: groundwatch tokens create NAME")  # fmt: skip


@tokens_app.command()
def revoke(name: Name) -> None:
    """Revoke a token at once."""
    from monitor.store.tokens import revoke_token

    with console.writing() as connection:
        if not revoke_token(connection, name, datetime.now(UTC)):
            raise SettingsError(f"no live token named {name!r}; see: groundwatch tokens list")
    console.say(f"token {plain_text(name)} is revoked")
