"""``groundwatch up``: all of it on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from alerts.channels.declared import channels_from
from alerts.routes_file import wiring_from
from monitor.cli.console import PRIVATE, out
from monitor.settings import Settings, masked_url
from monitor.store.engine import Store, migrate
from monitor.web.access import check_address
from workers.context import Context
from workers.stack import announced, plan_stack
from workers.supervise import Supervisor


def up(
    processes: Annotated[int | None, typer.Option(min=1, help="Processes of the worker.")] = None,
    page: Annotated[bool, typer.Option(help="Serve the page as well.")] = True,
) -> None:
    """Run Redis, a worker, the scheduler and the page; stop all with one Ctrl-C."""
    os.umask(PRIVATE)
    settings = Settings.from_env()
    environment = dict(os.environ)  # noqa: TID251
    if processes is not None:
        environment["GROUNDWATCH_WORKER_PROCESSES"] = str(processes)
    _check(settings, with_page=page)
    stack = plan_stack(settings, environment, with_page=page)
    stop = threading.Event()
    with announced(settings, stack):
        supervisor = Supervisor(stack.services, listener=_say)
        supervisor.start()
        try:
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, lambda *_: stop.set())
            store = Store(settings.sql_url)
            table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
            table.add_row("Redis", f"{masked_url(stack.redis_url)}  ({stack.redis_kind})")
            table.add_row("store", store.engine.url.render_as_string(hide_password=True))
            table.add_row("data", str(settings.home))
            table.add_row("logs", str(stack.logs))
            table.add_row("scorer", settings.scorer + f", {', '.join(settings.metrics)}")
            table.add_row("alerts to", who_is_told(settings))
            table.add_row("", "")
            table.add_row("in your app", "monitor.sample(query=..., contexts=..., output=...)")
            if stack.page_url:
                table.add_row("the page", stack.page_url)
            table.add_row("to look", "groundwatch status --watch")
            table.add_row("to stop", "Ctrl-C")
            out.print(table)
            supervisor.watch(stop)
        finally:
            out.print("stopping; the worker finishes what it has in work ...", style="dim")
            supervisor.stop()
    out.print("stopped", style="dim")


def _check(settings: Settings, *, with_page: bool) -> None:
    """Find mistakes in the settings before anything is started."""
    if with_page:
        check_address(settings, settings.web_host)
    context = Context(settings)
    _ = context.scorer, context.channels, context.recipients
    context.close()
    store = Store(settings.sql_url)
    migrate(store)
    store.close()


def _say(name: str, what: str) -> None:
    style = "dim" if what in {"ready", "restarted"} else "yellow"
    out.print(f"{datetime.now(UTC):%H:%M:%S}  {name:<10} {what}", style=style)


def who_is_told(settings: Settings) -> str:
    """Name everyone whom alerts may go to: of the settings, and of the routes file."""
    ways = ["Slack"] if settings.slack_webhook_url else []
    ways += [", ".join(settings.email_to)] if settings.smtp_url else []
    if settings.alerts_file is not None:
        of_settings = channels_from(settings)
        declared = sorted(wiring_from(settings).channels.keys() - of_settings)
        ways += [f"{', '.join(declared)} (of {settings.alerts_file})"] if declared else []
    return " and ".join(ways) or (
        "nobody yet: set GROUNDWATCH_SLACK_WEBHOOK_URL, or GROUNDWATCH_SMTP_URL and _EMAIL_TO"
    )
