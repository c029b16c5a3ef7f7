"""Length of the answer against the expected range."""
# ruff: noqa: RUF001 - the typographic apostrophe is meant

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from monitor.models import Interaction, LengthEvaluation
from monitor.models.evaluators import LengthAppropriateness
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Metric, NoParameters, computed
from monitor.scoring.sentences import split_sentences


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
    counted = measure(interaction.output)
    verdict = appropriateness(counted.words, p.min_words, p.max_words)
    return Finding(
        score=length_score(counted.words, p.min_words, p.max_words),
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


# --- length ---
# Length of a response against what is expected (seed 004, "Length Evaluator").


_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True, slots=True)
class Length:
    """What was counted."""

    characters: int
    words: int
    sentences: int


def measure(text: str) -> Length:
    """Count characters, words and sentences."""
    return Length(len(text), len(_WORD.findall(text)), len(split_sentences(text)))


def appropriateness(words: int, least: int, most: int) -> LengthAppropriateness:
    """Compare a number of words with the expected range, ends included."""
    if words < least:
        return LengthAppropriateness.TOO_SHORT
    return LengthAppropriateness.TOO_LONG if words > most else LengthAppropriateness.APPROPRIATE


def length_score(words: int, least: int, most: int) -> float:
    """
    1 within the range, words / least below it, most / words above it; in [0, 1].

    The seed's example scores an appropriate length 0.9 and gives no formula.
    """
    if words < least:
        return words / least
    return most / words if words > most else 1.0
