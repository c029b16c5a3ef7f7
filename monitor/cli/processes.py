"""``groundwatch worker`` and ``groundwatch scheduler``: the processes, one at a time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Annotated

import typer

from monitor.cli.console import PRIVATE
from monitor.settings import Settings
from workers import processes as here
from workers.logs import configure_logs
from workers.readiness import worker_name
from workers.scheduler import Scheduler


def worker(
    processes: Annotated[
        int | None, typer.Option(min=1, help="Unset: GROUNDWATCH_WORKER_PROCESSES.")
    ] = None,
) -> None:
    """Score samples: a Celery worker, the same as `celery -A workers worker`."""
    os.umask(PRIVATE)
    here.check()
    settings = here.settings()
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
    here.check()
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    Scheduler(here.context()).run(stop)
    sys.exit(0)
