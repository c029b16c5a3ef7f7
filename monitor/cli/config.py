"""``groundwatch config``: every setting, what it is now and where that comes from."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from monitor.cli.console import out
from monitor.report.listing import Listing
from monitor.report.words import setting_value
from monitor.settings import FILE_SUFFIX, PREFIX, Settings, variable


class Format(StrEnum):
    """How the settings are listed."""

    TEXT = "text"  #: as they are now
    MARKDOWN = "md"  #: with their defaults, for the manual


def config(
    form: Annotated[
        Format, typer.Option("--format", help="text: as they are now; md: the manual's table.")
    ] = Format.TEXT,
) -> None:
    """List every setting with its value, secrets masked; those that you set are marked."""
    if form is Format.MARKDOWN:
        typer.echo(manual(), nl=False)
        return
    settings = Settings.from_env()
    listed = Listing.of("variable", "value", "what it is")
    for name, field in Settings.model_fields.items():
        key = variable(name)
        is_set = key in os.environ or key + FILE_SUFFIX in os.environ  # noqa: TID251
        listed.add_row(
            key,
            Text(setting_value(getattr(settings, name))),
            Text(field.description or ""),
            style="bold" if is_set else "",
        )
    out.print(listed)


def manual() -> str:
    """Write the manual's page on settings: name, default and meaning of each."""
    lines = [
        "# Settings",
        "",
        "One environment variable each. A secret may come from a file: put the file's path into",
        (
            f"the variable with `{FILE_SUFFIX}` behind its name."
            f" A variable that begins with `{PREFIX}`"
        ),
        "and is not listed here is refused, so that a misspelt one is noticed.",
        "",
        "| variable | default | what it is |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, ()) else f"`{_plain(field.default)}`"
        lines.append(f"| `{variable(name)}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
