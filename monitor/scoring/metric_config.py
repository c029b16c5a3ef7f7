"""Choose the metrics that the settings name: check them, set their parameters, add their parts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from pydantic import BaseModel, ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models.passing import PassRule
from monitor.scoring.declaration import Combined, ConfiguredMetric, Cost, Declaration, Metric
from monitor.scoring.metrics import METRICS, RENAMED
from monitor.scoring.own_metrics import (
    MAKES,
    MetricsFile,
    own_metric,
    plugin_metrics,
    read_metrics_file,
)
from monitor.settings import Settings, variable

_MOST_NAMED = 8


def known_metrics(
    file: MetricsFile, plugins: Iterable[tuple[str, Metric]] | None = None
) -> dict[str, Metric]:
    """
    List every metric there is: shipped, of installed packages, of the metrics file.

    Raises
    ------
    SettingsError
        If two have the same name.
    """
    known, origin = dict(METRICS), dict.fromkeys(METRICS, "groundwatch")
    own = [
        (
            file.where,
            own_metric(name, _without_line(table), METRICS, where=file.where, folder=file.folder),
        )
        for name, table in file.tables.items()
        if any(key in table for key in MAKES)
    ]
    for source, metric in [*(plugin_metrics() if plugins is None else plugins), *own]:
        name, version = metric.declaration.name, metric.declaration.version
        if name in known:
            other = known[name].declaration.version
            raise SettingsError(
                f"two metrics are called {name}: version {other} of {origin[name]} and version"
                f" {version} of {source}; rename one or uninstall it"
            )
        known[name], origin[name] = metric, source
    return known


def resolve_metrics(
    settings: Settings,
    plugins: Iterable[tuple[str, Metric]] | None = None,
    *,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ConfiguredMetric]:
    """
    Bind every metric that has to be scored, the parts of combined ones before them.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, or a parameter is wrong.
    """
    file = read_metrics_file(settings.metrics_file).with_tables(parameters or {})
    known = known_metrics(file, plugins)
    check_names(settings.metrics, known)
    for name in file.tables:
        if name not in known:
            raise SettingsError(f"{file.where}: no metric is called {name!r}; {_hint(name, known)}")
    bound = {name: _bound(known[name], file, settings) for name in (*file.tables, *known)}
    return [bound[name] for name in _with_parts(settings.metrics, known)]


def check_names(metrics: Sequence[str], known: Mapping[str, Metric]) -> None:
    """Refuse metrics that are unknown or named twice, and no metric at all."""
    name = variable("metrics")
    if not metrics:
        raise SettingsError(f"{name}: name at least one; {_hint('', known)}")
    for metric in metrics:
        if metric not in known:
            hint = _hint(metric, known)
            raise SettingsError(f"{name}: no metric is called {metric!r}; {hint}")
        if metrics.count(metric) > 1:
            raise SettingsError(f"{name}: {metric} is named twice")


def _hint(name: str, known: Iterable[str]) -> str:
    if name in RENAMED:
        return f"it is called {RENAMED[name]} now; examples/credit.toml brings the old name back"
    close = difflib.get_close_matches(name, list(known), n=1)
    if close:
        return f"did you mean {close[0]}?"
    listed = list(known)
    more = len(listed) - _MOST_NAMED
    if more <= 0:
        return f"there are {', '.join(listed)}"
    first = ", ".join(listed[:_MOST_NAMED])
    return f"there are {first} and {more} more; `groundwatch metrics` lists them all"


def _with_parts(metrics: Sequence[str], known: Mapping[str, Metric]) -> list[str]:
    """List the metrics with all that they are made of, parts first, each once."""
    found: dict[str, None] = {}

    def add(name: str, within: tuple[str, ...] = ()) -> None:
        metric = known[name]
        for part in metric.weights if isinstance(metric, Combined) else ():
            if part not in known:
                raise SettingsError(
                    f"[{name}] weights: no metric is called {part!r}; {_hint(part, known)}"
                )
            if part == name or part in within:
                raise SettingsError(f"[{name}] weights: {part} is made of itself")
            add(part, (*within, name))
        found[name] = None

    for name in metrics:
        add(name)
    return list(found)


def _bound(metric: Metric, file: MetricsFile, settings: Settings) -> ConfiguredMetric:
    declaration = metric.declaration
    where = f"{file.where}: [{declaration.name}]"
    values = dict(file.tables.get(declaration.name, {}))
    rule = PassRule.mirrored(settings.pass_score, declaration.direction)
    if declaration.pass_score is not None:
        rule = PassRule(declaration.pass_score, declaration.direction)
    if "pass_score" in values:
        rule = PassRule(_line(values.pop("pass_score"), where), declaration.direction)
    if values.pop("like", None) is None and any(key in values for key in MAKES):
        values = {}  # they made the metric
    return ConfiguredMetric(metric, _parameters(declaration.parameters, values, where), rule)


def _line(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise SettingsError(f"{where} pass_score: should be a number in [0, 1]")
    return float(value)


def _parameters(kind: type[BaseModel], values: dict[str, Any], where: str) -> BaseModel:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ["pass_score", *kind.model_fields]
            raise SettingsError(f"{where} has no parameter {key!r}; {_hint(key, known)}") from None
        what = own_words(first["msg"])
        raise SettingsError(f"{where} {key}: {what}".replace(" : ", " ")) from None


def _without_line(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != "pass_score"}


# --- listing ---
# The manual's page on metrics, made from what each declares.


def manual() -> str:
    """Write the page: every metric that ships, its parameters, and how to add one."""
    rows = "\n".join(_row(metric) for metric in METRICS.values())
    parameters = "\n".join(
        line for metric in METRICS.values() for line in _listing_parameters(metric)
    )
    page = resources.files("monitor.scoring").joinpath("listing.md").read_text("utf-8")
    return page.replace("\nMETRICS\n", f"\n{rows}\n").replace("\nPARAMETERS\n", f"\n{parameters}\n")


def _row(metric: Metric) -> str:
    declared = metric.declaration
    cells = (
        f"`{declared.name}`",
        declared.what,
        declared.formula,
        _inputs(metric),
        declared.direction.value,
        "" if declared.pass_score is None else f"{declared.pass_score:g}",
        declared.source,
        declared.backend,
        _cost(metric),
        ", ".join(f"`{reason}`" for reason in declared.reasons()),
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _inputs(metric: Metric) -> str:
    if isinstance(metric, Combined):
        return "its parts"
    return ", ".join(f"`{path}`" for path in metric.declaration.requires) or "see formula"


def _cost(metric: Metric) -> str:
    if not isinstance(metric, Combined):
        return metric.declaration.cost.value
    costs = {_cost(METRICS[part]) for part in metric.weights}
    return Cost.JUDGE.value if Cost.JUDGE.value in costs else Cost.FREE.value


def _listing_parameters(metric: Metric) -> Iterator[str]:
    declared: Declaration = metric.declaration
    for name, field in declared.parameters.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        cells = (
            f"`{declared.name}`",
            f"`{name}`",
            f"`{shown or '(none)'}`",
            field.description or "",
        )
        yield f"| {' | '.join(cells)} |"
