"""``groundwatch export``: a report as sheets, for a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import err, parse_duration_s
from monitor.cli.stores import open_store
from monitor.errors import MissingExtraError
from monitor.report.sheets import Sheet, sheets_of
from monitor.settings import Settings
from workers.facts import read_report


class To(StrEnum):
    """What is written."""

    CSV = "csv"  #: a folder with one file a sheet
    XLSX = "xlsx"  #: one workbook


def export(
    to: Annotated[To, typer.Option(help="csv: a folder, one file a sheet; xlsx: a workbook.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder or file to write.")],
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "24h",
) -> None:
    """Write statuses, courses, incidents and changes as sheets."""
    window_s = parse_duration_s(window)
    settings = Settings.from_env()
    store = open_store(settings)
    found = read_report(store, settings, now=datetime.now(UTC), window_s=window_s, app=app)
    sheets = sheets_of(found)
    if to is To.XLSX:
        write_xlsx(sheets, output)
    else:
        write_csv(sheets, output)
    rows = ", ".join(f"{sheet.name} {len(sheet.rows):,}" for sheet in sheets)
    err.print(Text(f"written to {output}; rows: {rows}"), soft_wrap=True)


def write_csv(sheets: Sequence[Sheet], folder: Path) -> None:
    """Write one file a sheet into *folder*, which is made when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for sheet in sheets:
        with (folder / f"{sheet.name}.csv").open("w", newline="", encoding="utf-8") as file:
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
    book = Workbook(write_only=True)
    for sheet in sheets:
        page = book.create_sheet(sheet.name)
        page.append(list(sheet.columns))
        for row in sheet.rows:
            page.append(list(row))
    book.save(file)
