"""Length of a response against what is expected (seed 004, "Length Evaluator")."""

# ruff: noqa: RUF001 - the typographic apostrophe is meant
from __future__ import annotations

import re
from dataclasses import dataclass

from monitor.models.evaluators import LengthAppropriateness
from monitor.scoring.sentences import split_sentences

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
