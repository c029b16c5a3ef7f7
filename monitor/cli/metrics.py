"""``groundwatch metrics``: every metric that can be named, and what it needs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from monitor.cli.config import Format
from monitor.cli.console import out
from monitor.report.words import harmless
from monitor.scoring.choosing import known_metrics
from monitor.scoring.listing import manual
from monitor.scoring.metrics_file import read_metrics_file
from monitor.settings import Settings


def metrics(
    form: Annotated[
        Format, typer.Option("--format", help="text: with your own; md: the manual's table.")
    ] = Format.TEXT,
) -> None:
    """List every metric; those that are scored now are marked."""
    if form is Format.MARKDOWN:
        typer.echo(manual(), nl=False)
        return
    settings = Settings.from_env()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("metric", "better", "cost", "needs", "what it is"):
        table.add_column(name, no_wrap=name == "metric", overflow="fold")
    for name, metric in known_metrics(read_metrics_file(settings.metrics_file)).items():
        declared = metric.declaration
        table.add_row(
            name,
            declared.direction.value,
            declared.cost.value,
            ", ".join(declared.requires),
            Text(harmless(declared.what)),
            style="bold" if name in settings.metrics else "",
        )
    out.print(table)
