"""
Metrics of one's own: the metrics file, and the entry points of installed packages.

The file of ``GROUNDWATCH_METRICS_FILE`` is TOML, one table a metric::

    [precision_at_k]                       # parameters of a metric that ships
    k = 3
    pass_score = 0.6                       # its own line; else the metric's or the setting's

    [precision_at_1]                       # a metric that ships, under another name
    like = "precision_at_k"
    k = 1

    [politeness]                           # a function of an Interaction
    function = "my_app.metrics:politeness"
    requires = ["query", "output"]

    [tone]                                 # a question to the judge, or several by name
    criteria = "Is the tone friendly and patient?"
    requires = ["output"]

    [overall]                              # a weighted mean of other metrics
    weights = { groundedness = 0.6, tone = 0.4 }
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Combined,
    Computed,
    Declaration,
    JudgementMetric,
    Metric,
    NoParameters,
    RubricMetric,
)
from monitor.scoring.metrics.quality import Rubric, Weighted

GROUP = "groundwatch.evaluators"
#: Keys of a table that make a metric, rather than set a parameter of one.
MAKES = ("function", "criteria", "weights", "like", "file", "deepeval", "ragas")
#: Where metrics of other libraries are made; imported only when one is named.
_LIBRARIES = {
    "deepeval": "monitor.contrib.metric_libraries:deepeval_metric",
    "ragas": "monitor.contrib.metric_libraries:ragas_metric",
}


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """What the file says, a table a metric."""

    tables: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    where: str = "the metrics file"
    folder: Path = Path()

    def with_tables(self, more: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the same with further tables, whose keys come first."""
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
        If it cannot be read, is not TOML, or holds something else than tables.
    """
    if path is None:
        return MetricsFile()
    tables = read_toml(path)
    if "preset" in tables:
        raise SettingsError(
            f"{path}: presets are files of their own now; copy the tables of examples/credit.toml"
        )
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} should be a table, written [{name}]")
    return MetricsFile(tables, str(path), path.parent)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; ``SettingsError`` says what is wrong with it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


class _Function(BaseModel):
    """A table that makes a metric of a function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: str
    what: str = ""
    requires: tuple[str, ...] = ("output",)
    direction: Direction = Direction.HIGHER
    version: str = Field("1", min_length=1, max_length=40)


class _Library(BaseModel):
    """A table that makes a metric of another library."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    deepeval: str | None = None
    ragas: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    requires: tuple[str, ...] = ("output",)
    direction: Direction = Direction.HIGHER


def own_metric(
    name: str, table: dict[str, Any], known: Mapping[str, Metric], *, where: str, folder: Path
) -> Metric:
    """
    Make the metric that a table of the metrics file describes.

    Parameters
    ----------
    name
        What it will be called.
    table
        Its keys, without ``pass_score``; ``file`` names a TOML file that has them instead.
    known
        The metrics that ship, for ``like``.
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
        return own_metric(name, read_toml(path), known, where=str(path), folder=path.parent)
    place = f"{where}: [{name}]"
    try:
        if "like" in table:
            if table["like"] not in known:
                raise SettingsError(f"{place} like: no metric is called {table['like']!r}")
            metric = known[table["like"]]
            return replace(metric, declaration=replace(metric.declaration, name=name))
        if "function" in table:
            function = _Function.model_validate(table)
            loaded = load(function.function, place, folder)
            return function_metric(loaded, name=name, **function.model_dump(exclude={"function"}))
        if "criteria" in table:
            rubric = Rubric.model_validate(table)
            text = rubric.criteria if isinstance(rubric.criteria, str) else str(rubric.criteria)
            return rubric.metric(name, "own", f"{rubric.version}-{_digest(text + rubric.scale)}")
        if "weights" in table:
            weighted = Weighted.model_validate(table)
            return weighted.metric(name, "own", f"{weighted.version}-{_digest(str(weighted))}")
        for library in _LIBRARIES.keys() & table.keys():
            other = _Library.model_validate(table)
            own = other.model_dump(include={"requires", "direction"})
            made: Metric = load(_LIBRARIES[library], place)(
                name, getattr(other, library), other.arguments, **own
            )
            return made
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{place} {key}: {own_words(first['msg'])}") from None
    except ValueError as error:
        raise SettingsError(f"{place} {error}") from None
    raise SettingsError(f"{place} should have one of {', '.join(MAKES)}")


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

    It returns a number in [0, 1], a bool, None where there is nothing to score, or a
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
        raise TypeError(f"{name} returned a {type(value).__name__}, not a number")

    reference = f"{function.__module__}:{function.__qualname__}"
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = reference
    declaration = Declaration(
        name=name,
        what=what or (inspect.getdoc(function) or "").partition("\n")[0] or "Your own function.",
        formula=reference,
        requires=requires,
        source="own",
        backend="function",
        version=f"{version}-{_digest(source)}",
        direction=direction,
        skips=("nothing_to_score",),
    )
    return Computed(declaration, compute)


def load(reference: str, where: str, folder: Path | None = None) -> Any:
    """
    Load ``module:name``; the module may stand in *folder*, such as beside the metrics file.

    Raises
    ------
    SettingsError
        If it is not of that form, or cannot be imported.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise SettingsError(f"{where} {reference!r} should be module:function")
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # last, so that it hides nothing
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{where} cannot load {reference}: {error}") from None
    if not callable(found):
        raise SettingsError(f"{where} {reference} is not a function")
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
        yield from ((source, metric) for metric in metrics_of_entry(point, source))


def metrics_of_entry(point: EntryPoint, source: str) -> list[Metric]:
    """Load the metrics of one entry point; *source* names it in messages."""
    try:
        found = point.load()
    except Exception as error:  # a foreign module may raise anything
        raise SettingsError(
            f"the evaluators of {source} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    listed = list(found) if isinstance(found, list | tuple) else [found]
    kinds = Computed | JudgementMetric | RubricMetric | Combined
    if all(isinstance(each, kinds) for each in listed):
        return listed
    if len(listed) == 1 and callable(found):
        return [function_metric(found, name=point.name)]
    raise SettingsError(f"{source} is neither a metric, a list of metrics nor a function")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
