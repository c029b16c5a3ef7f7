"""``groundwatch config``: every setting, what it is now and where that comes from."""

from __future__ import annotations

import os
from typing import Any

from pydantic import SecretStr
from rich.table import Table

from monitor.cli.console import out
from monitor.settings import FILE_SUFFIX, Settings, variable


def config() -> None:
    """List every setting with its value, secrets masked; those that you set are marked."""
    settings = Settings.from_env()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("variable", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("what it is", overflow="fold")
    for name, field in Settings.model_fields.items():
        key = variable(name)
        is_set = key in os.environ or key + FILE_SUFFIX in os.environ  # noqa: TID251
        table.add_row(
            key,
            _shown(getattr(settings, name)),
            field.description,
            style="bold" if is_set else "",
        )
    out.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value)
