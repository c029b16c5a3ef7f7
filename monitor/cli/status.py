"""``groundwatch status``: how everything is, at a glance; the exit code says it to scripts."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.live import Live

from monitor.cli.console import out
from monitor.cli.stores import check_app, open_store
from monitor.report.build import exit_code
from monitor.report.model import Report
from monitor.report.text import render_status
from monitor.settings import Settings
from monitor.store.engine import Store
from workers.facts import read_status

_EVERY_S = 2.0


def status(
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay, and keep it fresh.")] = False,
) -> None:
    """
    Show the status of every app and metric.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 unknown (too little data, blind, no store).
    """
    settings = Settings.from_env()
    store = open_store(settings)
    check_app(store, settings, app)
    report = read_status(store, settings, now=datetime.now(UTC), app=app)
    if json:
        typer.echo(report.model_dump_json(indent=2))
    elif watch:
        report = _watch(store, settings, report, app)
    else:
        out.print(render_status(report))
    raise typer.Exit(exit_code([item.status for item in report.apps]))


def _watch(store: Store, settings: Settings, report: Report, app: str | None) -> Report:
    with Live(render_status(report), console=out, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(_EVERY_S)
                report = read_status(store, settings, now=datetime.now(UTC), app=app)
                live.update(render_status(report), refresh=True)
        except KeyboardInterrupt:
            return report
