"""Where the commands write: figures to stdout, everything about the command itself to stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import structlog
import typer
from pydantic_core import to_json
from rich.console import Console
from rich.text import Text

from monitor.errors import SettingsError, StoreError
from monitor.report.format import plain_text
from monitor.report.listing import Listing
from monitor.settings import Settings, kinds
from monitor.store.engine import Store, check_schema
from monitor.testsets.exports import Source
from monitor.testsets.records import STDIN
from workers.reports import read_status

#: Options that many commands have.
OnlyApp = Annotated[str | None, typer.Option("--app", help="Only this app.")]
Window = Annotated[str, typer.Option("--window", help="How far back: 90s, 15m, 24h, 7d.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]

T = TypeVar("T")
Cell = Text | str

#: What others may not do with the files of our data: transcripts are nobody else's business.
PRIVATE = 0o077
#: The mode of a new file that quotes answers: its owner alone reads it.
PRIVATE_FILE = 0o600

_PIPE_WIDTH = 120


def _console(*, stderr: bool) -> Console:
    """Make a console that honours NO_COLOR, TERM=dumb, COLUMNS and the terminal's width."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:  # noqa: TID251
        # A pipe or a file has no width; there, nothing needs to be cut.
        return Console(stderr=stderr, highlight=False, width=_PIPE_WIDTH)
    return console


out = _console(stderr=False)
err = _console(stderr=True)


class JudgeKind(StrEnum):
    """Who judges."""

    LOCAL = "local"
    JUDGE = "judge"
    CASCADE = "cascade"
    NLI = "nli"


FromTool = Annotated[
    Source | None, typer.Option("--from", help="The tool that exported the file, if one did.")
]


def parse_duration_s(text: str) -> int:
    """Return a duration such as 90s or 7d in seconds; raise typer.BadParameter for others."""
    try:
        return kinds.parse_duration_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_share(text: str) -> float:
    """
    Read a share of one, such as 3% or 0.03.

    Raises
    ------
    typer.BadParameter
        If *text* is none in [0, 1]; the message shows what one looks like.
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"Invalid share {text!r}: expected 3% or 0.03")
    return share


def parse_time(text: str, now: datetime) -> datetime:
    """Return the time that *text* names, see `kinds.parse_time`; else raise typer.BadParameter."""
    try:
        return kinds.parse_time(text, now)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def readable(path: Path) -> Path:
    """Check that *path* can be read: a file, a pipe, or ``-`` for the standard input."""
    if path != STDIN and (not path.exists() or path.is_dir()):
        what = "is a directory" if path.is_dir() else "does not exist"
        raise typer.BadParameter(f"file '{path}' {what}.")
    return path


def print_json(value: object) -> None:
    """Print a value: models, named tuples and data classes as objects, times in RFC 3339."""
    typer.echo(to_json(_plain(value), indent=2, fallback=str).decode())


def _plain(value: object) -> object:
    if isinstance(value, list | set):
        return [_plain(item) for item in value]
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_asdict") else value


def print_rows(
    items: Sequence[T], columns: Mapping[str, Callable[[T], Cell]], *, as_json: bool, none: str
) -> None:
    """Print a row an item, or all items as JSON; *none* where there is no item."""
    if as_json:
        print_json(list(items))
        return
    listed = Listing.of(*columns)
    for item in items:
        listed.add_row(*(cell(item) for cell in columns.values()))
    out.print(listed if items else none)


def safe(text: str, most_chars: int) -> Text:
    """Return text of others for one cell: without markup or control characters, and cut."""
    return Text(plain_text(text, most_chars))


def quiet_logs() -> None:
    """Keep what our own parts log out of the answer of a command; errors go to stderr."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def warn(text: str) -> None:
    """Print one line about something that went wrong but stops nothing; *text* may be hostile."""
    err.print(Text(plain_text(text, 500), style="yellow"), soft_wrap=True)


def open_store(settings: Settings) -> Store:
    """
    Open the store that `up` or `migrate` made; looking makes none.

    Raises
    ------
    StoreError
        If there is none, or its tables are not those this program knows.
    """
    file = settings.home / "groundwatch.db"
    if settings.database_url is None and not file.exists():
        raise StoreError(
            f"there is no store at {file} yet; start everything with: groundwatch up"
            " (or make only the store with: groundwatch migrate)"
        )
    store = Store(settings.sql_url)
    check_schema(store)
    return store


def check_app(store: Store, settings: Settings, app: str | None) -> None:
    """
    Refuse an unknown app while others are known.

    Raises
    ------
    SettingsError
        If so; it names those that there are.
    """
    known = [item.app for item in read_status(store, settings, now=datetime.now(UTC)).apps]
    if app is not None and known and app not in known:
        there = ", ".join(plain_text(name, 40) for name in known[:10])
        raise SettingsError(f"unknown app {plain_text(app, 40)!r}; expected one of {there}")
