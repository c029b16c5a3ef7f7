"""``samples`` finds, follows and writes samples; ``export`` writes a report as sheets."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import MissingExtraError
from monitor.format import count, plain_text, score, utc_time
from monitor.store import Sort

if TYPE_CHECKING:
    from monitor.report.sheets import Sheet
    from monitor.store.engine import Store
    from monitor.store.sample_filter import SampleFilter
    from monitor.store.search import FoundSample, SamplePage

_AT_ONCE = 500
_FOLLOW_EVERY_S = 2.0


def samples(  # noqa: PLR0913, PLR0917  # one option a filter
    app: console.OnlyApp = None,
    metric: Annotated[
        str, typer.Option(help="Only with this metric.", autocompletion=console.complete_metric)
    ] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only samples that failed.")] = False,
    passed: Annotated[bool, typer.Option("--passed", help="Only samples that passed.")] = False,
    unscored: Annotated[
        bool, typer.Option("--unscored", help="Only samples without a score.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why there is no score: no_context.")] = "",
    min_score: Annotated[str, typer.Option(help="Lowest score; needs --metric.")] = "",
    max_score: Annotated[str, typer.Option(help="Highest score; needs --metric.")] = "",
    label: Annotated[str, typer.Option(help="What people said: pass, fail, any, none.")] = "",
    segment: Annotated[list[str] | None, typer.Option(help="dimension=value; repeatable.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="name=value; repeatable.")] = None,
    release: Annotated[str, typer.Option(help="Only of this release.")] = "",
    user: Annotated[str, typer.Option(help="Only of this user_id.")] = "",
    session: Annotated[str, typer.Option(help="Only of this session_id.")] = "",
    trace: Annotated[str, typer.Option(help="Only of this trace_id.")] = "",
    since: Annotated[
        str, typer.Option(help="From then on: 2026-11-21T14:05 (UTC), or 24h ago.")
    ] = "",
    until: Annotated[str, typer.Option(help="Before this time.")] = "",
    text: Annotated[str, typer.Option(help='Words in question or answer; "a phrase".')] = "",
    sort: Annotated[Sort, typer.Option(help="By time, or by the metric's score.")] = Sort.NEWEST,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Show at most this many.")] = 20,
    cursor: Annotated[
        str, typer.Option(help="Value of next in the last page that --json printed.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to FILE.jsonl or FILE.csv.")
    ] = None,
    json: console.AsJson = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep running and show new ones.")
    ] = False,
) -> None:
    """
    List samples: question, answer and scores, the newest first.

    With --session also what each metric says of it: the worst turn, and whether its last one
    passes (resolved).

    Texts are as they were stored, masked by the app.
    """
    from monitor.store.sample_filter import SampleFilter

    outcomes = {"failed": failed, "passed": passed, "unscored": unscored}
    asked = [name for name, wanted in outcomes.items() if wanted]
    if len(asked) > 1:
        raise typer.BadParameter(f"--{asked[0]} and --{asked[1]} exclude each other")
    if output is not None and output.suffix not in {".jsonl", ".csv"}:
        raise typer.BadParameter(f"'{output}': expected a file that ends with .jsonl or .csv")
    given = {
        "app": app or "", "metric": metric, "outcome": "".join(asked), "reason": reason,
        "min_score": min_score, "max_score": max_score, "label": label, "release": release,
        "user": user, "session": session, "trace": trace, "since": since, "until": until,
        "text": text,
    }  # fmt: skip
    values = {name: [value] for name, value in given.items()}
    values |= {"segment": segment or [], "tag": tag or []}
    with console.opened() as (_, store):
        console.check_app(store, app)
        console.check_metrics(store, [metric] if metric else (), app)
        with console.usage_errors():
            wanted = SampleFilter.parse(values, datetime.now(UTC))
            pages = _pages(store, wanted, sort, cursor, limit)
            first = next(pages)
        if json:
            from monitor.web.schema import SamplesPage

            read = [first, *pages]
            items = [item for page in read for item in page.items]
            typer.echo(SamplesPage(items=items, next=read[-1].next).model_dump_json(indent=2))
        elif output is not None:
            from monitor.web.samples import write_csv, write_jsonl

            output.touch(mode=console.PRIVATE_FILE)
            with output.open("w", newline="", encoding="utf-8") as file:
                items_of = (item for page in (first, *pages) for item in page.items)
                write = write_csv if output.suffix == ".csv" else write_jsonl
                file.writelines(write(items_of))
            console.tell(f"written to {output}")
        else:
            _print_pages(store, (first, *pages), session, oldest_first=follow)
            if not first.items and not follow:
                out.print("no samples match" if wanted != SampleFilter() else "no samples yet")
        if not first.items and (said := _unknown_reason(reason)):
            console.tell(said)
        if follow:
            with suppress(KeyboardInterrupt):
                _follow(store, wanted, {item.sample_id for item in first.items})


def _unknown_reason(reason: str) -> str:
    """Return which reasons there are if nothing is skipped or fails for *reason*; '' if known."""
    from monitor.errors import JudgeError
    from monitor.report.words import SKIPPED
    from monitor.scoring.metrics import METRICS

    skips = {each for metric in METRICS.values() for each in metric.declaration.reasons()}
    fails = {error.code for error in JudgeError.__subclasses__()}
    known = skips | SKIPPED.keys() | fails | {"internal_error", "no_evaluator"}
    if not reason or reason in known:
        return ""
    close = get_close_matches(reason, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    named = ", ".join(sorted(known))
    return f"no metric that ships has the reason {reason!r}: {hint}there are {named}"


def _pages(
    store: Store, wanted: SampleFilter, sort: Sort, cursor: str, limit: int
) -> Iterator[SamplePage]:
    from monitor.store.search import find_samples

    left: int = limit
    after: str | None = cursor
    while left > 0 and after is not None:
        with store.read() as connection:
            page = find_samples(
                connection, wanted, sort=sort, cursor=after, limit=min(left, _AT_ONCE)
            )
        yield page
        left, after = left - len(page.items), page.next


def _follow(store: Store, wanted: SampleFilter, seen: set[str]) -> None:
    while True:
        time.sleep(_FOLLOW_EVERY_S)
        page = next(_pages(store, wanted, Sort.NEWEST, "", _AT_ONCE))
        for item in reversed(page.items):
            if item.sample_id not in seen:
                print_sample(item)
        seen = {item.sample_id for item in page.items}


def _print_pages(
    store: Store, pages: Sequence[SamplePage], session: str, *, oldest_first: bool
) -> None:
    """Print samples, below the scores of the *session* of which they are."""
    for app in sorted({item.app for item in pages[0].items}) if session else ():
        print_session(store, app, session)
    for page in pages:
        for item in reversed(page.items) if oldest_first else page.items:
            print_sample(item)


def print_session(store: Store, app: str, session: str) -> None:
    """Print what each metric says of a session: its worst turn, and whether it is resolved."""
    from monitor.store.samples import session_scores

    with store.read() as connection:
        found = session_scores(connection, app=app, session_id=session)
    console.say(f"session {plain_text(session, 60)} of {plain_text(app, 40)}", style="bold")
    for each in found:
        said = f"  {plain_text(each.metric, 40)}: {count(each.turns, 'turn')}, {each.failed} failed"
        said += f", worst {score(each.worst)} (id {each.worst_sample_id})"
        if each.resolved is not None:
            said += ", resolved" if each.resolved else ", not resolved"
        console.say(said)


def print_sample(item: FoundSample) -> None:
    """Print one sample: when and how it ended, what was asked and answered."""
    from monitor.report.words import empty_answer, skip_sentence

    line = Text(f"{utc_time(item.occurred_at)}  {plain_text(item.app, 40)}", style="bold")
    for evaluation in item.evaluations:
        name = f"  {plain_text(evaluation.metric, 40)}"
        if evaluation.passed is None:
            reason = plain_text(evaluation.reason or evaluation.status, 60)
            said = skip_sentence(reason)
            line.append(f"{name} not scored ({reason}){': ' * bool(said)}{said}", "dim")
        else:
            word, style = ("pass", "green") if evaluation.passed else ("FAIL", "red")
            line.append(f"{name} {word} {score(evaluation.score)}", style)
    if not item.evaluations:
        line.append(f"  {item.outcome} {item.reason}", "dim")
    out.print(line, soft_wrap=True)
    answer = item.output or empty_answer(item.no_texts)
    known = [("Q", item.query or ""), ("A", answer), ("id", item.sample_id)]
    more = [f"{name}={value}" for name, value in item.tags.items()]
    more += [f"release={item.release}"] * bool(item.release)
    more += [f"user={item.user_id}"] * bool(item.user_id)
    known += [("", "  ".join(more))] if more else []
    for name, value in known:
        console.say(f"  {name:2} {plain_text(value, 300)}")


class ExportFormat(StrEnum):
    """What is written."""

    CSV = "csv"  #: a folder with one file a sheet
    XLSX = "xlsx"  #: one workbook
    GOOGLE = "google-sheets"  #: a spreadsheet of Google


_MOST_RUNS = 10_000


def export(
    to: Annotated[
        ExportFormat,
        typer.Option(help="csv: a folder, one file per sheet; xlsx: a workbook; google-sheets."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder or file to write.")
    ] = None,
    app: console.OnlyApp = None,
    window: console.Window = "24h",
    runs: Annotated[
        int,
        typer.Option(min=0, help="Export at most this many runs, newest first; 0: totals only."),
    ] = _MOST_RUNS,
    spreadsheet: Annotated[
        str | None,
        typer.Option(help="Google spreadsheet id: between /d/ and /edit in its address."),
    ] = None,
    account: Annotated[
        Path | None, typer.Option(help="Key file (JSON) of a Google service account.")
    ] = None,
    api_url: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Export runs, statuses, trends, incidents and changes as spreadsheets."""
    from monitor.report.sheets import run_sheets, sheets_of
    from monitor.store.drift import read_runs
    from workers.reports import read_report

    if to is ExportFormat.GOOGLE and (spreadsheet is None or account is None):
        raise typer.BadParameter("google-sheets needs --spreadsheet and --account")
    if to is not ExportFormat.GOOGLE and output is None:
        raise typer.BadParameter(f"{to} needs --output: where to write")
    now, window_s = datetime.now(UTC), console.parse_duration_s(window)
    with console.opened() as (settings, store):
        console.check_app(store, app)
        report = read_report(store, settings, now=now, window_s=window_s, app=app)
        with store.read() as connection:
            since = now - timedelta(seconds=window_s)
            found, total = read_runs(connection, since=since, limit=runs, app=app)
    if 0 < runs < total:
        console.warn(f"only the newest {runs:,} of {total:,} runs are written; see --runs")
    sheets = [*run_sheets(found), *sheets_of(report)]
    if spreadsheet is not None and account is not None and to is ExportFormat.GOOGLE:
        try:
            from monitor.contrib.google_sheets import write_google  # an extra
        except ModuleNotFoundError:
            raise MissingExtraError("export to Google", "sheets") from None
        done = write_google(sheets, spreadsheet, account, api_url=api_url)
        changed = [item for item in done if item.added or item.renewed]
        said = ", ".join(f"{each.name} +{each.added:,} ~{each.renewed:,}" for each in changed)
        console.tell(said or "nothing is new")
    elif output is not None:
        (write_workbook if to is ExportFormat.XLSX else write_folder)(sheets, output)
    where = f"spreadsheet {spreadsheet}" if to is ExportFormat.GOOGLE else output
    rows = ", ".join(f"{sheet.name} {len(sheet.rows):,}" for sheet in sheets if sheet.rows)
    console.tell(f"written to {where}; rows: {rows or 'none'}")


def write_folder(sheets: Sequence[Sheet], folder: Path) -> None:
    """Write one file a sheet into *folder*, which is made when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for sheet in sheets:
        path = folder / f"{sheet.name}.csv"
        path.touch(mode=console.PRIVATE_FILE)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(sheet.columns)
            writer.writerows(sheet.rows)


def write_workbook(sheets: Sequence[Sheet], file: Path) -> None:
    """Write one workbook; raise MissingExtraError if openpyxl is not installed."""
    try:
        from openpyxl import Workbook  # an extra
    except ModuleNotFoundError:
        raise MissingExtraError("export to xlsx", "sheets") from None
    file.touch(mode=console.PRIVATE_FILE)
    # Opened first: a book that is begun and cannot be written leaves noise behind.
    with file.open("wb") as target:
        book = Workbook(write_only=True)
        for sheet in sheets:
            page = book.create_sheet(sheet.name)
            page.append(list(sheet.columns))
            for row in sheet.rows:
                page.append(list(row))
        book.save(target)
