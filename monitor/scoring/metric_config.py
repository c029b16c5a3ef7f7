"""The metrics that the settings name: checked, with their parameters and their parts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from pydantic import ValidationError

from monitor.errors import SettingsError, own_words
from monitor.models.passing import PassRule
from monitor.scoring.declaration import Combined, ConfiguredMetric, Cost, Metric, RubricMetric
from monitor.scoring.metrics import METRICS, RENAMED
from monitor.scoring.metrics.measures import NEEDS_EMBEDDING
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
    Return every metric there is: shipped, of installed packages, of the metrics file.

    Raises
    ------
    SettingsError
        If two have the same name.
    """
    known, origin = dict(METRICS), dict.fromkeys(METRICS, "groundwatch")
    own = [
        (
            file.where,
            own_metric(
                name,
                {key: value for key, value in table.items() if key != "pass_score"},
                METRICS,
                where=file.where,
                folder=file.folder,
            ),
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
    Return every metric that has to be scored, the parts of combined ones before them.

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
    names = (*file.tables, *known)
    configured = {name: _configured(known[name], file, settings) for name in names}
    wanted: dict[str, None] = {}

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
        wanted[name] = None

    for name in settings.metrics:
        add(name)
    return [configured[name] for name in wanted]


def unmet_needs(metrics: Iterable[ConfiguredMetric], settings: Settings) -> dict[str, str]:
    """
    Return what the metrics that *settings* name need beyond query, contexts and output, in words.

    A metric that has none of it is never scored, but skipped with a reason.
    """
    found: dict[str, str] = {}
    for each in metrics:
        declared, needs = each.declaration, []
        roots = ("expected.", "metadata.", "tool_calls")
        fields = [path for path in declared.requires if path.startswith(roots)]
        if fields:
            needs.append(f"{' and '.join(fields)} in what your app sends")
        rubric = isinstance(each.metric, RubricMetric) and each.metric.screen is None
        if rubric and settings.scorer not in {"judge", "cascade"}:
            needs.append(f"a judge ({variable('scorer')}=judge, or cascade)")
        if NEEDS_EMBEDDING in declared.skips and settings.embedding_model is None:
            needs.append(variable("embedding_model"))
        if needs and each.name in settings.metrics:
            found[each.name] = " and ".join(needs)
    return found


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


def _configured(metric: Metric, file: MetricsFile, settings: Settings) -> ConfiguredMetric:
    declaration = metric.declaration
    where = f"{file.where}: [{declaration.name}]"
    values = dict(file.tables.get(declaration.name, {}))
    rule = PassRule.mirrored(settings.pass_score, declaration.direction)
    if declaration.pass_score is not None:
        rule = PassRule(declaration.pass_score, declaration.direction)
    is_set = "pass_score" in settings.model_fields_set
    if declaration.local_rule is not None and settings.scorer == "local" and not is_set:
        rule = declaration.local_rule
    if "pass_score" in values:
        line = values.pop("pass_score")
        if not isinstance(line, int | float) or isinstance(line, bool) or not 0 <= line <= 1:
            raise SettingsError(f"{where} pass_score: should be a number in [0, 1]")
        rule = PassRule(float(line), declaration.direction)
    if values.pop("like", None) is None and any(key in values for key in MAKES):
        values = {}  # they made the metric
    try:
        parameters = declaration.parameters.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ["pass_score", *declaration.parameters.model_fields]
            raise SettingsError(f"{where} has no parameter {key!r}; {_hint(key, known)}") from None
        what = own_words(first["msg"])
        raise SettingsError(f"{where} {key}: {what}".replace(" : ", " ")) from None
    return ConfiguredMetric(metric, parameters, rule)


def manual() -> str:
    """Return the manual's page: every metric that ships, its parameters, and how to add one."""
    rows, parameters = [], []
    for metric in METRICS.values():
        declared = metric.declaration
        inputs = ", ".join(f"`{path}`" for path in declared.requires) or "see formula"
        cells = (
            f"`{declared.name}`",
            declared.what,
            declared.formula,
            "its parts" if isinstance(metric, Combined) else inputs,
            declared.direction.value,
            "" if declared.pass_score is None else f"{declared.pass_score:g}",
            declared.source,
            declared.backend,
            _cost(metric),
            ", ".join(f"`{reason}`" for reason in declared.reasons()),
        )
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        for name, field in declared.parameters.model_fields.items():
            default = field.get_default(call_default_factory=True)
            shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
            parameters.append(
                f"| `{declared.name}` | `{name}` | `{shown or '(none)'}` |"
                f" {field.description or ''} |"
            )
    page = resources.files("monitor.scoring").joinpath("listing.md").read_text("utf-8")
    page = page.replace("\nMETRICS\n", "\n" + "\n".join(rows) + "\n")
    return page.replace("\nPARAMETERS\n", "\n" + "\n".join(parameters) + "\n")


def _cost(metric: Metric) -> str:
    if not isinstance(metric, Combined):
        return metric.declaration.cost.value
    costs = {_cost(METRICS[part]) for part in metric.weights}
    return Cost.JUDGE.value if Cost.JUDGE.value in costs else Cost.FREE.value
