"""All commands, in the order in which people need them; each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from monitor import __version__


class _Command(NamedTuple):
    module: str
    function: str


#: A command's own imports cost a second or more; the others' need not be paid.
COMMANDS = {
    "demo": _Command("processes", "demo"),
    "up": _Command("processes", "up"),
    "status": _Command("status", "status"),
    "report": _Command("status", "report"),
    "digest": _Command("status", "digest"),
    "mark": _Command("operations", "mark"),
    "show": _Command("status", "show"),
    "export": _Command("export", "export"),
    "label": _Command("labelling", "app"),
    "check": _Command("check", "check"),
    "replay": _Command("replay", "replay"),
    "score": _Command("score", "score"),
    "eval": _Command("evaluation", "evaluate"),
    "golden": _Command("golden", "app"),
    "compare": _Command("compare", "compare"),
    "gate": _Command("gate", "gate"),
    "metrics": _Command("reference", "metrics"),
    "alerts": _Command("alerts", "app"),
    "doctor": _Command("doctor", "doctor"),
    "poison": _Command("operations", "dead_letters_app"),
    "forget": _Command("operations", "forget"),
    "config": _Command("reference", "config"),
    "migrate": _Command("processes", "migrate"),
    "worker": _Command("processes", "worker"),
    "scheduler": _Command("processes", "scheduler"),
    "web": _Command("processes", "web"),
    "otlp": _Command("processes", "otlp"),
}

#: Commands whose exit code is their answer.
_CODES_ANSWER = frozenset({"check", "gate", "status"})


@contextmanager
def _mistakes_end_unknown() -> Iterator[None]:
    """Let a mistake end with 3, unknown, rather than with 2."""
    try:
        yield
    except typer.Exit:
        raise  # --help is no mistake, and an answer has its own code
    except Exception as error:
        error.exit_code = 3  # type: ignore[attr-defined]
        raise


class _Unmistakable(TyperCommand):
    """A command whose exit code is its answer: a usage error must not look like one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as ever, but for the code of a mistake."""
        with _mistakes_end_unknown():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run as ever, but for the code of a mistake that is found then."""
        with _mistakes_end_unknown():
            return super().invoke(ctx)


class _LazyGroup(TyperGroup):
    """Finds commands by name, and imports only the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """List the names, in the order of the table."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; for a name that is none, name the one that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            close = get_close_matches(args[0], COMMANDS, n=1)
            if close and (said := getattr(error, "message", "")):
                error.message = f"{said} Did you mean '{close[0]}'?"  # type: ignore[attr-defined]
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name]
        target = getattr(import_module(f"monitor.cli.{module}"), function)
        if isinstance(target, typer.Typer):
            group = typer.main.get_command(target)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(cmd_name, cls=_Unmistakable if cmd_name in _CODES_ANSWER else None)(target)
        return typer.main.get_command(single)


app = typer.Typer(
    name="groundwatch",
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
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
