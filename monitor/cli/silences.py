"""``groundwatch alerts silence``: quiet about some alerts for a while, with a name and a reason."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text
from sqlalchemy import Connection

from alerts.plan import Plan
from alerts.routing.matchers import Matcher, parse_all
from alerts.silence_preview import preview as preview_of
from alerts.stored_silences import add_silence, expire_silence, silences_after
from alerts.wiring import wiring_from
from monitor.cli.console import out, parse_duration_s, warn
from monitor.cli.stores import open_store
from monitor.errors import SettingsError
from monitor.report.listing import Listing
from monitor.report.words import harmless, moment
from monitor.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Quiet about some alerts for a while.")

Matchers = Annotated[
    list[str], typer.Argument(help="Such as app=shop severity=warning 'metric=~ground.*'.")
]


@app.command("add")
def add(
    matchers: Matchers,
    lasts: Annotated[str, typer.Option("--for", help="For how long: 30m, 2h, 7d.")],
    comment: Annotated[str, typer.Option(help="Why, for those who wonder.")],
    by: Annotated[str, typer.Option(help="Who wants it.")] = "",
    begins_in: Annotated[str, typer.Option("--in", help="Begin later: 30m, 2h.")] = "",
) -> None:
    """Silence the alerts that all matchers hold for; what happens is still noted."""
    now = datetime.now(UTC)
    starts_at = now + timedelta(seconds=parse_duration_s(begins_in) if begins_in else 0)
    ends_at = starts_at + timedelta(seconds=parse_duration_s(lasts))
    settings = Settings.from_env()
    parsed = parse_all(matchers)
    plan = wiring_from(settings).plan
    with open_store(settings).write() as connection:
        _preview(connection, plan, parsed)
        made = add_silence(
            connection,
            parsed,
            now=now,
            starts_at=starts_at,
            ends_at=ends_at,
            author=by or getpass.getuser(),
            comment=comment,
        )
    out.print(f"silence {made.hush_id} until {made.ends_at:%Y-%m-%d %H:%M} UTC")


@app.command("preview")
def preview(matchers: Matchers) -> None:
    """Show what a silence would hold back, and make none."""
    settings = Settings.from_env()
    plan = wiring_from(settings).plan
    with open_store(settings).read() as connection:
        _preview(connection, plan, parse_all(matchers))


@app.command("ls")
def ls(
    window: Annotated[str, typer.Option(help="Those too that ended within: 24h, 7d.")] = "",
) -> None:
    """List silences, the first to end first, and the maintenance windows of the routes file."""
    settings = Settings.from_env()
    now = datetime.now(UTC)
    since = now - timedelta(seconds=parse_duration_s(window) if window else 0)
    with open_store(settings).read() as connection:
        found = silences_after(connection, since)
    listed = Listing.of("id", "matchers", "ends", "by", "why")
    for silence in found:
        listed.add_row(
            silence.hush_id,
            Text(harmless(" ".join(map(str, silence.matchers)), 60)),
            moment(silence.ends_at, now) + (" (over)" if silence.ends_at <= now else ""),
            Text(harmless(silence.author, 30)),
            Text(harmless(silence.comment, 60)),
        )
    out.print(listed if found else "no silences")
    for window_ in wiring_from(settings).plan.maintenance:
        until = window_.hours.until(now)
        state = "now" if until else "not now"
        matchers = " ".join(map(str, window_.matchers))
        out.print(Text(f"maintenance {window_.name} ({state}): {matchers}, {window_.hours}"))


@app.command("expire")
def expire(silence_id: Annotated[str, typer.Argument(help="As `silence ls` shows it.")]) -> None:
    """End a silence now; what still fires is told."""
    with open_store(Settings.from_env()).write() as connection:
        if not expire_silence(connection, silence_id, datetime.now(UTC)):
            raise SettingsError(f"no silence {silence_id!r} to end; groundwatch alerts silence ls")
    out.print(f"silence {harmless(silence_id)} is over")


def _preview(connection: Connection, plan: Plan, matchers: tuple[Matcher, ...]) -> None:
    found = preview_of(connection, plan, matchers)
    out.print(f"holds back {len(found.held)} of {found.firing} that fire now")
    for incident in found.held[:20]:
        out.print(Text(harmless(f"  {incident.level} {incident.app} {incident.metric}", 120)))
    if found.warning:
        warn(found.warning)
