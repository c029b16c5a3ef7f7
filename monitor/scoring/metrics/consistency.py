"""
Consistency of several runs (``metadata.runs``), models (``metadata.models``) or sampled answers
(``metadata.answers``) to the same question.

A run is an object with a level, a score and a confidence; what these fields are called is set
by parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from monitor.format import count, part_of, plain_text
from monitor.models import Interaction
from monitor.models.evaluation import Direction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    NEEDS_EMBEDDING,
    Computed,
    NoParameters,
    Similarity,
    computed,
    configured_similarity,
    lookup_list,
)
from monitor.scoring.measures import (
    entropy_bits,
    normalised_entropy,
    population_std,
    share,
    weighted_mean,
)

_LEAST = 2
_MOST_ANSWERS = 20
_SAME_MEANING = 0.9  # cosine
_TERSE = 3  # words


class RunFields(NoParameters):
    """What the fields of a run are called, and the scale of its score."""

    level_field: str = "level"
    score_field: str = "score"
    confidence_field: str = "confidence"
    scale: float = Field(100.0, gt=0, description="Largest minus smallest possible score.")


class _Runs:
    """The runs of one interaction; raises ``ValueError`` where fewer than two have a field."""

    def __init__(self, runs: list[dict[str, Any]], p: RunFields, noun: str) -> None:
        self.runs, self.p, self.noun = runs, p, noun

    def levels(self) -> Counter[str]:
        name = self.p.level_field
        return Counter(str(run[name]) for run in self.runs if run.get(name) is not None)

    def same_level(self) -> float:
        """Return the share of the most common level."""
        levels = self.levels()
        return share(max(levels.values(), default=0), levels.total())

    def numbers(self, name: str) -> list[float]:
        found = [run.get(name) for run in self.runs]
        values = [float(x) for x in found if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(values) < _LEAST:
            raise ValueError(f"fewer than two runs have {name}")
        return values

    def deviation(self) -> float:
        return population_std(self.numbers(self.p.score_field))

    def range(self) -> float:
        scores = self.numbers(self.p.score_field)
        return max(scores) - min(scores)

    def steady(self) -> float:
        """Return 1 minus the deviation over its largest value, half the scale."""
        return max(0.0, 1 - self.deviation() / (self.p.scale / 2))

    def near(self) -> float:
        return max(0.0, 1 - self.range() / self.p.scale)

    def equally_confident(self) -> float:
        stated = self.numbers(self.p.confidence_field)
        return max(0.0, 1 - (max(stated) - min(stated)))

    # How the scores come about, in words.

    def on_levels(self) -> str:
        levels = self.levels()
        [(level, n)] = levels.most_common(1)
        have = part_of(n, levels.total(), self.noun, "has", "have")
        return f'{have} the level "{plain_text(level, 60)}".'

    def on_deviation(self) -> str:
        return f"The scores deviate by {self.deviation():.4g} on a scale of {self.p.scale:g}."

    def on_range(self) -> str:
        scores = self.numbers(self.p.score_field)
        between = f"{min(scores):.4g} and {max(scores):.4g}"
        return f"The scores are between {between} on a scale of {self.p.scale:g}."

    def on_confidences(self) -> str:
        stated = self.numbers(self.p.confidence_field)
        return f"The confidences are between {min(stated):.2f} and {max(stated):.2f}."

    def on_agreement(self) -> str:
        near, sure = self.near(), self.equally_confident()
        return f"Level {self.same_level():.2f}, score {near:.2f}, confidence {sure:.2f}."


def _metric(
    across: str,
    score: Callable[[_Runs], float],
    said: Callable[[_Runs], str],
    value: Callable[[_Runs], float] | None = None,
    **declared: Any,
) -> Computed:
    def compute(interaction: Interaction, p: RunFields) -> Finding:
        found = [run for run in interaction.metadata[across] if isinstance(run, dict)]
        if len(found) < _LEAST:
            return Finding(skipped="fewer_than_two_runs")
        runs = _Runs(found, p, across.removesuffix("s"))
        try:
            details = {across: len(found)} | ({} if value is None else {"value": value(runs)})
            return Finding(score=score(runs), explanation=said(runs), details=details)
        except ValueError:
            return Finding(skipped="runs_lack_fields")

    return computed(
        requires=(f"metadata.{across}",),
        source="ours: agreement, deviation and range over runs",
        skips=("fewer_than_two_runs", "runs_lack_fields"),
        parameters=RunFields,
        **declared,
    )(compute)


level_consistency = _metric(
    "runs",
    _Runs.same_level,
    _Runs.on_levels,
    name="level_consistency",
    what="Share of runs with the same level.",
    formula="runs with the commonest level / runs",
)
score_consistency = _metric(
    "runs",
    _Runs.steady,
    _Runs.on_deviation,
    name="score_consistency",
    what="How close the scores of several runs are.",
    formula="1 - std / (scale / 2)",
)
score_std = _metric(
    "runs",
    lambda runs: 1 - runs.steady(),
    _Runs.on_deviation,
    _Runs.deviation,
    name="score_std",
    what="Standard deviation of the scores of several runs; the deviation is in the metadata.",
    formula="std / (scale / 2)",
    direction=Direction.LOWER,
)
overall_consistency = _metric(
    "runs",
    lambda runs: weighted_mean([runs.same_level(), runs.steady()]),
    lambda runs: f"Level {runs.same_level():.2f}, score {runs.steady():.2f}.",
    name="overall_consistency",
    what="Consistency of levels and scores of several runs.",
    formula="mean of level_consistency and score_consistency",
)
level_agreement = _metric(
    "models",
    _Runs.same_level,
    _Runs.on_levels,
    name="level_agreement",
    what="Share of models that agree on the level.",
    formula="models with the commonest level / models",
)
score_range = _metric(
    "models",
    lambda runs: 1 - runs.near(),
    _Runs.on_range,
    _Runs.range,
    name="score_range",
    what="Largest minus smallest score across models; the range is in the metadata.",
    formula="(max - min) / scale",
    direction=Direction.LOWER,
)
confidence_agreement = _metric(
    "models",
    _Runs.equally_confident,
    _Runs.on_confidences,
    name="confidence_agreement",
    what="How close the models' confidences are.",
    formula="1 - (max - min)",
)
cross_model_agreement = _metric(
    "models",
    lambda runs: weighted_mean([runs.same_level(), runs.near(), runs.equally_confident()]),
    _Runs.on_agreement,
    name="cross_model_agreement",
    what="Agreement of models on level, score and confidence.",
    formula="mean of level agreement, 1 - range / scale, confidence agreement",
)


def _answers(interaction: Interaction) -> list[str]:
    return [str(each) for each in lookup_list(interaction, "metadata.answers")]


@computed(
    version="2",
    formula="mean cosine of embeddings over all pairs of the first 20",
    requires=("metadata.answers",),
    source="Reimers and Gurevych 2019, Sentence-BERT (arXiv:1908.10084)",
    backend="embedding model",
    skips=("fewer_than_two_runs", NEEDS_EMBEDDING),
    embeds=True,
)
def semantic_similarity(interaction: Interaction, _: NoParameters) -> Finding:
    """How alike several answers to the same question are in meaning."""
    answers = _answers(interaction)[:_MOST_ANSWERS]
    if len(answers) < _LEAST:
        return Finding(skipped="fewer_than_two_runs")
    similarity = configured_similarity()
    if similarity is None:
        return Finding(skipped=NEEDS_EMBEDDING)
    pairs = [similarity(a, b) for a, b in combinations(answers, 2)]
    mean = weighted_mean(pairs)
    said = (
        f"{count(len(pairs), 'pair')} of answers: mean cosine {mean:.2f}, least {min(pairs):.2f}."
    )
    return Finding(score=mean, explanation=said, details={"answers": len(answers)})


def groups_of_equal(answers: Sequence[str], alike: Similarity | None = None) -> list[float]:
    """
    Count answers that mean the same, the first of each group deciding.

    Equal words are equal, ignoring case, spaces and the full stop at the end; *alike* finds other
    words of the same meaning, by a cosine of at least 0.9.
    """
    counts: dict[str, float] = {}
    for answer in (" ".join(each.split()).casefold().rstrip(".!") for each in answers):
        near = (each for each in counts if alike and alike(each, answer) >= _SAME_MEANING)
        known = answer if answer in counts or alike is None else next(near, answer)
        counts[known] = counts.get(known, 0.0) + 1
    return list(counts.values())


@computed(
    version="2",
    formula="-Σ p log2 p over groups of one meaning, over log2 n; the bits are in the metadata",
    requires=("metadata.answers",),
    source="Farquhar et al. 2024, semantic entropy (Nature 630)",
    backend="embedding model; of answers of at most three words the words decide",
    direction=Direction.LOWER,
    skips=("fewer_than_two_runs", NEEDS_EMBEDDING),
    embeds=True,
)
def answer_uncertainty(interaction: Interaction, _: NoParameters) -> Finding:
    """How much sampled answers to the same question differ in meaning."""
    answers = _answers(interaction)
    if len(answers) < _LEAST:
        return Finding(skipped="fewer_than_two_runs")
    alike = configured_similarity()
    weights = groups_of_equal(answers, alike)
    terse = all(len(answer.split()) <= _TERSE for answer in answers)
    if alike is None and len(weights) > 1 and not terse:
        return Finding(skipped=NEEDS_EMBEDDING)  # other words may mean the same
    groups = f"{count(len(answers), 'answer')} in {count(len(weights), 'group')} of one meaning"
    return Finding(
        score=normalised_entropy(weights, most=len(answers)),
        explanation=f"{groups}; the largest has {max(weights):g}.",
        details={"bits": round(entropy_bits(weights), 6)},
    )
