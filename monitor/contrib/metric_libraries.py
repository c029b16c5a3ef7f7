"""
Metrics of DeepEval and Ragas, installed beside, as metrics of ours.

``deepeval = "HallucinationMetric"`` or ``ragas = "ExactMatch"`` in a table of the metrics file
names one. It keeps its own model, calls and bill: none of it goes through the judge's budget.
Ragas' metrics that need a model take it as an argument, which a TOML file cannot hold: write a
function of three lines around `ragas_metric` for them. Both libraries report their use to their
makers unless ``DEEPEVAL_TELEMETRY_OPT_OUT=1`` and ``RAGAS_DO_NOT_TRACK=true`` are set. Tested
with deepeval 4.3 and ragas 0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from typing import Any

from monitor.errors import MissingExtraError, SettingsError
from monitor.models import Interaction
from monitor.models.evaluation import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Cost, NoParameters, computed, lookup


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

    *arguments* are its constructor's, such as ``{"threshold": 0.5, "model": "gpt-4.1-mini"}``.
    Lower is better for ``HallucinationMetric``, ``BiasMetric`` and ``ToxicityMetric``.

    Raises
    ------
    MissingExtraError
        If deepeval is not installed.
    SettingsError
        If there is no such class, or it does not take the arguments.
    """
    library, cases = _imported("deepeval", "metrics", "test_case")
    made = getattr(library, kind, None)
    if made is None or not kind.endswith("Metric"):
        raise SettingsError(f"[{name}] deepeval.metrics has no {kind}")
    _constructed(name, kind, made, arguments)

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        # Measuring stores its result in the metric, so each scoring makes one of its own.
        metric = made(**arguments)
        named = metric.measure.__code__.co_varnames
        quiet = {"_show_indicator": False} if "_show_indicator" in named else {}
        metric.measure(cases.LLMTestCase(**case_fields(interaction)), **quiet)
        if metric.score is None:
            return Finding(skipped="no_score_from_deepeval")
        return Finding(
            score=float(metric.score),
            explanation=str(metric.reason or ""),
            details={"library": "deepeval", "cost_usd": getattr(metric, "evaluation_cost", None)},
        )

    declared = {"name": name, "direction": direction, "requires": requires}
    return _metric("deepeval", kind, compute, skips=("no_score_from_deepeval",), **declared)


def ragas_metric(
    name: str,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    direction: Direction = Direction.HIGHER,
    requires: tuple[str, ...] = ("output",),
) -> Computed:
    """
    Make a metric of the single-turn Ragas class *kind*, such as ``ExactMatch``.

    Takes and raises what `deepeval_metric` does; *arguments* may hold
    ``{"llm": a wrapped model}``, and lower is better for ``NoiseSensitivity``.
    """
    library, samples = _imported("ragas", "metrics", "dataset_schema")
    made = getattr(library, kind, None)
    if made is None or not hasattr(made, "single_turn_score"):
        raise SettingsError(f"[{name}] ragas.metrics has no single-turn metric {kind}")
    metric = _constructed(name, kind, made, arguments)

    def compute(interaction: Interaction, _: NoParameters) -> Finding:
        score = metric.single_turn_score(samples.SingleTurnSample(**sample_fields(interaction)))
        return Finding(score=float(score), details={"library": "ragas"})

    return _metric("ragas", kind, compute, name=name, direction=direction, requires=requires)


def case_fields(interaction: Interaction) -> dict[str, Any]:
    """Return the fields of an interaction as ``LLMTestCase`` names them."""
    passages = [context.text for context in interaction.contexts] or None
    return {
        "input": interaction.query or "",
        "actual_output": interaction.output,
        "expected_output": lookup(interaction, "expected.answer"),
        "context": passages,
        "retrieval_context": passages,
    }


def sample_fields(interaction: Interaction) -> dict[str, Any]:
    """Return the fields of an interaction as ``SingleTurnSample`` names them."""
    return {
        "user_input": interaction.query or "",
        "response": interaction.output,
        "retrieved_contexts": [context.text for context in interaction.contexts] or None,
        "reference": lookup(interaction, "expected.answer"),
    }


def _imported(library: str, *modules: str) -> tuple[Any, ...]:
    try:
        return tuple(import_module(f"{library}.{module}") for module in modules)
    except ImportError:
        raise MissingExtraError(f"a metric of {library}", library) from None


def _constructed(name: str, kind: str, made: Any, arguments: Mapping[str, Any]) -> Any:
    try:
        return made(**arguments)
    except TypeError as error:
        raise SettingsError(f"[{name}] {kind}: {error}") from None


def _metric(
    library: str, kind: str, compute: Callable[[Interaction, Any], Finding], **declared: Any
) -> Computed:
    version = metadata.version(library)
    return computed(
        what=f"{kind} of {library}.",
        formula="the library's own",
        source=f"{library} {version}",
        backend=f"{library}, with its own model",
        cost=Cost.JUDGE,
        version=f"{library}-{version}",
        **declared,
    )(compute)
