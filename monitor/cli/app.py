"""All commands, in the order in which people need them."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor import __version__
from monitor.cli import (
    alerts,
    config,
    demo,
    doctor,
    migrate,
    processes,
    replay,
    report,
    score,
    status,
    up,
)

app = typer.Typer(
    name="groundwatch",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tells you, with a stated confidence, that your LLM app's answers got worse.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"groundwatch {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _version_asked: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Asynchronous production monitor for LLM and RAG applications."""


app.command("demo")(demo.demo)
app.command("up")(up.up)
app.command("status")(status.status)
app.command("report")(report.report)
app.command("replay")(replay.replay)
app.command("score")(score.score)
app.add_typer(alerts.app, name="alerts")
app.command("doctor")(doctor.doctor)
app.command("config")(config.config)
app.command("migrate")(migrate.migrate)
app.command("worker")(processes.worker)
app.command("scheduler")(processes.scheduler)
