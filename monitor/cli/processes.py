"""The processes: ``up`` runs all of them; ``worker``, ``scheduler``, ``web`` and ``otlp`` one."""
# ruff: noqa: PLC0415 - a process loads what it runs, and not what the others need

from __future__ import annotations

import gc
import getpass
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import console
from monitor.cli.console import err, out
from monitor.errors import GroundwatchError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from rich.table import Table

    from monitor.settings import Settings
    from workers.stack import Stack

#: How long requests under way may take to end after SIGTERM.
_LONGEST_END_S = 5
_SHORTEST_PASSWORD = 12
_MEGABYTE = 1024 * 1024
_HINT_EVERY_S = 5.0
#: Celery's name for: the title of a process is not yours.
_KEEP_TITLE = "NOSETPS"
#: What the services import, loaded once before they are forked.
_PRELOADED = (
    *("celery.bin.worker", "celery.apps.worker", "celery.concurrency.prefork", "celery.app.trace"),
    *("kombu.transport.redis", "uvicorn", "monitor.web.app", "workers.scheduler"),
)


def up(
    processes: Annotated[int | None, typer.Option(min=1, help="Processes of the worker.")] = None,
    page: Annotated[bool, typer.Option(help="Serve the page as well.")] = True,
) -> None:
    """Run Redis, a worker, the scheduler and the page; stop all with one Ctrl-C."""
    from monitor.store.engine import Store
    from monitor.store.schema import migrate
    from monitor.web.auth import check_address
    from workers.context import Components
    from workers.stack import announced, plan_stack
    from workers.supervise import Supervisor

    os.umask(console.PRIVATE)
    settings = console.read_settings()
    os.environ[_KEEP_TITLE] = "1"  # noqa: TID251
    environment = dict(os.environ)  # noqa: TID251
    if processes is not None:
        environment["GROUNDWATCH_WORKER_PROCESSES"] = str(processes)
    # Mistakes in the settings are found before anything is started.
    if page:
        check_address(settings, settings.web_host)
    context = Components(settings)
    _ = context.scorer, context.wiring
    context.close()
    with closing(Store(settings.sql_url)) as store:
        migrate(store)
        where = store.engine.url.render_as_string(hide_password=True)

    def show_event(name: str, what: str) -> None:
        style = "dim" if what in {"ready", "restarted"} else "yellow"
        out.print(f"{datetime.now(UTC):%H:%M:%S}  {name:<10} {what}", style=style)

    for module in _PRELOADED:
        import_module(module)
    # Objects that no collection touches stay in memory that all forks share.
    gc.collect()
    gc.freeze()
    stack = plan_stack(settings, environment, with_page=page, main=_begin_anew)
    with announced(settings, stack):
        supervisor = Supervisor(stack.services, listener=show_event)
        supervisor.start()
        try:
            stop = _stop_on_signals()
            out.print(_what_runs(settings, stack, where))
            supervisor.watch(stop, beside=partial(next, _hints_until_scored(settings), None))
        finally:
            out.print("stopping; the worker finishes its current samples ...", style="dim")
            supervisor.stop()
    out.print("stopped", style="dim")


def _what_runs(settings: Settings, stack: Stack, where: str) -> Table:
    """Lay out where everything is, what scores, and what to do next."""
    from rich.table import Table

    from monitor.scoring.metric_config import unmet_needs
    from monitor.scoring.registry import describe_scorer, resolve_metrics, small_budgets
    from monitor.settings import masked_url

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("Redis", f"{masked_url(stack.redis_url)}  ({stack.redis_kind})")
    table.add_row("store", where)
    table.add_row("data", str(settings.home))
    table.add_row("logs", str(stack.logs))
    table.add_row("scorer", f"{', '.join(settings.metrics)} by {describe_scorer(settings)}")
    for name, needs in unmet_needs(resolve_metrics(settings), settings).items():
        table.add_row(name, f"needs {needs} to be scored", style="yellow")
    for words in small_budgets(settings):
        table.add_row("judge budget", words, style="yellow")
    table.add_row("alerts to", alert_recipients(settings))
    table.add_row("", "")
    table.add_row("in your app", 'groundwatch.init(app="NAME", sample_rate=1.0)')
    table.add_row("", "groundwatch.sample(query=..., contexts=..., output=...)")
    if stack.page_url:
        note = f"  ({stack.page_note})" if stack.page_note else ""
        table.add_row("the page", f"{stack.page_url}{note}")
    table.add_row("statuses", "groundwatch status --watch")
    table.add_row("to stop", "Ctrl-C")
    return table


def _begin_anew() -> None:
    """Run the command line in a fork; its consoles write to a log, not to the terminal of `up`."""
    for name in [name for name in sys.modules if name.startswith("monitor.cli")]:
        del sys.modules[name]
    import_module("monitor.cli").main()


def _hints_until_scored(settings: Settings) -> Iterator[None]:
    """Print what came, and what to set, until something is scored; once for each state."""
    from monitor.report.words import first_run_hint
    from workers.reports import read_status

    said: set[tuple[str, bool]] = set()
    look_at_s = 0.0
    while True:
        yield
        if time.monotonic() < look_at_s:
            continue
        look_at_s = time.monotonic() + _HINT_EVERY_S
        # No connection stays open: the next service that dies is restarted by a fork.
        with suppress(GroundwatchError), closing(console.open_store(settings)) as store:
            apps = read_status(store, settings, now=datetime.now(UTC)).apps
            if any(app.ledger.scored for app in apps):
                return
            for app in apps:
                state = (app.app, app.ledger.sampled > 0)
                hint = first_run_hint(app.app, app.ledger, settings.min_n)
                if hint and state not in said:
                    console.say(hint, style="yellow")
                    said.add(state)


def alert_recipients(settings: Settings) -> str:
    """Return in words to whom alerts may go: by channels of the settings and the routes file."""
    from alerts.dispatch import channels_from, wiring_from

    ways = ["Slack"] if settings.slack_webhook_url else []
    ways += [", ".join(settings.email_to)] if settings.smtp_url else []
    if settings.alerts_file is not None:
        of_settings = channels_from(settings)
        declared = sorted(wiring_from(settings).channels.keys() - of_settings)
        ways += [f"{', '.join(declared)} (of {settings.alerts_file})"] if declared else []
    return " and ".join(ways) or (
        "nobody yet: set GROUNDWATCH_SLACK_WEBHOOK_URL, or GROUNDWATCH_SMTP_URL and _EMAIL_TO"
    )


def worker(
    processes: Annotated[
        int | None, typer.Option(min=1, help="Unset: GROUNDWATCH_WORKER_PROCESSES.")
    ] = None,
) -> None:
    """Score samples: a Celery worker, the same as `celery -A workers worker`."""
    from monitor.scoring.metric_config import unmet_needs
    from monitor.scoring.registry import resolve_metrics
    from workers.context import worker_context
    from workers.stack import worker_name

    os.umask(console.PRIVATE)
    worker_context().check()
    settings = worker_context().settings
    for name, needs in unmet_needs(resolve_metrics(settings), settings).items():
        console.warn(f"{name} needs {needs} to be scored")
    os.environ[_KEEP_TITLE] = "1"  # noqa: TID251
    from celery.worker import state

    from workers.celery import app

    app.worker_main(
        [
            *("--quiet", "worker", "--without-gossip", "--without-mingle"),
            *("--pool", "prefork", "--concurrency", str(processes or settings.worker_processes)),
            *("--loglevel", settings.log_level.upper(), "--hostname", worker_name(os.getpid())),
        ]
    )
    # Celery keeps to itself what a worker ended with.
    sys.exit(state.should_stop or 0)


def scheduler() -> None:
    """Collect counters, compute statuses, decide alerts and deliver them."""
    from workers.context import configure_logs, worker_context
    from workers.scheduler import Scheduler

    os.umask(console.PRIVATE)
    configure_logs(console.read_settings())
    worker_context().check()
    Scheduler(worker_context()).run(_stop_on_signals())
    sys.exit(0)


def _stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    return stop


def migrate() -> None:
    """Create or upgrade the tables of the store; safe to run at any time."""
    from monitor.store.engine import Store
    from monitor.store.schema import migrate as upgrade

    os.umask(console.PRIVATE)
    with closing(Store(console.read_settings().sql_url)) as store:
        before, after = upgrade(store)
        where = store.engine.url.render_as_string(hide_password=True)
    is_new = before != after
    said = (
        f"migrated from {before or 'nothing'} to {after}" if is_new else f"is up to date ({after})"
    )
    console.say(f"{where} {said}")


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Show each state only briefly.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder, with its logs.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Save the final screen as an SVG.")] = None,
) -> None:
    """
    Show the whole loop in a minute: healthy, degraded, recovered, and the report.

    Exit code 0 only if all that it shows happened.
    """
    from monitor.demo.story import run

    if not run(quick=quick, keep=keep, picture=picture):
        raise typer.Exit(1)


def web(
    host: Annotated[str | None, typer.Option(help="Unset: GROUNDWATCH_WEB_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Unset: GROUNDWATCH_WEB_PORT.")
    ] = None,
    token_for: Annotated[
        str | None, typer.Option("--new-token", help="NAME:ROLE: create a bearer token, then exit.")
    ] = None,
    password_for: Annotated[
        str | None,
        typer.Option(
            "--new-password",
            help="NAME:ROLE, or NAME:ROLE:APP+APP for some apps only; hash a password, then exit.",
        ),
    ] = None,
    document: Annotated[
        bool, typer.Option("--openapi", help="Print the API's OpenAPI document, then exit.")
    ] = False,
) -> None:
    """Serve the web page and the JSON API."""
    if token_for or password_for:
        _make_entry(token_for, password_for)
        return
    if document:
        from monitor.web.schema import openapi

        typer.echo(json.dumps(openapi(), indent=1, ensure_ascii=False))
        return
    import uvicorn

    from monitor.settings import variable
    from monitor.web.app import make_app
    from monitor.web.auth import check_address
    from monitor.web.site import Site
    from workers.context import configure_logs

    os.umask(console.PRIVATE)
    settings = console.read_settings()
    configure_logs(settings)
    host, port = host or settings.web_host, settings.web_port if port is None else port
    check_address(settings, host)
    with closing(console.open_store(settings)) as store:
        # Opened before it is announced: an early request waits until the page serves.
        listener = _listen(host, port, variable("web_port"))
        shown = listener.getsockname()
        address = f"http://{f'[{shown[0]}]' if ':' in shown[0] else shown[0]}:{shown[1]}/"
        err.print(f"the page is at {address}", soft_wrap=True)
        # Whose address a proxy names is for monitor.web.auth to judge.
        config = uvicorn.Config(
            make_app(Site(store, settings)), log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=_LONGEST_END_S,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int, choice: str) -> socket.socket:
    """Return a socket that listens there; *choice* is where another port can be named."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]
        raise SettingsError(
            f"cannot listen on {host} port {port}: {why}; choose another with {choice}"
        ) from None


def _make_entry(token_for: str | None, password_for: str | None) -> None:
    from monitor.settings import variable
    from monitor.web.auth import Role, new_token, password_entry

    text = token_for or password_for or ""
    name, role_name, *apps = text.split(":", 2) if ":" in text else (text, "")
    if not name or "," in name or role_name.upper() not in Role.__members__ or (apps and token_for):
        raise typer.BadParameter(f"{text!r}: write NAME:ROLE, a role is viewer, reader or operator")
    role = Role[role_name.upper()]
    if token_for:
        token, entry = new_token(role, name)
        err.print("your token, shown only once:")
        typer.echo(token)
        err.print(f"add to {variable('web_tokens')}:")
    else:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if len(password) < _SHORTEST_PASSWORD:
            raise typer.BadParameter(f"the password needs {_SHORTEST_PASSWORD} characters or more")
        entry = password_entry(name, role, password, apps[0].split("+") if apps else ())
        err.print(f"add to {variable('web_users')}:")
    typer.echo(entry)


def otlp(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 4318,
    host: Annotated[
        str, typer.Option(help="Address; any but loopback needs GROUNDWATCH_OTLP_TOKEN.")
    ] = "127.0.0.1",
    app: Annotated[
        str | None, typer.Option(help="Name of the app; unset: each span's service.name.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds without new spans after which a trace is complete."),
    ] = 60.0,
    max_mb: Annotated[int, typer.Option(min=1, help="Largest request in MB, decompressed.")] = 16,
) -> None:
    """Receive OTLP/HTTP traces and sample the interactions in them."""
    from monitor.settings import variable
    from monitor.settings.kinds import is_loopback

    try:
        import uvicorn
    except ModuleNotFoundError:
        raise MissingExtraError("the OTLP receiver", "otlp") from None
    from monitor.ingest import OtlpReceiver, Services
    from workers.context import configure_logs

    settings = console.read_settings()
    configure_logs(settings)
    token = settings.otlp_token.get_secret_value() if settings.otlp_token else None
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"{host} is not this machine's own address, and whoever reaches it could send"
            f" interactions: set {variable('otlp_token')}, or listen on 127.0.0.1"
        )
    services = Services(app)
    if app is not None:
        with console.usage_errors():
            services.hook({})
    receiver = OtlpReceiver(services, wait_s=wait, most_bytes=max_mb * _MEGABYTE, token=token)
    config = uvicorn.Config(
        receiver.app(), log_config=None, access_log=False,
        timeout_graceful_shutdown=_LONGEST_END_S,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[_listen(host, port, "--port")])
