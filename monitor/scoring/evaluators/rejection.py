"""Declining where there is no answer."""

from __future__ import annotations

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Metric, NoParameters, computed
from monitor.scoring.entailment import checkable
from monitor.scoring.metrics import integration
from monitor.scoring.refusals import is_refusal
from monitor.scoring.sentences import split_sentences


@computed(
    name="negative_rejection",
    what="Whether a question without an answer is declined; the window's mean is the rate.",
    formula="declined / questions with expected.unanswerable",
    requires=("output", "expected.unanswerable"),
    source="seed 002, RGB: negative rejection",
    backend="computed, refusals by their wording",
    skips=("answerable",),
)
def negative_rejection(interaction: Interaction, _: NoParameters) -> Finding:
    """Look for a refusal that states nothing besides."""
    if not (interaction.expected or {}).get("unanswerable"):
        return Finding(skipped="answerable")
    sentences = split_sentences(interaction.output)
    declined = any(is_refusal(each) for each in sentences) and not checkable(sentences)
    return Finding(
        score=integration.negative_rejection([declined]),
        explanation="it declines." if declined else "it answers where nothing is known.",
    )


METRICS: tuple[Metric, ...] = (negative_rejection,)
