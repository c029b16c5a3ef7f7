"""Dimensions of quality that the judge scores with reasons and suggestions."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from monitor.models import (
    Evaluation,
    FactualAccuracyEvaluation,
    Interaction,
    QualityEvaluation,
    RelevanceEvaluation,
)
from monitor.scoring.base import Finding
from monitor.scoring.declaration import (
    Answer,
    Answers,
    Cost,
    Criterion,
    Declaration,
    Form,
    Metric,
    NoParameters,
    RubricMetric,
)
from monitor.scoring.evaluators.asked_context import WRONG_SENTENCES
from monitor.scoring.metrics import rubric
from monitor.scoring.metrics.weighted import simple_average

_BACKEND = "judge, in the second shared call"
MAJOR_SENTENCES = Criterion(
    "major_sentences",
    "Which sentences of the answer carry its main claims, rather than side remarks?",
    Form.SENTENCES,
)


class Importance(NoParameters):
    """How much a main claim weighs against a side remark."""

    major: float = Field(rubric.MAJOR, gt=0)
    minor: float = Field(rubric.MINOR, gt=0)


def _declaration(
    name: str,
    what: str,
    formula: str,
    requires: tuple[str, ...],
    source: str,
    parameters: type[NoParameters] = NoParameters,
    record: type[Evaluation] = Evaluation,
) -> Declaration:
    return Declaration(
        name=name,
        what=what,
        formula=formula,
        requires=requires,
        source=source,
        backend=_BACKEND,
        cost=Cost.JUDGE,
        skips=("needs_judge",),
        parameters=parameters,
        record=record,
    )


def advice_of(answer: Answer) -> dict[str, list[str]]:
    """List the judge's suggestions, where there are any."""
    return {"suggestions": list(answer.suggestions)} if answer.suggestions else {}


def single(
    declaration: Declaration, question: str, form: Form = Form.SCORE, *, criterion: str = ""
) -> RubricMetric:
    """Make a metric of one question with a score."""
    asked = Criterion(criterion or declaration.name, question, form)

    def read(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
        said = answers[asked.name]
        score, details = said.score, dict[str, object](advice_of(said))
        if form is Form.LEVEL and score is not None:
            level, score = rubric.nearest_level(score)
            details["level"] = level
        return Finding(score=score, explanation=said.reasoning, details=details)

    return RubricMetric(declaration, lambda _: (asked,), read)


def several(
    declaration: Declaration, questions: Mapping[str, str], *, field: str | None = None
) -> RubricMetric:
    """Make a metric of several questions: the mean of their scores, each on record."""
    prefix = declaration.name
    asked = tuple(Criterion(f"{prefix}.{key}", text) for key, text in questions.items())

    def read(answers: Answers, _: Interaction, __: NoParameters) -> Finding:
        scores = {key: answers[f"{prefix}.{key}"].score or 0.0 for key in questions}
        reasons = [f"{key}: {answers[f'{prefix}.{key}'].reasoning}" for key in questions]
        return Finding(
            score=simple_average(scores),
            explanation=" ".join(reasons),
            details={field: scores} if field else dict(scores),
        )

    return RubricMetric(declaration, lambda _: asked, read)


_RUBRIC = "1.0 excellent, 0.8 good, 0.6 acceptable, 0.3 poor, 0.0 failed"


def _rubric(name: str, what: str, requires: tuple[str, ...], question: str) -> RubricMetric:
    source = f"seed 000, {name.replace('_', ' ').title()}"
    return single(_declaration(name, what, _RUBRIC, requires, source), question, Form.LEVEL)


def _dimension(name: str, what: str, question: str) -> RubricMetric:
    source = "seed 001, LLM Judge Metrics"
    return single(
        _declaration(name, what, "the judge's score", ("query", "output"), source), question
    )


def _factual(answers: Answers, _: Interaction, p: Importance) -> Finding:
    wrong = set(answers[WRONG_SENTENCES.name].numbers)
    major = set(answers[MAJOR_SENTENCES.name].numbers)
    places = range(1, len(answers.sentences) + 1)
    weights = [p.major if n in major else p.minor for n in places]
    score = rubric.claim_accuracy([float(n not in wrong) for n in places], weights)
    claims = [
        {"claim": text[:300], "verified": n not in wrong, "importance": weight}
        for n, text, weight in zip(places, answers.sentences, weights, strict=True)
    ]
    return Finding(
        score=score,
        explanation=answers[WRONG_SENTENCES.name].reasoning,
        details={"factual_claims": claims[:50], "hallucination_detected": bool(wrong)},
    )


METRICS: tuple[Metric, ...] = (
    RubricMetric(
        _declaration(
            "factual_accuracy",
            "Share of the claims that agree with the ground truth, main claims counting twice.",
            "Σ importance · verified / Σ importance",
            ("output", "expected.answer"),
            "seed 000, Factual Accuracy; seed 004, Factual Accuracy Evaluator",
            Importance,
            FactualAccuracyEvaluation,
        ),
        lambda _: (WRONG_SENTENCES, MAJOR_SENTENCES),
        _factual,
    ),
    _rubric(
        "completeness",
        "Whether all requested aspects are covered.",
        ("query", "output"),
        "Are all aspects that the query asks for covered? 1.0 all thoroughly, 0.8 most with minor"
        " gaps, 0.6 key aspects, 0.3 major ones missing, 0.0 fundamental ones not addressed.",
    ),
    _rubric(
        "source_quality",
        "Whether appropriate primary sources were used.",
        ("output", "contexts"),
        "Are the passages primary, authoritative sources for this query? 1.0 all, 0.8 mostly,"
        " 0.6 mixed with secondary ones, 0.3 mostly secondary or unreliable, 0.0 none credible.",
    ),
    _rubric(
        "tool_efficiency",
        "Whether the right tools were called a reasonable number of times.",
        ("query", "tool_calls"),
        "Were the right tools called a reasonable number of times? 1.0 optimal, 0.8 minor"
        " inefficiencies, 0.6 some redundancy, 0.3 wrong tools or too many calls, 0.0 misuse.",
    ),
    _dimension("accuracy_score", "Factual correctness.", "How factually correct is the answer?"),
    _dimension(
        "completeness_score",
        "Coverage of what is needed.",
        "How completely does the answer cover what the query needs?",
    ),
    _dimension(
        "consistency_score",
        "Consistency within the answer.",
        "How consistent are the answer's conclusions with each other?",
    ),
    _dimension(
        "actionability_score",
        "Usefulness of recommendations.",
        "How useful and concrete are the answer's recommendations?",
    ),
    single(
        _declaration(
            "data_utilization_score",
            "Use of the data at hand.",
            "the judge's score",
            ("query", "output", "contexts"),
            "seed 001, LLM Judge Metrics",
        ),
        "How well does the answer use the data in the passages?",
    ),
    several(
        _declaration(
            "quality",
            "Overall quality by five dimensions.",
            "mean of relevance, coherence, clarity, completeness, accuracy",
            ("query", "output"),
            "seed 004, Quality Evaluator",
            record=QualityEvaluation,
        ),
        {
            "relevance": "How relevant is the answer to the query?",
            "coherence": "How well do the answer's parts hang together?",
            "clarity": "How clear is the answer's wording?",
            "completeness": "How complete is the answer?",
            "accuracy": "How accurate is the answer?",
        },
        field="dimensions",
    ),
    several(
        _declaration(
            "query_relevance",
            "Relevance by three dimensions, each on record.",
            "mean of query_intent_match, topic_alignment, information_completeness",
            ("query", "output"),
            "seed 004, Relevance Evaluator",
            record=RelevanceEvaluation,
        ),
        {
            "query_intent_match": "How well does the answer meet the intent of the query?",
            "topic_alignment": "How well does the answer keep to the topic of the query?",
            "information_completeness": "How complete is the information for the query?",
        },
    ),
)
