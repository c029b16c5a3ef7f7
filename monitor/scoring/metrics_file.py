"""
The file of ``GROUNDWATCH_METRICS_FILE``: parameters of metrics, and metrics of one's own.

It is TOML, one table a metric::

    preset = "credit"                      # optional: parameters that ship

    [precision_at_k]
    k = 3
    pass_score = 0.6                       # its own line; else the setting's

    [politeness]                           # a function of an Interaction
    function = "my_app.metrics:politeness"
    requires = ["query", "output"]

    [tone]                                 # a question to the judge
    criteria = "Is the tone friendly and patient?"
    requires = ["output"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Self

from monitor.errors import SettingsError

_PRESETS = "monitor.scoring.presets"
#: Keys of a table that make a metric, rather than set a parameter of one.
MAKES = ("function", "criteria", "file", "deepeval", "ragas")


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """What the file says, a table a metric."""

    tables: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    where: str = "the metrics file"
    folder: Path = Path()

    def with_tables(self, more: Mapping[str, Mapping[str, Any]]) -> Self:
        """Give the same with further tables, whose keys come first."""
        tables = dict(self.tables)
        for name, table in more.items():
            tables[name] = tables.get(name, {}) | dict(table)
        return replace(self, tables=tables)


def read_metrics_file(path: Path | None) -> MetricsFile:
    """
    Read the file, if there is one.

    Raises
    ------
    SettingsError
        If it cannot be read, is no TOML, or names a preset that there is not.
    """
    if path is None:
        return MetricsFile()
    found = read_toml(path)
    preset = found.pop("preset", None)
    tables = {} if preset is None else _preset(str(preset), path)
    for name, table in found.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} should be a table, written [{name}]")
        tables[name] = tables.get(name, {}) | table
    return MetricsFile(tables, str(path), path.parent)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or say what is wrong with it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise SettingsError(f"{path}: no TOML: {error}") from None


def presets() -> list[str]:
    """Name the presets that ship."""
    return sorted(
        each.name.removesuffix(".toml")
        for each in resources.files(_PRESETS).iterdir()
        if each.name.endswith(".toml")
    )


def _preset(name: str, path: Path) -> dict[str, dict[str, Any]]:
    if name not in presets():
        known = ", ".join(presets())
        raise SettingsError(f"{path}: no preset is called {name!r}; there are {known}")
    text = resources.files(_PRESETS).joinpath(f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)
