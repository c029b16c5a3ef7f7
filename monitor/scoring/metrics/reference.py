"""
The answer against what was expected of it: a reference answer, and the abilities that the RGB
benchmark names (noise, missing answers, false passages, several passages at once).
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from monitor.models import FactualAccuracyEvaluation, Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answers,
    Criterion,
    Form,
    Metric,
    NoParameters,
    asked,
    computed,
)
from monitor.scoring.metrics.measures import configured_similarity, share, weighted_mean
from monitor.scoring.metrics.retrieval import relevant_ids
from monitor.scoring.sentences import is_checkable, is_refusal, split_sentences

_RGB = "Chen et al. 2023, RGB (arXiv:2309.01431)"
WRONG_SENTENCES = Criterion(
    "wrong_sentences",
    "Which sentences of the answer are not supported by the reference?",
    Form.SENTENCES,
)
MAJOR_SENTENCES = Criterion(
    "major_sentences",
    "Which sentences of the answer carry its main claims, rather than side remarks?",
    Form.SENTENCES,
)
COVERED_REFERENCE = Criterion(
    "reference_in_answer",
    "Which sentences of the reference does the answer also state?",
    Form.REFERENCE,
)
SYNTHESIS = Criterion(
    "synthesis",
    "How well does the answer combine facts from several passages, correctly and without gaps?",
)
ACKNOWLEDGED = Criterion(
    "acknowledged",
    "Of the contradictions listed in `expected`, what share does the answer point out?",
)
NOTICED_FALSE = Criterion(
    "noticed_false",
    "Which of the passages does the answer recognise as false or contradicted?",
    Form.PASSAGES,
)


class Correctness(NoParameters):
    """How much verification weighs against similarity."""

    faithful_weight: float = Field(0.6, ge=0, le=1)


@asked(
    WRONG_SENTENCES,
    name="answer_correctness",
    what="Whether the answer agrees with the reference.",
    version="2",
    formula="0.6 statements supported by the reference + 0.4 cosine of embeddings; without an"
    " embedding model the statements alone",
    requires=("output", "expected.answer"),
    source="RAGAS, answer correctness",
    parameters=Correctness,
    pass_score=0.6,
    embeds=True,
)
def answer_correctness(answers: Answers, interaction: Interaction, p: Correctness) -> Finding:
    """Verify against ``expected.answer``, and compare the meaning where a model can."""
    said = answers[WRONG_SENTENCES.name]
    faithful = 1 - share(len(said.numbers), len(answers.sentences))
    similarity = configured_similarity()
    if similarity is None:
        return Finding(
            score=faithful,
            explanation=f"{said.reasoning} Similarity is missing: no embedding model.".strip(),
            details={"faithful": faithful, "missing": ["similarity"]},
        )
    near = similarity(interaction.output, str((interaction.expected or {})["answer"]))
    return Finding(
        score=p.faithful_weight * faithful + (1 - p.faithful_weight) * near,
        explanation=said.reasoning,
        details={"faithful": faithful, "similarity": round(near, 4)},
    )


class Importance(NoParameters):
    """How much a main claim weighs against a side remark."""

    major: float = Field(2.0, gt=0)
    minor: float = Field(1.0, gt=0)


@asked(
    WRONG_SENTENCES,
    MAJOR_SENTENCES,
    name="factual_accuracy",
    what="Share of the claims that agree with the ground truth, main claims counting twice.",
    formula="Σ importance · verified / Σ importance",
    requires=("output", "expected.answer"),
    source="ours: claim verification weighted by importance",
    parameters=Importance,
    record=FactualAccuracyEvaluation,
)
def factual_accuracy(answers: Answers, _: Interaction, p: Importance) -> Finding:
    """Verify the sentences one by one; the claims are on record."""
    said = answers[WRONG_SENTENCES.name]
    wrong, major = set(said.numbers), set(answers[MAJOR_SENTENCES.name].numbers)
    numbers = range(1, len(answers.sentences) + 1)
    verified = [number not in wrong for number in numbers]
    importance = [p.major if number in major else p.minor for number in numbers]
    claims = [
        {"claim": text[:300], "verified": holds, "importance": weight}
        for text, holds, weight in zip(answers.sentences, verified, importance, strict=True)
    ]
    return Finding(
        score=weighted_mean(verified, importance),
        explanation=said.reasoning,
        details={"factual_claims": claims[:50], "hallucination_detected": bool(wrong)},
    )


@asked(
    COVERED_REFERENCE,
    SYNTHESIS,
    name="information_integration",
    what="How much of the reference the answer covers, and how well it combines passages.",
    formula="0.6 covered facts / facts + 0.4 synthesis",
    requires=("output", "contexts", "expected.answer"),
    source=_RGB,
)
def information_integration(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count facts of ``expected.answer`` by its sentences."""
    covered = share(len(answers[COVERED_REFERENCE.name].numbers), len(answers.reference))
    said = answers[SYNTHESIS.name]
    synthesis = said.score or 0.0
    return Finding(
        score=0.6 * covered + 0.4 * synthesis,
        explanation=said.reasoning,
        details={"coverage": covered, "synthesis": synthesis},
    )


def _noise(interaction: Interaction) -> int:
    """Return how many passages are not relevant."""
    return len(interaction.contexts) - len(relevant_ids(interaction))


@asked(
    COVERED_REFERENCE,
    name="noise_robustness",
    what="Whether the answer is right although some passages are useless.",
    formula="covered facts / facts, where at least one passage is not in expected.relevant",
    requires=("output", "contexts", "expected.answer", "expected.relevant"),
    source=_RGB,
    skips=("no_noise",),
    unmet_too=lambda interaction: None if _noise(interaction) > 0 else "no_noise",
)
def noise_robustness(answers: Answers, interaction: Interaction, _: NoParameters) -> Finding:
    """Count facts of ``expected.answer`` by its sentences."""
    covered = share(len(answers[COVERED_REFERENCE.name].numbers), len(answers.reference))
    return Finding(score=covered, details={"noise": _noise(interaction)})


@asked(
    NOTICED_FALSE,
    name="counterfactual_robustness",
    what="Whether the answer recognises passages that are false.",
    formula="false passages recognised / false passages",
    requires=("output", "contexts", "expected.false_passages"),
    source=_RGB,
)
def counterfactual_robustness(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """Compare with ``expected.false_passages``, places from 1."""
    said = answers[NOTICED_FALSE.name]
    wanted = [int(place) for place in (interaction.expected or {})["false_passages"]]
    noticed = sum(place in said.numbers for place in wanted)
    return Finding(score=share(noticed, len(wanted)), explanation=said.reasoning)


@asked(
    ACKNOWLEDGED,
    name="contradiction_handling",
    what="Share of the contradictions between passages that the answer points out, as the judge"
    " estimates it.",
    formula="contradictions identified / contradictions",
    requires=("output", "contexts", "expected.contradictions"),
    source=_RGB,
)
def contradiction_handling(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """Turn the estimated share into a count of ``expected.contradictions``."""
    said = answers[ACKNOWLEDGED.name]
    actual = len((interaction.expected or {})["contradictions"])
    identified = round((said.score or 0.0) * actual)
    return Finding(
        score=share(identified, actual),
        explanation=said.reasoning,
        details={"identified": identified, "actual": actual},
    )


#: Whole answers that decline in a word or two.
_TERSE = re.compile(
    r"(?:unanswerable|unknown|n/?a|no (?:answer|information|data)(?: (?:was )?(?:found|available))?"
    r"|not (?:known|specified|stated|given|mentioned|provided|available|found|answerable))\W*",
    re.IGNORECASE,
)


@computed(
    name="negative_rejection",
    version="2",
    what="Whether a question without an answer is declined; the window's mean is the rate.",
    formula="declined / questions with expected.unanswerable",
    requires=("output", "expected.unanswerable"),
    source=_RGB,
    backend="computed, refusals by their wording",
    skips=("answerable",),
)
def negative_rejection(interaction: Interaction, _: NoParameters) -> Finding:
    """Look for a refusal that states nothing besides."""
    if not (interaction.expected or {}).get("unanswerable"):
        return Finding(skipped="answerable")
    sentences = split_sentences(interaction.output)
    declined = bool(_TERSE.fullmatch(interaction.output.strip())) or (
        any(is_refusal(each) for each in sentences)
        and not any(is_checkable(each) for each in sentences)
    )
    return Finding(
        score=float(declined),
        explanation="it declines." if declined else "it answers where nothing is known.",
    )


METRICS: tuple[Metric, ...] = (
    answer_correctness,
    factual_accuracy,
    information_integration,
    noise_robustness,
    counterfactual_robustness,
    contradiction_handling,
    negative_rejection,
)
