"""
The answer against its query, and against what was expected: a reference answer, and the
abilities that the RGB benchmark names (noise, missing answers, false passages, several passages).

Three metrics ask whether the answer serves the query and mean different things: `relevance` (in
`groundedness.py`) is one verdict on the whole answer, `answer_relevancy` the share of its sentences
that serve the query, and `answer_relevance` how near questions made from the answer come to it.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from monitor.format import count
from monitor.models import FactualAccuracyEvaluation, Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    NEEDS_EMBEDDING,
    Answers,
    Criterion,
    Form,
    NoParameters,
    asked,
    computed,
    configured_similarity,
    lookup_list,
    named_share,
)
from monitor.scoring.measures import share, weighted_mean
from monitor.scoring.metrics.retrieval import passage_ids, relevant_ids
from monitor.scoring.sentences import is_checkable, is_refusal, split_sentences

_RGB = "Chen et al. 2023, RGB (arXiv:2309.01431)"
WRONG_SENTENCES = Criterion(
    "wrong_sentences",
    "Which sentences of the answer are not supported by the reference?",
    Form.SENTENCES,
)
COVERED_REFERENCE = Criterion(
    "reference_in_answer",
    "Which sentences of the reference does the answer also state?",
    Form.REFERENCE,
)


answer_relevancy = named_share(
    Criterion(
        "irrelevant_sentences",
        "Which sentences of the answer do nothing to answer the query?",
        Form.SENTENCES,
    ),
    "sentences",
    good=False,
    noted="irrelevant",
    name="answer_relevancy",
    version="2",
    what="Share of the answer's sentences that address the query.",
    formula="relevant sentences / sentences",
    requires=("query", "output"),
    source="DeepEval, AnswerRelevancyMetric",
    skips=("right_refusal",),
)


@asked(
    Criterion(
        "questions",
        "Write three questions, in the words of the answer, to which the answer would be the"
        " reply.",
        Form.TEXTS,
    ),
    version="3",
    formula="1/n Σ cosine(query, question made from the answer), of embeddings",
    requires=("query", "output"),
    source="Es et al. 2023, RAGAS (arXiv:2309.15217)",
    skips=(NEEDS_EMBEDDING, "right_refusal"),
    embeds=True,
)
def answer_relevance(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """How near questions made from the answer are to the query."""
    similarity = configured_similarity()
    if similarity is None:
        return Finding(skipped=NEEDS_EMBEDDING)
    near = [similarity(interaction.query or "", text) for text in answers["questions"].texts[:5]]
    said = ", ".join(f"{each:.2f}" for each in near)
    return Finding(
        score=weighted_mean(near),
        explanation=f"Nearness of questions made from the answer: {said}.",
        details={"similarities": [round(x, 4) for x in near]},
    )


class Correctness(NoParameters):
    """How much verification weighs against similarity."""

    faithful_weight: float = Field(0.6, ge=0, le=1)


@asked(
    WRONG_SENTENCES,
    version="2",
    formula="0.6 sentences supported by the reference + 0.4 cosine of embeddings; without an"
    " embedding model the sentences alone",
    requires=("output", "expected.answer"),
    source="RAGAS, answer correctness",
    parameters=Correctness,
    pass_score=0.6,
    embeds=True,
)
def answer_correctness(answers: Answers, interaction: Interaction, p: Correctness) -> Finding:
    """Whether the answer agrees with the reference."""
    said = answers["wrong_sentences"]
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
    Criterion(
        "major_sentences",
        "Which sentences of the answer carry its main claims, rather than side remarks?",
        Form.SENTENCES,
    ),
    formula="Σ importance · verified / Σ importance",
    requires=("output", "expected.answer"),
    source="ours: claim verification weighted by importance",
    parameters=Importance,
    record=FactualAccuracyEvaluation,
)
def factual_accuracy(answers: Answers, _: Interaction, p: Importance) -> Finding:
    """Share of the claims that agree with the ground truth, main claims counting twice."""
    said, major = answers["wrong_sentences"], answers["major_sentences"].numbers
    claims: list[dict[str, Any]] = [
        {
            "claim": text[:300],
            "verified": number not in said.numbers,
            "importance": p.major if number in major else p.minor,
        }
        for number, text in enumerate(answers.sentences, start=1)
    ]
    verified, importance = ([each[of] for each in claims] for of in ("verified", "importance"))
    return Finding(
        score=weighted_mean(verified, importance),
        explanation=said.reasoning,
        details={"factual_claims": claims[:50], "hallucination_detected": bool(said.numbers)},
    )


def _covered(answers: Answers) -> float:
    """Return the share of the sentences of ``expected.answer`` that the answer also states."""
    return share(len(answers["reference_in_answer"].numbers), len(answers.reference))


@asked(
    COVERED_REFERENCE,
    Criterion(
        "synthesis",
        "How well does the answer combine facts from several passages, correctly and without gaps?",
    ),
    formula="0.6 covered facts / facts + 0.4 synthesis",
    requires=("output", "contexts", "expected.answer"),
    source=_RGB,
)
def information_integration(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """How much of the reference the answer covers, and how well it combines passages."""
    covered, said = _covered(answers), answers["synthesis"]
    synthesis = said.score or 0.0
    return Finding(
        score=0.6 * covered + 0.4 * synthesis,
        explanation=said.reasoning,
        details={"coverage": covered, "synthesis": synthesis},
    )


def _noise(interaction: Interaction) -> int:
    """Return how many passages are not relevant."""
    return sum(each not in relevant_ids(interaction) for each in passage_ids(interaction))


@asked(
    COVERED_REFERENCE,
    version="2",
    formula="covered facts / facts, where at least one passage is not in expected.relevant",
    requires=("output", "contexts", "expected.answer", "expected.relevant"),
    source=_RGB,
    skips=("no_noise",),
    unmet_too=lambda interaction: None if _noise(interaction) > 0 else "no_noise",
)
def noise_robustness(answers: Answers, interaction: Interaction, _: NoParameters) -> Finding:
    """Whether the answer is right although some passages are useless."""
    stated, noise = len(answers["reference_in_answer"].numbers), _noise(interaction)
    facts = f"{stated} of {count(len(answers.reference), 'sentence')} of the reference"
    return Finding(
        score=_covered(answers),
        explanation=f"The answer states {facts}; {count(noise, 'passage')} of no use.",
        details={"noise": noise},
    )


@asked(
    Criterion(
        "noticed_false",
        "Which of the passages does the answer recognise as false or contradicted?",
        Form.PASSAGES,
    ),
    formula="false passages recognised / false passages",
    requires=("output", "contexts", "expected.false_passages"),
    source=_RGB,
)
def counterfactual_robustness(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """Whether the answer recognises passages that are false."""
    said = answers["noticed_false"]
    ids, wanted = passage_ids(interaction), lookup_list(interaction, "expected.false_passages")
    names = {str(n) for n in said.numbers} | {ids[n - 1] for n in said.numbers}
    noticed = sum(str(each) in names for each in wanted)
    return Finding(score=share(noticed, len(wanted)), explanation=said.reasoning)


@asked(
    Criterion(
        "acknowledged",
        "Of the contradictions listed in `expected`, what share does the answer point out?",
    ),
    formula="contradictions identified / contradictions",
    requires=("output", "contexts", "expected.contradictions"),
    source=_RGB,
)
def contradiction_handling(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """
    Share of the contradictions between passages that the answer points out, as the judge
    estimates it.
    """
    said = answers["acknowledged"]
    actual = len(lookup_list(interaction, "expected.contradictions"))
    identified = round((said.score or 0.0) * actual)
    return Finding(
        score=share(identified, actual),
        explanation=said.reasoning,
        details={"identified": identified, "actual": actual},
    )


#: Where a refusal sends its reader instead: "Please contact support at 0800 123."
_ELSEWHERE = re.compile(
    r"\W*(?:(?:please|instead|you (?:can|could|may)|feel free to|for [^,.]{1,60},|bitte|veuillez"
    r"|por favor)\W+){0,3}(?:contact|reach|e-?mail|phone|call|ask(?! for\b)|visit|write to|consult"
    r"|kontaktieren|wenden sie|contacte[rz]|appele[rz]|contacto|comun[ií]quese)\b",
    re.IGNORECASE,
)
#: Where such a sentence goes on with something else.
_GOES_ON = re.compile(
    r";|\b(?:because|since|but|and (?:you|it|they|we|the)|weil|denn|aber|parce que|porque|pero)\b",
    re.IGNORECASE,
)


@computed(
    version="3",
    formula="declined / questions with expected.unanswerable",
    requires=("output", "expected.unanswerable"),
    source=_RGB,
    backend="computed, refusals by their wording",
    skips=("answerable",),
)
def negative_rejection(interaction: Interaction, _: NoParameters) -> Finding:
    """
    Whether a question without an answer is declined; the window's mean is the rate.

    A refusal may say whom to ask instead, with a number or times.
    """
    if not (interaction.expected or {}).get("unanswerable"):
        return Finding(skipped="answerable")
    sentences = split_sentences(interaction.output)
    said = [
        part
        for each in sentences
        for part in (_GOES_ON.split(each)[1:] if _ELSEWHERE.match(each) else [each])
    ]
    declined = any(map(is_refusal, sentences)) and not any(map(is_checkable, said))
    why = "It declines." if declined else "It answers where nothing is known."
    return Finding(score=float(declined), explanation=why)
