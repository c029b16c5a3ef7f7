"""Length of the answer against the expected range."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from monitor.models import Interaction, LengthEvaluation
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Metric, NoParameters, computed
from monitor.scoring.metrics import length as formulas


class Range(NoParameters):
    """How many words are right."""

    min_words: int = Field(1, ge=1)
    max_words: int = Field(400, ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_words > self.max_words:
            raise ValueError("min_words must not be above max_words")
        return self


@computed(
    name="length",
    what="Whether the answer is as long as it should be.",
    formula="1 in the range, words / min below, max / words above",
    requires=("output",),
    source="seed 004, Length Evaluator",
    backend="computed",
    parameters=Range,
    record=LengthEvaluation,
)
def length(interaction: Interaction, p: Range) -> Finding:
    """Count; the document's fields are in the metadata."""
    counted = formulas.measure(interaction.output)
    verdict = formulas.appropriateness(counted.words, p.min_words, p.max_words)
    return Finding(
        score=formulas.length_score(counted.words, p.min_words, p.max_words),
        explanation=f"{counted.words} words: {verdict.value.replace('_', ' ')}.",
        details={
            "character_count": counted.characters,
            "word_count": counted.words,
            "sentence_count": counted.sentences,
            "expected_length_range": {"min_words": p.min_words, "max_words": p.max_words},
            "length_appropriateness": verdict.value,
        },
    )


METRICS: tuple[Metric, ...] = (length,)
