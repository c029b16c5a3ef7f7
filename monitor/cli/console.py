"""The frame of all commands: shared options, the store, and where they write."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from monitor.errors import SettingsError, StoreError
from monitor.format import plain_text
from monitor.testsets import STDIN, Source

if TYPE_CHECKING:
    from rich.progress import Progress
    from sqlalchemy import Connection

    from monitor.models import Evaluation
    from monitor.settings import Settings
    from monitor.store.engine import Store
    from monitor.testsets.records import RecordFile

T = TypeVar("T")
Cell = Text | str
Columns = Mapping[str, Callable[[T], Cell]]

#: What others may not do with the files of our data: transcripts are nobody else's business.
PRIVATE = 0o077
#: The mode of a new file that quotes answers: its owner alone reads it.
PRIVATE_FILE = 0o600

_PIPE_WIDTH = 120
#: Reasons for missing scores that are shown, and characters of each.
_MOST_REASONS, _LONGEST_REASON = 8, 160
#: The shell waits no longer for names from the store.
_COMPLETION_S = 1.0


def _console(*, stderr: bool) -> Console:
    """Make a console that honours NO_COLOR, TERM=dumb, COLUMNS and the terminal's width."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:  # noqa: TID251
        # A pipe or a file has no width; there, nothing needs to be cut.
        return Console(stderr=stderr, highlight=False, width=_PIPE_WIDTH)
    return console


out = _console(stderr=False)
err = _console(stderr=True)  #: about the command itself; figures go to stdout


class JudgeKind(StrEnum):
    """Who judges."""

    LOCAL = "local"
    JUDGE = "judge"
    CASCADE = "cascade"
    NLI = "nli"


def readable(path: Path) -> Path:
    """Check that *path* can be read: a file, a pipe, or ``-`` for the standard input."""
    if path != STDIN and (not path.exists() or path.is_dir()):
        what = "is a directory" if path.is_dir() else "does not exist"
        raise typer.BadParameter(f"file '{path}' {what}.")
    return path


def complete_app(incomplete: str) -> list[str]:
    """Return the apps of the store that begin so, for the shell."""
    return sorted({app for app, _ in _scored_pairs() if app.startswith(incomplete)})


def complete_metric(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the metrics that begin so, of the app that is named before, for the shell."""
    app = ctx.params.get("of") or ctx.params.get("app")
    pairs = (pair for pair in _scored_pairs() if app in {None, pair[0]})
    return sorted({metric for _, metric in pairs if metric.startswith(incomplete)})


def _scored_pairs() -> list[tuple[str, str]]:
    """Return apps and metrics; none, within a second, where there is no store that answers."""
    # Before the time runs: only a store that does not answer is given up.
    for name in ("monitor.settings", "monitor.store.engine"):
        import_module(name)
    from monitor.store.verdicts import read_verdicts

    found: list[tuple[str, str]] = []

    def read() -> None:
        with suppress(Exception), reading() as connection:
            found.extend((each.app, each.metric) for each in read_verdicts(connection).values())

    thread = Thread(target=read, daemon=True)
    thread.start()
    thread.join(_COMPLETION_S)
    return [*found]


def group(about: str, *, alone: bool = False) -> typer.Typer:
    """Return an empty group of commands; one that does something *alone* has a callback for it."""
    return typer.Typer(
        no_args_is_help=not alone, invoke_without_command=alone, add_completion=False, help=about
    )


def is_alone(context: typer.Context) -> bool:
    """Return whether a group is called alone; options before a command of it are refused."""
    command = context.invoked_subcommand
    sources = map(context.get_parameter_source, context.params)
    given = any(source is not None and source.name == "COMMANDLINE" for source in sources)
    if command is not None and given:
        raise typer.BadParameter(f"put options after the command: {context.command_path} {command}")
    return command is None


#: Options that many commands have.
OnlyApp = Annotated[
    str | None, typer.Option("--app", help="Only this app.", autocompletion=complete_app)
]
AppName = Annotated[str, typer.Argument(help="Name of the app.", autocompletion=complete_app)]
AnyApp = Annotated[
    str | None,
    typer.Argument(metavar="[APP]", help="Name of the app.", autocompletion=complete_app),
]
MetricName = Annotated[
    str, typer.Argument(help="Such as groundedness.", autocompletion=complete_metric)
]
OnlyMetrics = Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")]
Window = Annotated[str, typer.Option("--window", help="How far back: 90s, 15m, 24h, 7d.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; unset: stdout.")
]
Metrics = Annotated[str, typer.Option(help="Metrics, separated by commas.")]
Judge = Annotated[JudgeKind | None, typer.Option(help="Who scores; unset: GROUNDWATCH_SCORER.")]
Annotator = Annotated[
    str | None, typer.Option("--annotator", help="Who labels; unset: your user name.")
]
Reports = Annotated[
    list[Path] | None, typer.Option(help="Write a report: .md, .html, .xml; repeatable.")
]
Records = Annotated[
    Path,
    typer.Argument(
        help="JSONL, JSON, CSV or Parquet; - is JSONL from the standard input.", callback=readable
    ),
]
FromTool = Annotated[
    Source | None, typer.Option("--from", help="The tool that exported the file, if one did.")
]


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise typer.BadParameter for a ValueError, with its message."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_duration_s(text: str) -> int:
    """Return a duration such as 90s or 7d in seconds; raise typer.BadParameter for others."""
    from monitor.settings import kinds

    with usage_errors():
        return kinds.parse_duration_s(text)


def parse_time(text: str, now: datetime) -> datetime:
    """Return the time that *text* names, see `kinds.parse_time`; else raise typer.BadParameter."""
    from monitor.settings import kinds

    with usage_errors():
        return kinds.parse_time(text, now)


def parse_share(text: str) -> float:
    """Return a share in [0, 1], such as 3% or 0.03; raise typer.BadParameter for others."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"Invalid share {text!r}: expected 3% or 0.03")
    return share


def parse_pairs(given: Sequence[str] | None, form: str) -> dict[str, str]:
    """Return name=value texts by name; raise typer.BadParameter, with the *form*, for others."""
    found = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"Invalid {each!r}: expected {form}")
        found[name.strip()] = value
    return found


def print_json(value: object) -> None:
    """Print a value: models, named tuples and data classes as objects, times in RFC 3339."""
    from pydantic_core import to_json

    def plain(value: object) -> object:
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return plain(value._asdict())
        return [plain(item) for item in value] if isinstance(value, list | set | tuple) else value

    typer.echo(to_json(plain(value), indent=2, fallback=str).decode())


def print_rows(
    items: Sequence[T],
    columns: Columns[T],
    *,
    none: str = "",
    as_json: bool = False,
    json_of: Callable[[T], object] = lambda item: item,
    right: Sequence[str] = (),
    style: Callable[[T], str] = lambda _: "",
) -> None:
    """Print a row an item, or all items as JSON; *none* where there is no item."""
    from monitor.report.listing import Listing

    if as_json:
        print_json([json_of(item) for item in items])
        return
    listed = Listing.of(*columns, right=right)
    for item in items:
        listed.add_row(*(cell(item) for cell in columns.values()), style=style(item))
    out.print(listed if items else none)


def say(text: str, style: str = "") -> None:
    """Print one line of an answer, however long; *text* is not markup."""
    out.print(Text(text, style=style), soft_wrap=True)


def tell(text: str) -> None:
    """Print one line about the command itself on stderr; *text* is not markup."""
    err.print(Text(text), soft_wrap=True)


def missing_scores(found: Iterable[Evaluation]) -> Counter[str]:
    """Count evaluations without a score, by metric, status and reason in words."""
    from monitor.report.words import skip_sentence, why_unscored

    def why(each: Evaluation) -> str:
        if each.error is not None or not each.reason:
            return f"{each.status.value}: {plain_text(why_unscored(each), _LONGEST_REASON)}"
        said = skip_sentence(each.reason, each.explanation)
        code = f"{each.status.value} ({plain_text(each.reason, 60)})"
        return f"{code}: {plain_text(said, _LONGEST_REASON)}" if said else code

    return Counter(f"{each.evaluator_name} {why(each)}" for each in found if each.score is None)


def tell_missing(missing: Counter[str]) -> None:
    """Print why evaluations have no score, the commonest reasons first."""
    for why, n in missing.most_common(_MOST_REASONS):
        tell(f"{n:,} x {why}")
    if (left := len(missing) - _MOST_REASONS) > 0:
        tell(f"and {left:,} further reasons, see the output")


def warn(text: str) -> None:
    """Print one line about something that went wrong but stops nothing; *text* may be hostile."""
    err.print(Text(plain_text(text, 500), style="yellow"), soft_wrap=True)


def safe(text: str, most_chars: int) -> Text:
    """Return text of others for one cell: without markup or control characters, and cut."""
    return Text(plain_text(text, most_chars))


def write_or_print(text: str, output: Path | None) -> None:
    """Write *text* to a file that its owner alone reads, or print it."""
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.touch(mode=PRIVATE_FILE)
        output.write_text(text, encoding="utf-8")


def progress_bar() -> Progress:
    """Return a bar on stderr; each task says what is counted."""
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(),
        progress.MofNCompleteColumn(), progress.TimeRemainingColumn(), console=err,
    )  # fmt: skip


def quiet_logs() -> None:
    """Keep what our own parts log out of the answer of a command; errors go to stderr."""
    import logging
    import sys

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def read_settings() -> Settings:
    """Return the settings of the environment and the file."""
    from monitor.settings import Settings

    return Settings.from_env()


def open_store(settings: Settings) -> Store:
    """
    Open the store that `up` or `migrate` made; looking makes none.

    Raise StoreError if there is none, or its tables are not those this program knows.
    """
    from monitor.store.engine import Store
    from monitor.store.schema import check_schema

    file = settings.home / "groundwatch.db"
    if settings.database_url is None and not file.exists():
        raise StoreError(
            f"there is no store at {file} yet; start everything with: groundwatch up"
            " (or make only the store with: groundwatch migrate)"
        )
    store = Store(settings.sql_url)
    with ExitStack() as unless_checked:
        unless_checked.callback(store.close)
        check_schema(store)
        unless_checked.pop_all()
    return store


@contextmanager
def opened() -> Iterator[tuple[Settings, Store]]:
    """Read the settings and open their store."""
    settings = read_settings()
    with closing(open_store(settings)) as store:
        yield settings, store


@contextmanager
def reading() -> Iterator[Connection]:
    """Read the store of the settings."""
    with opened() as (_, store), store.read() as connection:
        yield connection


@contextmanager
def writing() -> Iterator[Connection]:
    """Write to the store of the settings, in one transaction."""
    with opened() as (_, store), store.write() as connection:
        yield connection


def opened_records(
    file: Path, source: Source | None, *, needs_output: bool = True
) -> AbstractContextManager[RecordFile]:
    """Open the records of a file; warn about lines that cannot be read."""
    from monitor.testsets.records import RecordFile

    return RecordFile.opened(
        file, lambda text: warn(f"{file.name} {text}"), source, needs_output=needs_output
    )


def known_apps(store: Store) -> list[str]:
    """Return the names of all apps with anything counted or scored, sorted."""
    from monitor.store.ledger import read_totals
    from monitor.store.verdicts import read_verdicts

    with store.read() as connection:
        scored = {verdict.app for verdict in read_verdicts(connection).values()}
        return sorted(scored | read_totals(connection).keys())


def app_names(apps: Sequence[str]) -> str:
    """Return the first ten apps, or other names, for a message."""
    return ", ".join(plain_text(name, 40) for name in apps[:10]) or "none yet"


def there_are(names: Sequence[str]) -> str:
    """Return "there is a", or "there are a, b", of the first ten names."""
    return f"there {'are' if len(names) > 1 else 'is'} {app_names(names)}"


def check_app(store: Store, app: str | None) -> None:
    """Raise SettingsError for an unknown app while others are known; it names those."""
    known = known_apps(store)
    if app is not None and known and app not in known:
        raise SettingsError(
            f"unknown app {plain_text(app, 40)!r}; expected one of {app_names(known)}"
        )


def check_metrics(store: Store, metrics: Iterable[str], app: str | None = None) -> None:
    """Raise SettingsError for a metric by which nothing was evaluated; it names those that were."""
    from monitor.store.query import evaluated_metrics
    from monitor.store.verdicts import read_verdicts

    with store.read() as connection:
        counted = {verdict.metric for verdict in read_verdicts(connection, app).values()}
        known = sorted(counted.union(evaluated_metrics(connection, app)))
    for metric in metrics:
        if known and metric not in known:
            raise SettingsError(
                f"unknown metric {plain_text(metric, 40)!r}; expected one of {app_names(known)}"
            )


def the_app(store: Store, app: str | None) -> str:
    """Return *app*, else the only one there is; raise SettingsError if that leaves it open."""
    check_app(store, app)
    known = [app] if app is not None else known_apps(store)
    if len(known) != 1:
        raise SettingsError(f"name the app with --app; {there_are(known)}")
    return known[0]
