"""The manual's page on metrics, made from what each declares."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from monitor.scoring.declaration import Combined, Cost, Declaration, Metric
from monitor.scoring.evaluators import METRICS


def manual() -> str:
    """Write the page: every metric that ships, its parameters, and how to add one."""
    rows = "\n".join(_row(metric) for metric in METRICS.values())
    parameters = "\n".join(line for metric in METRICS.values() for line in _parameters(metric))
    page = resources.files("monitor.scoring").joinpath("listing.md").read_text("utf-8")
    return page.replace("\nMETRICS\n", f"\n{rows}\n").replace("\nPARAMETERS\n", f"\n{parameters}\n")


def _row(metric: Metric) -> str:
    declared = metric.declaration
    cells = (
        f"`{declared.name}`",
        declared.what,
        declared.formula,
        _inputs(metric),
        f"[{declared.low:g}, {declared.high:g}]",
        declared.direction.value,
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


def _parameters(metric: Metric) -> Iterator[str]:
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
