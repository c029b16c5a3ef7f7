"""
Write the generated pages of docs/reference: the command line and the HTTP API.

Run: python docs/reference.py. A test compares the pages with what this makes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.main import get_command

from monitor.cli.app import app

FOLDER = Path(__file__).parent


def cli_page() -> str:
    """Return the page of the command line, a section a command."""
    lines = [
        "# Command line",
        "",
        "Every command explains itself: `groundwatch COMMAND --help`.",
        "",
    ]
    _add(lines, get_command(app), "groundwatch")
    return "\n".join(lines).rstrip() + "\n"


def _add(lines: list[str], group: Any, path: str) -> None:
    context = group.make_context(path, [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        full = f"{path} {name}"
        lines += [f"{'#' * min(4, full.count(' ') + 1)} {full}", "", _text(command.help), ""]
        options = [
            p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)
        ]
        if options:
            lines += ["| option | meaning | default |", "|---|---|---|"]
            for option in options:
                shown = ", ".join(f"`{one}`" for one in option.opts + option.secondary_opts)
                if option.param_type_name == "argument":
                    shown = f"`{(option.metavar or option.name or '').strip('[]').upper()}`"
                default = option.default
                given = default not in (None, False, True, ()) and not callable(default)
                value = f"`{getattr(default, 'value', default)}`" if given else ""
                lines.append(f"| {shown} | {_text(getattr(option, 'help', ''))} | {value} |")
            lines.append("")
        if hasattr(command, "list_commands"):
            _add(lines, command, full)


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("\b", "").split()).replace("|", "\\|")


def http_page() -> str:
    """Return the page of the HTTP API, a line an operation."""
    document = json.loads((FOLDER / "openapi.json").read_text(encoding="utf-8"))
    lines = [
        "# HTTP API",
        "",
        "Served by the page (`groundwatch web`, `groundwatch up`). The whole description is at",
        "`/api/v1/openapi.json`; errors are `application/problem+json`.",
        "",
        "| method | path | what it does | parameters |",
        "|---|---|---|---|",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = ", ".join(f"`{p['name']}`" for p in operation.get("parameters", []))
            lines.append(
                f"| {method.upper()} | `{path}` | {_text(operation['summary'])} | {names} |"
            )
    return "\n".join(lines) + "\n"


PAGES = {"cli.md": cli_page, "http.md": http_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / "reference" / name).write_text(page(), encoding="utf-8")
