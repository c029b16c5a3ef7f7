"""All commands, in the order in which people need them; each is loaded when it is called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from monitor import __version__
from monitor.errors import own_words


class _Command(NamedTuple):
    module: str
    function: str
    summary: str  #: its line in the list of all; its own help says more


#: By what people want to do. A command's own imports cost a second or more; the list needs none.
PANELS = {
    "Start": {
        "demo": _Command("processes", "demo", "Play the whole loop in a minute."),
        "up": _Command("processes", "up", "Run everything on this machine."),
        "doctor": _Command("doctor", "doctor", "Check the set-up; say what to do."),
        "config": _Command("reference", "config", "List every setting and its value."),
    },
    "See how your apps are doing": {
        "status": _Command("status", "status", "Show the status of every app and metric."),
        "why": _Command("explain", "why", "Explain failures: cause, changes, failure modes."),
        "rerun": _Command("explain", "rerun", "Ask failing questions again, a component changed."),
        "plan": _Command("reference", "plan", "Plan the sample rate that finds a fall in time."),
        "samples": _Command("samples", "samples", "Find samples by text, result, user, time."),
        "report": _Command("status", "report", "Report what happened; send the digest."),
        "incidents": _Command("alerts", "incidents_app", "List, show, acknowledge incidents."),
        "open": _Command("status", "open_page", "Open the page of an app, incident or sample."),
        "alerts": _Command("alerts", "app", "Test, silence and route alerts."),
        "deploys": _Command("operations", "deploys", "Record and list deploys."),
        "export": _Command("samples", "export", "Export statuses and incidents."),
    },
    "Judge answers": {
        "replay": _Command("replay", "replay", "Send recorded answers through the hook."),
        "evaluate": _Command("score", "score", "Evaluate a file, without any server."),
        "metrics": _Command("reference", "metrics", "List every metric."),
        "label": _Command("labelling", "app", "Label answers as good or bad."),
        "check": _Command("labelling", "check", "Check with a few labels if answers got worse."),
    },
    "Before a release": {
        "eval": _Command("evaluation", "evaluate", "Run an app on a test set."),
        "gate": _Command("evaluation", "gate", "Decide whether a run or a release may go out."),
        "compare": _Command("explain", "compare", "Compare two runs or two variants."),
        "golden": _Command("evaluation", "golden_app", "Keep a golden set of reviewed cases."),
        "synthesize": _Command("evaluation", "synthesize", "Write test cases from documents."),
    },
    "Run the parts": {
        "worker": _Command("processes", "worker", "Run a worker that scores samples."),
        "scheduler": _Command(
            "processes", "scheduler", "Run the process that decides statuses and alerts."
        ),
        "web": _Command("processes", "web", "Serve the page and the JSON API."),
        "tokens": _Command("operations", "tokens_app", "Create and revoke tokens."),
        "otlp": _Command("processes", "otlp", "Receive OpenTelemetry traces."),
        "migrate": _Command("processes", "migrate", "Create or upgrade the tables."),
        "dead-letters": _Command(
            "operations", "dead_letters_app", "Inspect dead letters; retry or drop."
        ),
        "backup": _Command("operations", "backup", "Copy the store to a file while it runs."),
        "forget": _Command("operations", "forget", "Delete the texts of one user."),
    },
}
COMMANDS = {name: each for panel in PANELS.values() for name, each in panel.items()}

#: Names of earlier releases, which still work, and what to write now.
RENAMED = {
    "mark": "deploys", "poison": "dead-letters", "score": "evaluate",
    "show": "status APP METRIC", "digest": "report --digest",
}  # fmt: skip
#: What kept its old options.
_OLD = {
    "show": _Command("status", "show", ""), "digest": _Command("status", "digest", ""),
}  # fmt: skip

#: Commands whose exit code is their answer: of these a mistake ends with 3, unknown.
_CODES_ANSWER = frozenset({"check", "gate", "status"})


class _LazyGroup(TyperGroup):
    """Finds commands by name, and imports only the one that is called."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """List the names, in the order of the table."""
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the list of all commands without importing any."""
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._is_listing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete names of commands without importing any."""
        self._is_listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._is_listing = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; for a name that is none, name the one that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            close = get_close_matches(args[0], COMMANDS, n=1)
            if close and (said := getattr(error, "message", "")):
                error.message = f"{said} Did you mean '{close[0]}'?"  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run a command; report what is wrong with a value without pydantic's own prefix."""
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise  # --help is not a mistake, and an answer has its own code
        except Exception as error:
            if said := getattr(error, "message", ""):
                error.message = own_words(said)  # type: ignore[attr-defined]
            if ctx.invoked_subcommand in _CODES_ANSWER:
                error.exit_code = 3  # type: ignore[attr-defined]
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Load one command."""
        if now := RENAMED.get(cmd_name, ""):
            typer.echo(f"groundwatch: {cmd_name!r} is now: groundwatch {now}", err=True)
        found = COMMANDS.get(cmd_name) or _OLD.get(cmd_name) or COMMANDS.get(now)
        if found is None:
            return None
        module, function, summary = found
        if self._is_listing:
            [panel] = [title for title, named in PANELS.items() if cmd_name in named]
            return TyperCommand(cmd_name, help=summary, rich_help_panel=panel)
        target = getattr(import_module(f"monitor.cli.{module}"), function)
        if isinstance(target, typer.Typer):
            group = typer.main.get_command(target)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(cmd_name)(target)
        return typer.main.get_command(single)


app = typer.Typer(
    name="groundwatch",
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tells you, with a stated confidence, that your LLM app's answers got worse.",
)


def show_version(asked: bool) -> None:
    """Print the version and end, when *asked*."""
    if asked:
        typer.echo(f"groundwatch {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _version_asked: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Asynchronous production monitor for LLM and RAG applications."""
