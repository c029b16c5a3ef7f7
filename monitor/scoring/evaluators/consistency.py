"""Consistency of several runs (``metadata.runs``) or models (``metadata.models``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.models.passing import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed
from monitor.scoring.metrics import consistency as formulas
from monitor.scoring.metrics import entropy
from monitor.scoring.metrics.similarity import lexical_cosine

_LEAST = 2


class RunFields(NoParameters):
    """What the fields of a run are called, and the scale of its score."""

    level_field: str = "risk_level"
    score_field: str = "credit_score"
    confidence_field: str = "confidence"
    scale: float = Field(100.0, gt=0, description="Largest minus smallest possible score.")


def _levels(runs: list[dict[str, Any]], p: RunFields) -> list[str]:
    return [str(run[p.level_field]) for run in runs if run.get(p.level_field) is not None]


def _values(runs: list[dict[str, Any]], name: str) -> list[float]:
    found = [run.get(name) for run in runs]
    numbers = [float(x) for x in found if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < _LEAST:
        raise ValueError(f"fewer than two runs have {name}")
    return numbers


def _agreed(runs: list[dict[str, Any]], p: RunFields) -> float:
    return formulas.agreement(_levels(runs, p))


def _close(runs: list[dict[str, Any]], p: RunFields) -> float:
    return formulas.score_consistency(_values(runs, p.score_field), p.scale)


def _confident(runs: list[dict[str, Any]], p: RunFields) -> float:
    return formulas.range_agreement(_values(runs, p.confidence_field), 1.0)


def _near(runs: list[dict[str, Any]], p: RunFields) -> float:
    return formulas.range_agreement(_values(runs, p.score_field), p.scale)


_Score = Callable[[list[dict[str, Any]], RunFields], float]


def _metric(
    name: str,
    what: str,
    formula: str,
    score: _Score,
    *,
    across: str,
    direction: Direction = Direction.HIGHER,
    value: _Score | None = None,
) -> Computed:
    def compute(interaction: Interaction, p: RunFields) -> Finding:
        runs = [run for run in interaction.metadata[across] if isinstance(run, dict)]
        if len(runs) < _LEAST:
            return Finding(skipped="fewer_than_two_runs")
        try:
            details = {across: len(runs)} | ({} if value is None else {"value": value(runs, p)})
            return Finding(score=score(runs, p), details=details)
        except ValueError:
            return Finding(skipped="runs_lack_fields")

    kind = "Same-Model" if across == "runs" else "Cross-Model"
    return computed(
        name=name,
        what=what,
        formula=formula,
        requires=(f"metadata.{across}",),
        source=f"seed 001, {kind} Consistency (names; formulas ours)",
        backend="computed",
        direction=direction,
        skips=("fewer_than_two_runs", "runs_lack_fields"),
        parameters=RunFields,
    )(compute)


def _std(runs: list[dict[str, Any]], p: RunFields) -> float:
    return formulas.population_std(_values(runs, p.score_field))


@computed(
    name="semantic_similarity",
    what="How alike several answers to the same question are.",
    formula="mean cosine of word stems over all pairs",
    requires=("metadata.answers",),
    source="seed 001, Unified Metrics (name; formula ours)",
    backend="computed",
    skips=("fewer_than_two_runs",),
)
def semantic_similarity(interaction: Interaction, _: NoParameters) -> Finding:
    """Compare all pairs of ``metadata.answers``."""
    answers = [str(each) for each in interaction.metadata["answers"]][:20]
    if len(answers) < _LEAST:
        return Finding(skipped="fewer_than_two_runs")
    pairs = [lexical_cosine(a, b) for i, a in enumerate(answers) for b in answers[i + 1 :]]
    return Finding(score=sum(pairs) / len(pairs), details={"answers": len(answers)})


@computed(
    name="answer_uncertainty",
    what="How much sampled answers to the same question differ.",
    formula="-Σ p log2 p over equal answers, divided by log2 n",
    requires=("metadata.answers",),
    source="seed 002, Answer Uncertainty (there in bits)",
    backend="computed",
    direction=Direction.LOWER,
    skips=("fewer_than_two_runs",),
)
def answer_uncertainty(interaction: Interaction, _: NoParameters) -> Finding:
    """Count equal answers among ``metadata.answers``; the bits are in the metadata."""
    answers = [str(each) for each in interaction.metadata["answers"]]
    if len(answers) < _LEAST:
        return Finding(skipped="fewer_than_two_runs")
    bits = entropy.entropy_bits(entropy.candidate_weights(answers))
    return Finding(score=entropy.answer_uncertainty(answers), details={"bits": round(bits, 6)})


METRICS: tuple[Metric, ...] = (
    _metric(
        "risk_level_consistency",
        "Share of runs with the same level.",
        "runs with the commonest level / runs",
        _agreed,
        across="runs",
    ),
    _metric(
        "score_consistency",
        "How close the scores of several runs are.",
        "1 - std / (scale / 2)",
        _close,
        across="runs",
    ),
    _metric(
        "score_std",
        "Standard deviation of the scores of several runs; the deviation is in the metadata.",
        "std / (scale / 2)",
        lambda runs, p: 1 - _close(runs, p),
        across="runs",
        direction=Direction.LOWER,
        value=_std,
    ),
    _metric(
        "overall_consistency",
        "Consistency of levels and scores of several runs.",
        "mean of risk_level_consistency and score_consistency",
        lambda runs, p: formulas.mean_of(_agreed(runs, p), _close(runs, p)),
        across="runs",
    ),
    _metric(
        "risk_level_agreement",
        "Share of models that agree on the level.",
        "models with the commonest level / models",
        _agreed,
        across="models",
    ),
    _metric(
        "credit_score_range",
        "Largest minus smallest score across models; the range is in the metadata.",
        "(max - min) / scale",
        lambda runs, p: 1 - _near(runs, p),
        across="models",
        direction=Direction.LOWER,
        value=lambda runs, p: formulas.value_range(_values(runs, p.score_field)),
    ),
    _metric(
        "confidence_agreement",
        "How close the models' confidences are.",
        "1 - (max - min)",
        _confident,
        across="models",
    ),
    _metric(
        "cross_model_agreement",
        "Agreement of models on level, score and confidence.",
        "mean of level agreement, 1 - range / scale, confidence agreement",
        lambda runs, p: formulas.mean_of(_agreed(runs, p), _near(runs, p), _confident(runs, p)),
        across="models",
    ),
    semantic_similarity,
    answer_uncertainty,
)
