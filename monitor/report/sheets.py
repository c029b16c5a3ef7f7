"""A report as named sheets of rows: what a spreadsheet takes, and nothing that it would run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.models import Verdict
from monitor.report.format import plain_text
from monitor.report.model import MetricReport, Report

Cell = str | float | int | None
#: A cell of text that begins so would be run as a formula.
_RUNS = ("=", "+", "-", "@", "\t", "\r")
_LONGEST_CELL = 1_000


class Sheet(NamedTuple):
    """One sheet: its name, the names of its columns, its rows, and the columns that name a row."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    key: Sequence[str] = ()


def sheets_of(report: Report) -> list[Sheet]:
    """
    Lay a report out as sheets, one row a window, step, incident or change.

    ``windows`` has a row for each app, metric and window; rates are in [0, 1], times
    RFC 3339 in UTC.
    """
    return [_windows(report), _series(report), _incidents(report), _changes(report)]


def inert(text: str) -> str:
    """Make a text that no spreadsheet takes for a formula."""
    shown = plain_text(text, _LONGEST_CELL)
    return f"'{shown}" if shown.startswith(_RUNS) else shown


def _windows(report: Report) -> Sheet:
    columns = (
        *("evaluated_at", "app", "metric", "window_s", "status", "pass_rate", "low", "high", "n"),
        *("mean_score", "n_failed", "n_skipped", "reference_pass_rate", "reference_n", "psi", "ks"),
        *("cost_usd", "policy", "evaluator_version", "reason"),
    )
    rows = [_verdict(v) for app in report.apps for item in app.metrics for v in item.windows]
    return Sheet("windows", columns, rows, key=("evaluated_at", "app", "metric", "window_s"))


def _verdict(v: Verdict) -> list[Cell]:
    drift = v.drift
    return [
        *(v.evaluated_at.isoformat(), inert(v.app), inert(v.metric), v.window_s, v.status.value),
        *(v.pass_rate, v.low, v.high, v.n, v.average_score, v.n_failed, v.n_skipped),
        *(
            (drift.reference_pass_rate, drift.reference_n, drift.psi, drift.ks)
            if drift
            else (None, None, None, None)
        ),
        *(v.cost_usd, inert(v.policy), inert(v.evaluator_version), inert(v.reason)),
    ]


def _series(report: Report) -> Sheet:
    rows = [
        [
            *(point.start.isoformat(), _step_s(item), inert(app.app), inert(item.metric)),
            *(point.pass_rate, point.n),
        ]
        for app in report.apps
        for item in app.metrics
        for point in item.series
    ]
    columns = ("start", "step_s", "app", "metric", "pass_rate", "n")
    return Sheet("series", columns, rows, key=("start", "step_s", "app", "metric"))


def _step_s(item: MetricReport) -> Cell:
    """Tell how long a step is: the same start means another stretch in another export."""
    first, *others = item.series
    return (others[0].start - first.start).total_seconds() if others else None


def _incidents(report: Report) -> Sheet:
    columns = ("incident_id", "opened_at", "app", "metric", "peak_level", "resolved_at", "lasted_s")
    rows = [
        [
            found.incident_id, found.opened_at.isoformat(), inert(app.app), inert(found.metric),
            found.peak_level.value,
            found.resolved_at.isoformat() if found.resolved_at else None,
            ((found.resolved_at or report.generated_at) - found.opened_at).total_seconds(),
        ]
        for app in report.apps
        for found in app.incidents
    ]  # fmt: skip
    return Sheet("incidents", columns, rows, key=("incident_id",))


def _changes(report: Report) -> Sheet:
    columns = ("at", "app", "metric", "before", "after", "pass_rate", "n", "reason")
    rows = [
        [
            change.at.isoformat(), inert(app.app), inert(change.metric),
            change.before.value if change.before else None, change.after.value,
            change.pass_rate, change.n, inert(change.reason),
        ]
        for app in report.apps
        for change in app.changes
    ]  # fmt: skip
    return Sheet("status_changes", columns, rows, key=("at", "app", "metric"))
