"""
Metrics of one's own: a plain function, a question to the judge, or a package's entry points.

--- metrics file ---
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

import hashlib
import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module, resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.adapters.deepeval import deepeval_metric
from monitor.scoring.adapters.ragas import ragas_metric
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answers,
    Combined,
    Computed,
    Cost,
    Criterion,
    Declaration,
    Form,
    JudgementMetric,
    Metric,
    NoParameters,
    RubricMetric,
)

GROUP = "groundwatch.evaluators"


class _Own(BaseModel):
    """What a table or a file of its own says about a metric of one's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: str | None = None
    criteria: str | None = None
    deepeval: str | None = None
    ragas: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    scale: Literal["0-1", "1-5"] = "0-1"
    what: str = ""
    requires: tuple[str, ...] = ("output",)
    direction: Direction = Direction.HIGHER
    version: str = Field("1", min_length=1, max_length=40)


def own_metric(name: str, table: dict[str, Any], *, where: str, folder: Path) -> Metric:
    """
    Make the metric that a table of the metrics file describes.

    Parameters
    ----------
    name
        What it will be called.
    table
        Its keys, without ``pass_score``; ``file`` names a TOML file that has them instead.
    where
        The file, for messages.
    folder
        Where relative paths begin.

    Raises
    ------
    SettingsError
        If a key is unknown, the function cannot be loaded or nothing says what to do.
    """
    if "file" in table:
        path = folder / str(table["file"])
        return own_metric(name, read_toml(path), where=str(path), folder=path.parent)
    try:
        own = _Own.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{where}: [{name}] {key}: {own_words(first['msg'])}") from None
    try:
        if own.function is not None:
            return function_metric(
                load(own.function, f"{where}: [{name}]"),
                name=name,
                what=own.what,
                requires=own.requires,
                direction=own.direction,
                version=own.version,
            )
        if own.criteria is not None:
            return _question(name, own, own.criteria)
        foreign = _foreign(name, own)
        if foreign is not None:
            return foreign
    except ValueError as error:
        raise SettingsError(f"{where}: [{name}] {error}") from None
    raise SettingsError(f"{where}: [{name}] should have one of {', '.join(MAKES)}")


def function_metric(
    function: Callable[..., Any],
    *,
    name: str,
    what: str = "",
    requires: tuple[str, ...] = ("output",),
    direction: Direction = Direction.HIGHER,
    version: str = "1",
) -> Computed:
    """
    Make a metric of a function that takes an `Interaction`.

    It gives a number in [0, 1], a bool, None where there is nothing to score, or a
    `Finding`. A changed function is a new version, so that it starts a new stream.
    """

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        value = function(interaction)
        if isinstance(value, Finding):
            return value
        if value is None:
            return Finding(skipped="nothing_to_score")
        if isinstance(value, int | float):
            return Finding(score=float(value))
        raise TypeError(f"{name} gave a {type(value).__name__}, not a number")

    said = (inspect.getdoc(function) or "").partition("\n")[0]
    declaration = Declaration(
        name=name,
        what=what or said or "A function of one's own.",
        formula=f"{function.__module__}:{function.__qualname__}",
        requires=requires,
        source="own",
        backend="function",
        version=f"{version}-{_digest(_source_of(function))}",
        direction=direction,
        skips=("nothing_to_score",),
    )
    return Computed(declaration, compute)


def load(reference: str, where: str) -> Any:
    """
    Load ``module:name``.

    Raises
    ------
    SettingsError
        If it is not of that form, or cannot be imported.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise SettingsError(f"{where} {reference!r} should be module:function")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{where} cannot load {reference}: {error}") from None
    if not callable(found):
        raise SettingsError(f"{where} {reference} is no function")
    return found


def plugin_metrics() -> Iterator[tuple[str, Metric]]:
    """
    Load the metrics of installed packages, each with where it comes from.

    An entry point of the group ``groundwatch.evaluators`` names a metric, several of them,
    or a plain function, whose metric then has the entry point's name.

    Raises
    ------
    SettingsError
        If one cannot be loaded or is none of these.
    """
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        source = f"{point.dist.name if point.dist else '?'} ({point.value})"
        yield from ((source, metric) for metric in _from_entry(point, source))


def _from_entry(point: EntryPoint, source: str) -> list[Metric]:
    try:
        found = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise SettingsError(
            f"the evaluators of {source} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    listed = list(found) if isinstance(found, list | tuple) else [found]
    if all(
        isinstance(each, Computed | JudgementMetric | RubricMetric | Combined) for each in listed
    ):
        return listed
    if len(listed) == 1 and callable(found):
        return [function_metric(found, name=point.name)]
    raise SettingsError(f"{source} is neither a metric, a list of metrics nor a function")


def _question(name: str, own: _Own, criteria: str) -> RubricMetric:
    form = Form.RATING if own.scale == "1-5" else Form.SCORE
    asked = Criterion(name, criteria, form)

    def read(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
        said = answers[name]
        details = {"suggestions": list(said.suggestions)} if said.suggestions else {}
        return Finding(score=said.score, explanation=said.reasoning, details=details)

    declaration = Declaration(
        name=name,
        what=own.what or criteria,
        formula="the judge's score" + (", (rating - 1) / 4" if form is Form.RATING else ""),
        requires=own.requires,
        source="own",
        backend="judge, in the second shared call",
        cost=Cost.JUDGE,
        version=f"{own.version}-{_digest(criteria + own.scale)}",
        direction=own.direction,
        skips=("needs_judge",),
    )
    return RubricMetric(declaration, lambda _: (asked,), read)


def _foreign(name: str, own: _Own) -> Metric | None:
    """Make a metric of another library, which is imported only here."""
    for make, kind in ((deepeval_metric, own.deepeval), (ragas_metric, own.ragas)):
        if kind is not None:
            return make(name, kind, own.arguments, direction=own.direction, requires=own.requires)
    return None


def _source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__module__}:{function.__qualname__}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# --- metrics file ---


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
