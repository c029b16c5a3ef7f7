"""``groundwatch open``: the page of an app, a metric, an incident or a sample."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer
from sqlalchemy import Connection

from alerts.queries import incidents_named
from monitor.cli.console import open_store
from monitor.errors import SettingsError
from monitor.report.format import plain_text
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.samples import read_sample
from monitor.web.time_range import app_path, incident_path, metric_path, sample_path
from workers.reports import read_status
from workers.stack import page_url_file


def open_page(
    what: Annotated[
        str, typer.Argument(help="An app, or the id of an incident or a sample; else the page.")
    ] = "",
    metric: Annotated[str, typer.Argument(help="A metric of the app.")] = "",
    print_: Annotated[
        bool, typer.Option("--print", help="Print the address only; so does a pipe.")
    ] = False,
) -> None:
    """Print the address of a page, and open it in the browser."""
    settings = Settings.from_env()
    with closing(open_store(settings)) as store, store.read() as connection:
        path = _path(connection, store, settings, what, metric) if what else "/"
    base = str(settings.report_url or "")
    if not base:
        # `up` may have found its usual port taken, and wrote down where its page is.
        file = page_url_file(settings.home)
        usual = f"http://{settings.web_host}:{settings.web_port}/"
        base = file.read_text(encoding="utf-8").strip() if file.exists() else usual
    url = base.rstrip("/") + path
    typer.echo(url)
    if not print_ and sys.stdout.isatty():
        typer.launch(url)


def _path(connection: Connection, store: Store, settings: Settings, what: str, metric: str) -> str:
    apps = {item.app for item in read_status(store, settings, now=datetime.now(UTC)).apps}
    if what in apps:
        return metric_path(what, metric) if metric else app_path(what)
    incidents = incidents_named(connection, what)
    if len(incidents) == 1:
        return incident_path(incidents[0].incident_id)
    if read_sample(connection, what) is not None:
        return sample_path(what)
    there = ", ".join(plain_text(name, 40) for name in sorted(apps)[:10]) or "none yet"
    raise SettingsError(
        f"no app, incident or sample is named {plain_text(what, 64)!r}; apps: {there}"
    )
