"""``groundwatch report``: what happened in a stretch of time."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from monitor.cli.console import err, out, parse_duration_s
from monitor.cli.stores import check_app, open_store
from monitor.report.markdown import render_markdown
from monitor.report.model import Report
from monitor.report.text import render_report
from monitor.settings import Settings
from workers.facts import read_report

_FILE_WIDTH = 100


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"  #: one file that holds all it needs


def report(
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "24h",
    format: Annotated[Format, typer.Option(help="How it is written.")] = Format.TEXT,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.")
    ] = None,
) -> None:
    """Tell what happened: statuses, their course, alerts, worst samples, and the ledger."""
    window_s = parse_duration_s(window)
    settings = Settings.from_env()
    store = open_store(settings)
    check_app(store, settings, app)
    found = read_report(store, settings, now=datetime.now(UTC), window_s=window_s, app=app)
    if output is not None:
        output.write_text(_write(found, format, settings), encoding="utf-8")
        err.print(Text(f"written to {output}"))
    elif format is Format.TEXT:
        out.print(render_report(found))
    else:
        typer.echo(_write(found, format, settings), nl=False)


def _write(found: Report, form: Format, settings: Settings) -> str:
    if form is Format.JSON:
        return found.model_dump_json(indent=2) + "\n"
    if form is Format.MARKDOWN:
        return render_markdown(found)
    if form is Format.HTML:
        from monitor.web.charts import Lines  # noqa: PLC0415  # only here
        from monitor.web.onefile import render_html  # noqa: PLC0415

        lines = Lines(warning=settings.warning_rate, critical=settings.critical_rate)
        return render_html(found, lines)
    text = StringIO()
    Console(file=text, width=_FILE_WIDTH, no_color=True).print(render_report(found))
    return text.getvalue()
