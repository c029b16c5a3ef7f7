"""What the judge is asked about passages, answer and reference, in one shared call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answers,
    Cost,
    Criterion,
    Declaration,
    Form,
    Metric,
    NoParameters,
    RubricMetric,
)
from monitor.scoring.evaluators.retrieval import relevant_ids
from monitor.scoring.metrics import context, integration
from monitor.scoring.metrics.similarity import lexical_cosine

IRRELEVANT = Criterion(
    "irrelevant_sentences",
    "Which sentences of the answer do nothing to answer the query?",
    Form.SENTENCES,
)
RELEVANT_PASSAGES = Criterion(
    "relevant_passages",
    "Which passages hold information that helps to answer the query?",
    Form.PASSAGES,
)
USEFUL_SENTENCES = Criterion(
    "useful_share",
    "What share of the sentences of all passages together is needed to answer the query?",
)
QUESTIONS = Criterion(
    "questions",
    "Write three questions, in the words of the answer, to which the answer would be the reply.",
    Form.TEXTS,
)
FOUND_REFERENCE = Criterion(
    "reference_in_passages",
    "Which sentences of the reference are wholly supported by the passages?",
    Form.REFERENCE,
)
COVERED_REFERENCE = Criterion(
    "reference_in_answer",
    "Which sentences of the reference does the answer also state?",
    Form.REFERENCE,
)
WRONG_SENTENCES = Criterion(
    "wrong_sentences",
    "Which sentences of the answer are not supported by the reference?",
    Form.SENTENCES,
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


def _asked(  # noqa: PLR0913 - one argument a column of the table
    name: str,
    what: str,
    formula: str,
    requires: tuple[str, ...],
    source: str,
    criteria: tuple[Criterion, ...],
    *,
    skips: tuple[str, ...] = (),
    parameters: type[NoParameters] = NoParameters,
    unmet_too: Callable[[Interaction], str | None] = lambda _: None,
) -> Callable[[Callable[[Answers, Interaction, Any], Finding]], RubricMetric]:
    declaration = Declaration(
        name=name,
        what=what,
        formula=formula,
        requires=requires,
        source=source,
        backend="judge, in the second shared call",
        cost=Cost.JUDGE,
        skips=("needs_judge", *skips),
        parameters=parameters,
    )
    return lambda read: RubricMetric(declaration, lambda _: criteria, read, unmet_too=unmet_too)


@_asked(
    "answer_relevancy",
    "Share of the answer's statements that address the query.",
    "relevant statements / statements",
    ("query", "output"),
    "seed 001, DeepEval Metrics",
    (IRRELEVANT,),
)
def answer_relevancy(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count sentences."""
    said = answers[IRRELEVANT.name]
    share = integration.share_of(said.numbers, len(answers.sentences))
    return Finding(
        score=1 - share, explanation=said.reasoning, details={"irrelevant": list(said.numbers)}
    )


@_asked(
    "contextual_relevancy",
    "Share of the passages that help to answer the query.",
    "relevant passages / passages",
    ("query", "contexts"),
    "seed 001, DeepEval Metrics",
    (RELEVANT_PASSAGES,),
)
def contextual_relevancy(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count passages."""
    said = answers[RELEVANT_PASSAGES.name]
    return Finding(
        score=integration.share_of(said.numbers, len(answers.places)),
        explanation=said.reasoning,
        details={"relevant": list(said.numbers)},
    )


@_asked(
    "contextual_precision",
    "Whether the passages that help come before those that do not.",
    "Σ precision@i · relevant_i / Σ relevant_i",
    ("query", "contexts"),
    "seed 002, Context Precision (DeepEval)",
    (RELEVANT_PASSAGES,),
)
def contextual_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Score the order of the passages as the app gave them."""
    said = answers[RELEVANT_PASSAGES.name]
    flags = [place in said.numbers for place in answers.places]
    return Finding(score=context.ranked_precision(flags), explanation=said.reasoning)


@_asked(
    "context_precision",
    "Share of the passages' sentences that are needed for the answer.",
    "relevant sentences / sentences",
    ("query", "contexts"),
    "seed 002, Context Precision (RAGAS; the judge estimates the share)",
    (USEFUL_SENTENCES,),
)
def context_precision(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Take the judge's estimate of the share."""
    said = answers[USEFUL_SENTENCES.name]
    return Finding(score=said.score, explanation=said.reasoning)


@_asked(
    "context_recall",
    "Share of the reference's statements that the passages hold.",
    "statements of the reference found in the passages / statements of the reference",
    ("contexts", "expected.answer"),
    "seed 002, Context Recall",
    (FOUND_REFERENCE,),
)
def context_recall(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count sentences of ``expected.answer``."""
    said = answers[FOUND_REFERENCE.name]
    found = [place in said.numbers for place in range(1, len(answers.reference) + 1)]
    return Finding(score=context.context_recall(found), explanation=said.reasoning)


@_asked(
    "answer_relevance",
    "How near questions made from the answer are to the query.",
    "1/n Σ sim(query, question made from the answer); sim by word stems, not embeddings",
    ("query", "output"),
    "seed 002, Answer Relevance (RAGAS)",
    (QUESTIONS,),
)
def answer_relevance(answers: Answers, interaction: Interaction, _: NoParameters) -> Finding:
    """Compare the judge's questions with the query."""
    texts = answers[QUESTIONS.name].texts
    near = [lexical_cosine(interaction.query or "", text) for text in texts]
    return Finding(
        score=context.answer_relevance(near), details={"similarities": [round(x, 4) for x in near]}
    )


@_asked(
    "answer_correctness",
    "Whether the answer agrees with the reference.",
    "0.6 statements supported by the reference + 0.4 similarity by word stems",
    ("output", "expected.answer"),
    "seed 002, Answer Correctness",
    (WRONG_SENTENCES,),
    parameters=Correctness,
)
def answer_correctness(answers: Answers, interaction: Interaction, p: Correctness) -> Finding:
    """Verify against ``expected.answer``."""
    said = answers[WRONG_SENTENCES.name]
    faithful = 1 - integration.share_of(said.numbers, len(answers.sentences))
    similarity = lexical_cosine(interaction.output, str((interaction.expected or {})["answer"]))
    return Finding(
        score=context.answer_correctness(faithful, similarity, p.faithful_weight),
        explanation=said.reasoning,
        details={"faithful": faithful, "similarity": round(similarity, 4)},
    )


@_asked(
    "information_integration",
    "How much of the reference the answer covers, and how well it combines passages.",
    "0.6 covered facts / facts + 0.4 synthesis",
    ("output", "contexts", "expected.answer"),
    "seed 002, Information Integration Metric; RGB",
    (COVERED_REFERENCE, SYNTHESIS),
)
def information_integration(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
    """Count facts of ``expected.answer`` by its sentences."""
    covered = integration.share_of(answers[COVERED_REFERENCE.name].numbers, len(answers.reference))
    synthesis = answers[SYNTHESIS.name].score or 0.0
    return Finding(
        score=integration.information_integration(covered, synthesis),
        explanation=answers[SYNTHESIS.name].reasoning,
        details={"coverage": covered, "synthesis": synthesis},
    )


def _noise(interaction: Interaction) -> str | None:
    useless = len(interaction.contexts) - len(relevant_ids(interaction))
    return None if useless > 0 else "no_noise"


@_asked(
    "noise_robustness",
    "Whether the answer is right although some passages are useless.",
    "covered facts / facts, where at least one passage is not in expected.relevant",
    ("output", "contexts", "expected.answer", "expected.relevant"),
    "seed 002, RGB: noise robustness",
    (COVERED_REFERENCE,),
    skips=("no_noise",),
    unmet_too=_noise,
)
def noise_robustness(answers: Answers, interaction: Interaction, _: NoParameters) -> Finding:
    """Count facts of ``expected.answer`` by its sentences."""
    covered = integration.share_of(answers[COVERED_REFERENCE.name].numbers, len(answers.reference))
    noise = len(interaction.contexts) - len(relevant_ids(interaction))
    return Finding(score=integration.noise_robustness(covered, noise), details={"noise": noise})


@_asked(
    "counterfactual_robustness",
    "Whether the answer recognises passages that are false.",
    "false passages recognised / false passages",
    ("output", "contexts", "expected.false_passages"),
    "seed 002, RGB: counterfactual robustness",
    (NOTICED_FALSE,),
)
def counterfactual_robustness(
    answers: Answers, interaction: Interaction, _: NoParameters
) -> Finding:
    """Compare with ``expected.false_passages``, places from 1."""
    said = answers[NOTICED_FALSE.name]
    wanted = [int(place) for place in (interaction.expected or {})["false_passages"]]
    return Finding(
        score=integration.counterfactual_robustness([n in said.numbers for n in wanted]),
        explanation=said.reasoning,
    )


@_asked(
    "contradiction_handling",
    "Share of the contradictions between passages that the answer points out.",
    "contradictions identified / contradictions",
    ("output", "contexts", "expected.contradictions"),
    "seed 002, Contradiction Detection",
    (ACKNOWLEDGED,),
)
def contradiction_handling(answers: Answers, interaction: Interaction, _: NoParameters) -> Finding:
    """Count against ``expected.contradictions``."""
    actual = len((interaction.expected or {})["contradictions"])
    identified = round((answers[ACKNOWLEDGED.name].score or 0.0) * actual)
    return Finding(
        score=integration.contradiction_handling(identified, actual),
        explanation=answers[ACKNOWLEDGED.name].reasoning,
        details={"identified": identified, "actual": actual},
    )


METRICS: tuple[Metric, ...] = (
    answer_relevancy,
    contextual_relevancy,
    contextual_precision,
    context_precision,
    context_recall,
    answer_relevance,
    answer_correctness,
    information_integration,
    noise_robustness,
    counterfactual_robustness,
    contradiction_handling,
)
