"""``groundwatch tokens``: let programs and teams in, to some apps only, and out again."""

from __future__ import annotations

import getpass
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import AsJson, err, open_store, out, parse_duration_s, print_json
from monitor.errors import SettingsError
from monitor.report.format import plain_text, utc_time
from monitor.report.listing import Listing
from monitor.settings import Settings
from monitor.store.tokens import create_token, read_tokens, revoke_token
from monitor.web.auth import SCOPES, Role

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Tokens of the page and the API."
)
Name = Annotated[str, typer.Argument(help="Who has it, such as ci or team-payments.")]


@app.command()
def create(
    name: Name,
    role: Annotated[
        str, typer.Option(help="What it may read: viewer figures, reader texts; operator: all.")
    ] = "viewer",
    only: Annotated[
        list[str] | None, typer.Option("--app", help="Only this app; repeatable. Else all apps.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help=f"What it may write besides: {', '.join(SCOPES)}; repeatable."),
    ] = None,
    lasts: Annotated[str, typer.Option("--for", help="For how long: 90d. Else for good.")] = "",
) -> None:
    """Create a token and print it once; only its hash is kept."""
    if role.upper() not in Role.__members__:
        raise typer.BadParameter(f"Invalid role {role!r}: expected viewer, reader or operator")
    for each in scope or ():
        if each not in SCOPES:
            raise typer.BadParameter(f"Invalid scope {each!r}: expected {', '.join(SCOPES)}")
    for text in (name, *(only or ())):
        if not text.strip() or len(text) > 200 or not text.isprintable():  # noqa: PLR2004
            raise typer.BadParameter(
                f"Invalid name {plain_text(text, 60)!r}: expected 1 to 200 printable characters"
            )
    now = datetime.now(UTC)
    expires_at = now + timedelta(seconds=parse_duration_s(lasts)) if lasts else None
    with closing(open_store(Settings.from_env())) as store, store.write() as connection:
        secret = create_token(
            connection, name, role=role.lower(), apps=set(only or ()), scopes=set(scope or ()),
            created_by=getpass.getuser(), now=now, expires_at=expires_at,
        )  # fmt: skip
    err.print(
        Text(f"token of {name}, shown only now; send it as: Authorization: Bearer TOKEN"),
        soft_wrap=True,
    )
    typer.echo(secret)


@app.command("list")
def list_tokens(
    as_json: AsJson = False,
) -> None:
    """List tokens, the newest first, revoked and expired ones as well."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        found = read_tokens(connection)
    if as_json:
        print_json(found)
        return
    now = datetime.now(UTC)
    listed = Listing.of("name", "role", "apps", "may write", "created", "by", "state")
    for token in found:
        ends = token.expires_at
        if token.revoked_at is not None:
            state = f"revoked {utc_time(token.revoked_at, now)}"
        elif ends is None:
            state = "live"
        else:
            state = f"{'until' if token.is_live(now) else 'expired'} {utc_time(ends, now)}"
        listed.add_row(
            Text(plain_text(token.name, 60)), token.role,
            Text(plain_text(", ".join(token.apps), 80) or "all"), ", ".join(token.scopes) or "–",
            utc_time(token.created_at, now), Text(plain_text(token.created_by, 40)), state,
        )  # fmt: skip
    out.print(listed if found else "no tokens; make one with: groundwatch tokens create NAME")


@app.command()
def revoke(name: Name) -> None:
    """Revoke a token; it lets nobody in from now on."""
    with closing(open_store(Settings.from_env())) as store, store.write() as connection:
        if not revoke_token(connection, name, datetime.now(UTC)):
            raise SettingsError(f"no live token named {name!r}; see: groundwatch tokens list")
    out.print(Text(f"token {plain_text(name)} is revoked"))
