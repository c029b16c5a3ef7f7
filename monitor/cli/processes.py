"""``groundwatch worker`` and ``groundwatch scheduler``: the processes, one at a time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import PRIVATE, out
from monitor.demo.story import run
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.engine import migrate as run_migrations
from workers.context import configure_logs, worker_context
from workers.scheduler import Scheduler
from workers.stack import worker_name


def worker(
    processes: Annotated[
        int | None, typer.Option(min=1, help="Unset: GROUNDWATCH_WORKER_PROCESSES.")
    ] = None,
) -> None:
    """Score samples: a Celery worker, the same as `celery -A workers worker`."""
    os.umask(PRIVATE)
    worker_context().check()
    settings = worker_context().settings
    from celery.worker import state  # noqa: PLC0415

    from workers.celery import app  # noqa: PLC0415

    app.worker_main(
        [
            "--quiet",
            "worker",
            *("--pool", "prefork", "--concurrency", str(processes or settings.worker_processes)),
            *(
                "--loglevel",
                settings.log_level.upper(),
                "--hostname",
                worker_name(os.getpid()),
            ),
            *("--without-gossip", "--without-mingle"),
        ]
    )
    # Celery keeps to itself what a worker ended with.
    sys.exit(state.should_stop or 0)


def scheduler() -> None:
    """Collect counters, compute statuses, decide alerts and deliver them."""
    os.umask(PRIVATE)
    settings = Settings.from_env()
    configure_logs(settings)
    worker_context().check()
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    Scheduler(worker_context()).run(stop)
    sys.exit(0)


# --- demo ---
# ``groundwatch demo``: the whole loop on generated traffic.


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Show each state only briefly.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder, with its logs.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Save the screen, as it was at the end, as an SVG.")
    ] = None,
) -> None:
    """
    Show the whole loop in a minute: healthy, degraded, recovered, and the report.

    Exit code 0 only if all that it shows happened.
    """
    if not run(quick=quick, keep=keep, picture=picture):
        raise typer.Exit(1)


# --- migrate ---
# ``groundwatch migrate``: bring the tables of the store up to date.


def migrate() -> None:
    """Create or upgrade the tables of the store; safe to run at any time."""
    os.umask(PRIVATE)
    store = Store(Settings.from_env().sql_url)
    before, after = run_migrations(store)
    where = store.engine.url.render_as_string(hide_password=True)
    store.close()
    if before == after:
        out.print(Text(f"{where} is up to date ({after})"))
    else:
        out.print(Text(f"{where} migrated from {before or 'nothing'} to {after}"))
