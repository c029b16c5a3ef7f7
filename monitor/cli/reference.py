"""What there is to set and to score: ``groundwatch config`` and ``groundwatch metrics``."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from monitor.cli import console
from monitor.report.format import plain_text, setting_value


class ListFormat(StrEnum):
    """How the settings are listed."""

    TEXT = "text"  #: as they are now
    MARKDOWN = "md"  #: with their defaults, for the manual


def config(
    form: Annotated[
        ListFormat,
        typer.Option("--format", help="text: current values; md: the page of the manual."),
    ] = ListFormat.TEXT,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from their default.")
    ] = False,
    as_json: console.AsJson = False,
) -> None:
    """List every setting with its value, secrets masked; bold ones are set by you."""
    from monitor.settings import FILE_SUFFIX, TABLE_OF, setting_field, variable

    if form is ListFormat.MARKDOWN:
        typer.echo(manual(), nl=False)
        return
    settings = console.read_settings()
    values = {name: settings.value_of(name) for name in TABLE_OF}
    names = [
        name
        for name, value in values.items()
        if not changed or value != setting_field(name).get_default()
    ]
    if as_json:
        console.print_json({variable(name): setting_value(values[name]) for name in names})
        return

    def style(name: str) -> str:
        is_set = {variable(name), variable(name) + FILE_SUFFIX} & os.environ.keys()  # noqa: TID251
        return "bold" if is_set else ""

    console.print_rows(names, {
        "variable": variable,
        "value": lambda name: setting_value(values[name]),
        "what it is": lambda name: setting_field(name).description or "",
    }, none="every setting has its default", style=style)  # fmt: skip


_SETTINGS_HEAD = """# Settings

Set what you need as environment variables or in a file, `groundwatch.toml`.
Variables win.

- The file is read from the current directory, or from the path in `GROUNDWATCH_CONFIG`.
  Keys are the variables' names in lower case, without the prefix; a table's settings go
  under its name:

  ```toml
  app = "support-bot"
  sample_rate = 0.05

  [retention]
  keep_texts_days = 14
  ```
- Secrets are read from variables only. To read one from a file, put the file's path into
  the variable with `_FILE` appended to its name.
- An unknown name is refused, so a misspelt setting cannot go unnoticed."""
_TABLE_HEAD = ["| variable | default | what it is |", "|---|---|---|"]


def manual() -> str:
    """Return the manual's page on settings: name, default and meaning of each, by topic."""
    from monitor.settings import TABLE_OF, Settings
    from monitor.settings.fields import TOPICS

    lines = [_SETTINGS_HEAD]
    for topic, names in TOPICS.items():
        lines += ["", f"## {topic}", "", *_TABLE_HEAD]
        lines += [_row(name) for name in names if name in TABLE_OF]
        for table in (name for name in names if name not in TABLE_OF):
            what = Settings.model_fields[table].description or ""
            lines += ["", f"### Table `[{table}]`", "", what, *_TABLE_HEAD]
            lines += [_row(name) for name, inside in TABLE_OF.items() if inside == table]
    return "\n".join(lines) + "\n"


def _row(name: str) -> str:
    from monitor.settings import setting_field, variable

    field = setting_field(name)
    value = field.default
    if isinstance(value, bool):
        shown = str(value).lower()
    else:
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    default = "" if value in (None, ()) else f"`{shown}`"
    return f"| `{variable(name)}` | {default} | {field.description} |"


def metrics(
    form: Annotated[
        ListFormat,
        typer.Option("--format", help="text: with your own metrics; md: the page of the manual."),
    ] = ListFormat.TEXT,
    as_json: console.AsJson = False,
) -> None:
    """List every metric; bold ones are scored now."""
    from monitor.scoring.metric_config import known_metrics, read_metrics_file
    from monitor.scoring.metric_config import manual as metrics_manual

    if form is ListFormat.MARKDOWN:
        typer.echo(metrics_manual(), nl=False)
        return
    settings = console.read_settings()
    known = known_metrics(read_metrics_file(settings.metrics_file))
    console.print_rows([*known.items()], {
        "metric": lambda item: item[0],
        "better": lambda item: item[1].declaration.direction.value,
        "cost": lambda item: item[1].declaration.cost.value,
        "needs": lambda item: ", ".join(item[1].declaration.requires),
        "what it is": lambda item: plain_text(item[1].declaration.what),
    }, as_json=as_json, json_of=lambda item: {
        "metric": item[0], "better": item[1].declaration.direction.value,
        "cost": item[1].declaration.cost.value, "needs": list(item[1].declaration.requires),
        "is_scored": item[0] in settings.metrics, "what": plain_text(item[1].declaration.what),
    }, style=lambda item: "bold" * (item[0] in settings.metrics))  # fmt: skip
