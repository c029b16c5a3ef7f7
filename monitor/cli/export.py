"""``groundwatch export``: a report as sheets, for a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import PRIVATE_FILE, check_app, err, open_store, parse_duration_s, warn
from monitor.errors import MissingExtraError
from monitor.report.sheets import Sheet, run_sheets, sheets_of
from monitor.settings import Settings
from monitor.store.insights import read_runs
from workers.reports import read_report


class To(StrEnum):
    """What is written."""

    CSV = "csv"  #: a folder with one file a sheet
    XLSX = "xlsx"  #: one workbook
    GOOGLE = "google-sheets"  #: a spreadsheet of Google


_MOST_RUNS = 10_000


def export(
    to: Annotated[
        To, typer.Option(help="csv: a folder, one file a sheet; xlsx: a workbook; google-sheets.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder or file to write.")
    ] = None,
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "24h",
    runs: Annotated[
        int, typer.Option(min=0, help="Most runs, the newest; 0: only sums.")
    ] = _MOST_RUNS,
    spreadsheet: Annotated[
        str | None, typer.Option(help="Id of the Google spreadsheet: between /d/ and /edit.")
    ] = None,
    account: Annotated[
        Path | None, typer.Option(help="Key file (JSON) of a Google service account.")
    ] = None,
    api_url: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Write runs, statuses, courses, incidents and changes as sheets."""
    if to is To.GOOGLE and (spreadsheet is None or account is None):
        raise typer.BadParameter("google-sheets needs --spreadsheet and --account")
    if to is not To.GOOGLE and output is None:
        raise typer.BadParameter(f"{to} needs --output: where to write")
    settings, now = Settings.from_env(), datetime.now(UTC)
    window_s = parse_duration_s(window)
    store = open_store(settings)
    check_app(store, settings, app)
    report = read_report(store, settings, now=now, window_s=window_s, app=app)
    with store.read() as connection:
        since = now - timedelta(seconds=window_s)
        found, total = read_runs(connection, since=since, limit=runs, app=app)
    if 0 < runs < total:
        warn(f"only the newest {runs:,} of {total:,} runs are written; see --runs")
    sheets = [*run_sheets(found), *sheets_of(report)]
    if spreadsheet is not None and account is not None and to is To.GOOGLE:
        try:
            from monitor.contrib.google_sheets import write_google  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise MissingExtraError("export to Google", "sheets") from None
        done = write_google(sheets, spreadsheet, account, api_url=api_url)
        changed = [item for item in done if item.added or item.renewed]
        said = ", ".join(f"{each.name} +{each.added:,} ~{each.renewed:,}" for each in changed)
        err.print(Text(said or "nothing is new"), soft_wrap=True)
    elif output is not None:
        (write_xlsx if to is To.XLSX else write_csv)(sheets, output)
    where = f"spreadsheet {spreadsheet}" if to is To.GOOGLE else output
    rows = ", ".join(f"{sheet.name} {len(sheet.rows):,}" for sheet in sheets if sheet.rows)
    err.print(Text(f"written to {where}; rows: {rows or 'none'}"), soft_wrap=True)


def write_csv(sheets: Sequence[Sheet], folder: Path) -> None:
    """Write one file a sheet into *folder*, which is made when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for sheet in sheets:
        path = folder / f"{sheet.name}.csv"
        path.touch(mode=PRIVATE_FILE)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(sheet.columns)
            writer.writerows(sheet.rows)


def write_xlsx(sheets: Sequence[Sheet], file: Path) -> None:
    """
    Write one workbook.

    Raises
    ------
    MissingExtraError
        If openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise MissingExtraError("export to xlsx", "sheets") from None
    file.touch(mode=PRIVATE_FILE)
    # Opened first: a book that is begun and cannot be written leaves noise behind.
    with file.open("wb") as target:
        book = Workbook(write_only=True)
        for sheet in sheets:
            page = book.create_sheet(sheet.name)
            page.append(list(sheet.columns))
            for row in sheet.rows:
                page.append(list(row))
        book.save(target)
