"""Reports and runs as named sheets of rows: what a spreadsheet takes, and nothing it would run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.format import plain_text
from monitor.models.interaction import RunRecord
from monitor.report.model import Report

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


_DRIFT_COLUMNS: Final = ("reference_pass_rate", "reference_n", "psi", "ks")
_WINDOW_COLUMNS: Final = (
    *("evaluated_at", "app", "metric", "window_s", "status", "pass_rate", "low", "high", "n"),
    *("mean_score", "n_failed", "n_skipped", *_DRIFT_COLUMNS),
    *("cost_usd", "policy", "evaluator_version", "reason"),
)


def sheets_of(report: Report) -> list[Sheet]:
    """
    Return a report as sheets, one row a window, step, incident or change.

    ``windows`` has a row for each app, metric and window; rates are in [0, 1], times
    RFC 3339 in UTC. Drills are left out.
    """
    metrics = [(inert(app.app), item) for app in report.apps for item in app.metrics]
    windows = [
        [
            *(v.evaluated_at.isoformat(), app, inert(v.metric), v.window_s, v.status.value),
            *(v.pass_rate, v.low, v.high, v.n, v.average_score, v.n_failed, v.n_skipped),
            *(getattr(v.drift, name, None) for name in _DRIFT_COLUMNS),
            *(v.cost_usd, inert(v.policy), inert(v.evaluator_version), inert(v.reason)),
        ]
        for app, item in metrics
        for v in item.windows
    ]
    series = []
    for app, item in metrics:
        starts = [point.start for point in item.series]
        # The same start means another time range in another export.
        step_s = (starts[1] - starts[0]).total_seconds() if len(starts) > 1 else None
        named = step_s, app, inert(item.metric)
        series += [(p.start.isoformat(), *named, p.pass_rate, p.n) for p in item.series]
    incidents = [
        (
            found.incident_id, found.opened_at.isoformat(), inert(app.app), inert(found.metric),
            found.peak_level.value, found.resolved_at.isoformat() if found.resolved_at else None,
            ((found.resolved_at or report.generated_at) - found.opened_at).total_seconds(),
        )
        for app in report.apps
        for found in app.incidents
        if not found.is_drill
    ]  # fmt: skip
    changes = [
        (
            change.at.isoformat(), inert(app.app), inert(change.metric),
            change.before and change.before.value, change.after.value,
            change.pass_rate, change.n, inert(change.reason),
        )
        for app in report.apps
        for change in app.changes
    ]  # fmt: skip
    key = ("app", "metric")
    steps = ("start", "step_s", *key)
    lasted = ("incident_id", "opened_at", *key, "peak_level", "resolved_at", "lasted_s")
    changed = ("at", *key, "before", "after", "pass_rate", "n", "reason")
    return [
        Sheet("windows", _WINDOW_COLUMNS, windows, ("evaluated_at", *key, "window_s")),
        Sheet("series", (*steps, "pass_rate", "n"), series, steps),
        Sheet("incidents", lasted, incidents, ("incident_id",)),
        Sheet("status_changes", changed, changes, ("at", *key)),
    ]


def inert(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    shown = plain_text(text, _LONGEST_CELL)
    return f"'{shown}" if shown.startswith(_RUNS) else shown


# Runs: one row a run; a cell is empty where a metric was not scored.

_WHO: Final = ("run_id", "timestamp", "app", "company_name", "model_used")
#: Columns that tell the figure itself, such as milliseconds, where the score is about its limit.
_PLAIN_FIGURES: Final = {"step_count", "tool_calls", "latency_ms", "score_std", "score_range"}
_AGENT: Final = (
    "intent_correctness", "plan_quality", "tool_choice_correctness", "tool_completeness",
    "trajectory_match", "final_answer_quality",
)  # fmt: skip
_STATS: Final = ("step_count", "tool_calls", "latency_ms")
_JUDGED: Final = (
    "accuracy_score", "completeness_score", "consistency_score", "actionability_score",
    "data_utilization_score",
)  # fmt: skip
_SAME_MODEL: Final = ("level_consistency", "score_consistency", "score_std", "overall_consistency")
_MODELS: Final = ("level_agreement", "score_range", "confidence_agreement", "cross_model_agreement")


class _Plan(NamedTuple):
    """A sheet: its metrics under their own names, others under other names, and explanations."""

    name: str
    metrics: Sequence[str]
    renamed: Mapping[str, str] = {}  #: column -> metric
    explained: Sequence[str] = ()  #: metrics whose explanation stands in a column of its own


_PLANS: Final = (
    _Plan(
        "deepeval_metrics",
        ("answer_relevancy", "faithfulness", "hallucination", "contextual_relevancy", "bias",
         "toxicity"),
        {"overall_score": "rag_overall_score"},
    ),
    _Plan("openevals_metrics", (*_AGENT, *_STATS), {"overall_score": "agent_overall_score"}),
    _Plan("agent_metrics", (*_AGENT, *_STATS), {"overall_score": "agent_overall_score"}, _AGENT),
    _Plan(
        "unified_metrics",
        ("faithfulness", "hallucination", "answer_relevancy", "factual_accuracy",
         "overall_consistency", "cross_model_agreement", "level_agreement", "semantic_similarity",
         *_AGENT),
        {
            "accuracy_score": "unified_accuracy", "consistency_score": "unified_consistency",
            "agent_efficiency_score": "unified_agent_efficiency",
            "overall_quality_score": "overall_quality_score",
        },
    ),
    _Plan(
        "llm_judge_results", _JUDGED, {"overall_score": "judge_overall_score"},
        ("judge_overall_score", *_JUDGED),
    ),
    _Plan("consistency_scores", (*_SAME_MODEL, "semantic_similarity", "answer_uncertainty")),
    _Plan("model_consistency", _SAME_MODEL),
    _Plan("cross_model_eval", _MODELS),
)  # fmt: skip


def run_sheets(runs: Sequence[RunRecord]) -> list[Sheet]:
    """
    Return runs as the named sheets, each with the metrics of its framework.

    A run is in a sheet when one of its metrics has a score or figure. Scores are in [0, 1];
    ``step_count``, ``tool_calls``, ``latency_ms``, ``score_std`` and ``score_range``
    are the figures themselves. Metrics that no sheet names are in ``other_metrics``, one row
    a run and metric.
    """
    found = []
    for plan in _PLANS:
        columns = {metric: metric for metric in plan.metrics} | dict(plan.renamed)
        rows = []
        for run in runs:
            cells: list[Cell] = []
            for column, metric in columns.items():
                figure = run.figures.get(metric)
                value = figure.value if figure and column in _PLAIN_FIGURES else None
                cells.append(value if column in _PLAIN_FIGURES else figure and figure.score)
            reasons = [run.figures.get(metric) for metric in plan.explained]
            said = [inert(f.explanation) if f and f.explanation else None for f in reasons]
            if any(cell is not None for cell in cells):
                rows.append([*_run_cells(run), *cells, *said])
        names = (*_WHO, *columns, *(f"{metric}_reason" for metric in plan.explained))
        found.append(Sheet(plan.name, names, rows, key=("run_id", "timestamp", "app")))
    known = {metric for plan in _PLANS for metric in (*plan.metrics, *plan.renamed.values())}
    others: list[list[Cell]] = [
        [*_run_cells(run), inert(metric), figure.score, inert(figure.explanation)]
        for run in runs
        for metric, figure in sorted(run.figures.items())
        if metric not in known and figure.score is not None
    ]
    names = (*_WHO, "metric", "score", "reason")
    key = ("run_id", "timestamp", "app", "metric")
    return [*found, Sheet("other_metrics", names, others, key=key)]


def _run_cells(run: RunRecord) -> list[Cell]:
    names = (run.app, run.company_name, run.model_used)
    return [inert(run.run_id), run.at.isoformat(), *(inert(name) for name in names)]
