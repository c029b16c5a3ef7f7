"""``groundwatch mark``: tell that a release went out, so that before and after are compared."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import open_store, out, parse_duration_s
from monitor.report.format import plain_text, utc_second
from monitor.report.listing import Listing
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.insights import ReleaseMark, add_mark, read_marks
from monitor.store.verdicts import read_verdicts

_LONGEST = 200
_LONGEST_NOTE = 2000
_SHOWN = timedelta(days=90)


def mark(
    app: Annotated[str | None, typer.Argument(help="Name of the app.")] = None,
    release: Annotated[str | None, typer.Option(help="What went out, such as v12.")] = None,
    at: Annotated[
        str | None,
        typer.Option(help="When: 2026-11-21T14:05 (UTC unless it says), or 30m for 30 min ago."),
    ] = None,
    note: Annotated[str, typer.Option(help="A word about it.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the deploys of 90 days.")] = False,
) -> None:
    """Mark a deploy; reports then tell the pass rate before and after it."""
    store = open_store(Settings.from_env())
    now = datetime.now(UTC)
    if list_:
        _show(store, app, now)
        return
    if not app or not release:
        raise typer.BadParameter("say whose and which: groundwatch mark APP --release v12")
    made = ReleaseMark(
        app=_plain(app, "APP"),
        release=_plain(release, "--release"),
        at=now if at is None else _moment(at, now),
        note=plain_text(note, _LONGEST_NOTE),
        made_at=now,
    )
    with store.write() as connection:
        add_mark(connection, made)
        is_known = bool(read_verdicts(connection, made.app))
    out.print(Text(f"marked: {made.app} {made.release} at {utc_second(made.at)}"))
    if not is_known:
        out.print(Text(f"nothing of {made.app} was judged so far; is the name right?"))


def _show(store: Store, app: str | None, now: datetime) -> None:
    with store.read() as connection:
        marks = read_marks(connection, app=app, since=now - _SHOWN)
    if not marks:
        out.print("no deploys are marked")
        return
    listed = Listing.of("at (UTC)", "app", "release", "note")
    for item in reversed(marks):
        names = (plain_text(text, 80) for text in (item.app, item.release, item.note))
        listed.add_row(utc_second(item.at), *(Text(name) for name in names))
    out.print(listed)


def _moment(text: str, now: datetime) -> datetime:
    """Read a time; one without a zone is UTC, and a duration is so long ago."""
    if re.fullmatch(r"\d+\s*[smhdw]", text.strip().lower()):
        return now - timedelta(seconds=parse_duration_s(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write it as 2026-11-21T14:05, or 30m for 30 minutes ago"
        ) from None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if found > now + timedelta(minutes=5):
        raise typer.BadParameter(f"{text!r} is still to come; mark a deploy when it is out")
    return found


def _plain(text: str, what: str) -> str:
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise typer.BadParameter(f"{what} needs 1 to {_LONGEST} printable characters")
    return text.strip()
