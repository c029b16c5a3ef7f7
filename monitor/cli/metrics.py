"""``groundwatch metrics``: every metric that can be named, and what it needs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.config import Format
from monitor.cli.console import out
from monitor.report.format import plain_text
from monitor.report.listing import Listing
from monitor.scoring.metric_config import known_metrics, manual
from monitor.scoring.own_metrics import read_metrics_file
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
    listed = Listing.of("metric", "better", "cost", "needs", "what it is")
    for name, metric in known_metrics(read_metrics_file(settings.metrics_file)).items():
        declared = metric.declaration
        listed.add_row(
            name,
            declared.direction.value,
            declared.cost.value,
            ", ".join(declared.requires),
            Text(plain_text(declared.what)),
            style="bold" if name in settings.metrics else "",
        )
    out.print(listed)
