"""Runs as named sheets, one row a run; a cell is empty where a metric was not scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.models.run import Figure, Run
from monitor.report.sheets import Cell, Sheet, inert

_WHO: Final = ("run_id", "timestamp", "app", "company_name", "model_used")
#: Columns that tell the figure itself, such as milliseconds, where the score is about its limit.
_PLAIN_FIGURES: Final = frozenset(
    {"step_count", "tool_calls", "latency_ms", "score_std", "credit_score_range"}
)
_AGENT: Final = (
    "intent_correctness",
    "plan_quality",
    "tool_choice_correctness",
    "tool_completeness",
    "trajectory_match",
    "final_answer_quality",
)
_STATS: Final = ("step_count", "tool_calls", "latency_ms")
_JUDGED: Final = (
    "accuracy_score",
    "completeness_score",
    "consistency_score",
    "actionability_score",
    "data_utilization_score",
)
_SAME_MODEL: Final = (
    "risk_level_consistency",
    "score_consistency",
    "score_std",
    "overall_consistency",
)
_MODELS: Final = (
    "risk_level_agreement",
    "credit_score_range",
    "confidence_agreement",
    "cross_model_agreement",
)


class _Plan(NamedTuple):
    """A sheet: its metrics under their own names, others under other names, and explanations."""

    name: str
    metrics: Sequence[str]
    renamed: Mapping[str, str] = {}  #: column -> metric
    explained: Sequence[str] = ()  #: metrics whose explanation stands in a column of its own


_PLANS: Final = (
    _Plan(
        "deepeval_metrics",
        (
            "answer_relevancy",
            "faithfulness",
            "hallucination",
            "contextual_relevancy",
            "bias",
            "toxicity",
        ),
        {"overall_score": "rag_overall_score"},
    ),
    _Plan("openevals_metrics", (*_AGENT, *_STATS), {"overall_score": "agent_overall_score"}),
    _Plan(
        "agent_metrics",
        (*_AGENT, *_STATS),
        {"overall_score": "agent_overall_score"},
        explained=_AGENT,
    ),
    _Plan(
        "unified_metrics",
        (
            "faithfulness",
            "hallucination",
            "answer_relevancy",
            "factual_accuracy",
            "overall_consistency",
            "cross_model_agreement",
            "risk_level_agreement",
            "semantic_similarity",
            *_AGENT,
        ),
        {
            "accuracy_score": "unified_accuracy",
            "consistency_score": "unified_consistency",
            "agent_efficiency_score": "unified_agent_efficiency",
            "overall_quality_score": "overall_quality_score",
        },
    ),
    _Plan(
        "llm_judge_results",
        _JUDGED,
        {"overall_score": "judge_overall_score"},
        explained=("judge_overall_score", *_JUDGED),
    ),
    _Plan("consistency_scores", (*_SAME_MODEL, "semantic_similarity", "answer_uncertainty")),
    _Plan("model_consistency", _SAME_MODEL),
    _Plan("cross_model_eval", _MODELS),
)


def run_sheets(runs: Sequence[Run]) -> list[Sheet]:
    """
    Lay runs out as the named sheets, each with the metrics of its framework.

    A run is in a sheet when one of its metrics has a score or figure. Scores are in [0, 1];
    ``step_count``, ``tool_calls``, ``latency_ms``, ``score_std`` and ``credit_score_range``
    are the figures themselves. Metrics that no sheet names are in ``other_metrics``, one row
    a run and metric.
    """
    return [*(_sheet(plan, runs) for plan in _PLANS), _others(runs)]


def _sheet(plan: _Plan, runs: Sequence[Run]) -> Sheet:
    columns = {metric: metric for metric in plan.metrics} | dict(plan.renamed)
    reasons = [f"{metric}_reason" for metric in plan.explained]
    rows = []
    for run in runs:
        cells = [_cell(column, run.figures.get(metric)) for column, metric in columns.items()]
        if any(cell is not None for cell in cells):
            rows.append([*_who(run), *cells, *(_why(run, metric) for metric in plan.explained)])
    return Sheet(plan.name, (*_WHO, *columns, *reasons), rows, key=("run_id", "timestamp", "app"))


def _others(runs: Sequence[Run]) -> Sheet:
    known = {metric for plan in _PLANS for metric in (*plan.metrics, *plan.renamed.values())}
    rows: list[list[Cell]] = [
        [*_who(run), inert(metric), figure.score, inert(figure.explanation)]
        for run in runs
        for metric, figure in sorted(run.figures.items())
        if metric not in known and figure.score is not None
    ]
    columns = (*_WHO, "metric", "score", "reason")
    return Sheet("other_metrics", columns, rows, key=("run_id", "timestamp", "app", "metric"))


def _who(run: Run) -> list[Cell]:
    names = (run.app, run.company_name, run.model_used)
    return [inert(run.run_id), run.at.isoformat(), *(inert(name) for name in names)]


def _cell(column: str, figure: Figure | None) -> Cell:
    if figure is None:
        return None
    return figure.value if column in _PLAIN_FIGURES else figure.score


def _why(run: Run, metric: str) -> Cell:
    figure = run.figures.get(metric)
    return inert(figure.explanation) if figure and figure.explanation else None
