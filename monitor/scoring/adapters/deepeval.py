"""
Metrics of DeepEval, installed beside: ``deepeval = "HallucinationMetric"`` in the metrics file.

A metric of the library keeps its own model, calls and bill: none of it goes through the
judge's budget. Each scoring makes a metric of its own, because measuring stores its result
in the metric. DeepEval reports its use to its makers unless ``DEEPEVAL_TELEMETRY_OPT_OUT=1``
is set. Tested with deepeval 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any

from monitor.errors import MissingExtraError, SettingsError
from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Cost, Declaration, NoParameters, lookup


def deepeval_metric(
    name: str,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    direction: Direction = Direction.HIGHER,
    requires: tuple[str, ...] = ("output",),
) -> Computed:
    """
    Make a metric of the DeepEval class *kind*, such as ``AnswerRelevancyMetric``.

    Parameters
    ----------
    name
        What it will be called here.
    kind
        A class of ``deepeval.metrics``.
    arguments
        Its constructor's, such as ``{"threshold": 0.5, "model": "gpt-4.1-mini"}``.
    direction
        Lower for ``HallucinationMetric``, ``BiasMetric`` and ``ToxicityMetric``.
    requires
        Fields without which it is skipped.

    Raises
    ------
    MissingExtraError
        If deepeval is not installed.
    SettingsError
        If there is no such class, or it does not take the arguments.
    """
    try:
        library: Any = import_module("deepeval.metrics")
        cases: Any = import_module("deepeval.test_case")
    except ImportError:
        raise MissingExtraError("a metric of DeepEval", "deepeval") from None
    made = getattr(library, kind, None)
    if made is None or not kind.endswith("Metric"):
        raise SettingsError(f"[{name}] deepeval.metrics has no {kind}")
    try:
        made(**arguments)
    except TypeError as error:
        raise SettingsError(f"[{name}] {kind}: {error}") from None

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        metric = made(**arguments)
        metric.measure(cases.LLMTestCase(**case_fields(interaction)), **_quiet(metric))
        if metric.score is None:
            return Finding(skipped="no_score_from_deepeval")
        return Finding(
            score=float(metric.score),
            explanation=str(metric.reason or ""),
            details={"library": "deepeval", "cost_usd": getattr(metric, "evaluation_cost", None)},
        )

    return Computed(
        Declaration(
            name=name,
            what=f"DeepEval's {kind}.",
            formula="DeepEval's own",
            requires=requires,
            source=f"deepeval {metadata.version('deepeval')}",
            backend="deepeval, with its own model",
            cost=Cost.JUDGE,
            version=f"deepeval-{metadata.version('deepeval')}",
            direction=direction,
            skips=("no_score_from_deepeval",),
        ),
        compute,
    )


def case_fields(interaction: Interaction) -> dict[str, Any]:
    """Name the fields of an interaction as ``LLMTestCase`` does."""
    passages = [context.text for context in interaction.contexts] or None
    return {
        "input": interaction.query or "",
        "actual_output": interaction.output,
        "expected_output": lookup(interaction, "expected.answer"),
        "context": passages,
        "retrieval_context": passages,
    }


def _quiet(metric: Any) -> dict[str, bool]:
    """Switch the progress bar off where the metric knows how."""
    named = metric.measure.__code__.co_varnames
    return {"_show_indicator": False} if "_show_indicator" in named else {}
