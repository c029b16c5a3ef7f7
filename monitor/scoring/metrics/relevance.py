"""
Relevance: does the answer, and what was retrieved, serve the query?

Three metrics ask about the answer and mean different things: `relevance` is one verdict on the
whole answer, `answer_relevancy` the share of its sentences that serve the query, and
`answer_relevance` how near questions made from the answer come to the query.
"""

from __future__ import annotations

from typing import Any

from monitor.models import Interaction
from monitor.models.passing import OWN_LEAST, PassRule
from monitor.scoring.base import Finding, Judgement
from monitor.scoring.declaration import (
    Answers,
    Cost,
    Criterion,
    Form,
    Metric,
    NoParameters,
    asked,
    read,
)
from monitor.scoring.metrics.measures import (
    NEEDS_EMBEDDING,
    configured_similarity,
    named_share,
    weighted_mean,
)

IRRELEVANT = Criterion(
    "irrelevant_sentences",
    "Which sentences of the answer do nothing to answer the query?",
    Form.SENTENCES,
)
QUESTIONS = Criterion(
    "questions",
    "Write three questions, in the words of the answer, to which the answer would be the reply.",
    Form.TEXTS,
)
RELEVANT_PASSAGES = Criterion(
    "relevant_passages",
    "Which passages hold information that helps to answer the query?",
    Form.PASSAGES,
)


@read(
    name="relevance",
    what="Whether the answer as a whole answers the query.",
    formula="calibrated probability (local); yes 1, partly 0.5, no 0 (judge)",
    requires=("output", "query"),
    source="TruLens, RAG Triad",
    backend="local scorer or judge, in the shared call",
    cost=Cost.JUDGE,
    skips=(
        "unsupported_text",
        "nothing_asked",
        "small_talk",
        "instruction",
        "terse_answer",
        "unclear_reference",
        "right_refusal",
    ),
    local_rule=PassRule(OWN_LEAST),
)
def relevance(judgement: Judgement, _: Interaction, __: NoParameters) -> Finding:
    """Read relevance out of a judgement; passages are not needed."""
    if judgement.declined_rightly:
        return Finding(skipped="right_refusal")
    if judgement.relevance is None and judgement.relevance_skipped != "nothing_asked":
        return Finding(skipped=judgement.relevance_skipped)
    if judgement.relevance is None or not judgement.readable:
        return Finding(skipped="nothing_asked" if judgement.readable else "unsupported_text")
    return Finding(score=judgement.relevance, explanation=judgement.relevance_reason)


answer_relevancy = named_share(
    IRRELEVANT,
    "sentences",
    good=False,
    noted="irrelevant",
    name="answer_relevancy",
    what="Share of the answer's statements that address the query.",
    formula="relevant statements / statements",
    requires=("query", "output"),
    source="DeepEval, AnswerRelevancyMetric",
)


contextual_relevancy = named_share(
    RELEVANT_PASSAGES,
    "places",
    noted="relevant",
    name="contextual_relevancy",
    what="Share of the passages that help to answer the query.",
    formula="relevant passages / passages",
    requires=("query", "contexts"),
    source="DeepEval, ContextualRelevancyMetric",
    pass_score=0.5,
)


@asked(
    QUESTIONS,
    name="answer_relevance",
    what="How near questions made from the answer are to the query.",
    version="2",
    formula="1/n Σ cosine(query, question made from the answer), of embeddings",
    requires=("query", "output"),
    source="Es et al. 2023, RAGAS (arXiv:2309.15217)",
    skips=(NEEDS_EMBEDDING,),
    embeds=True,
)
def answer_relevance(answers: Answers, interaction: Interaction, _: Any) -> Finding:
    """Compare the judge's questions with the query."""
    similarity = configured_similarity()
    if similarity is None:
        return Finding(skipped=NEEDS_EMBEDDING)
    texts = answers[QUESTIONS.name].texts
    near = [similarity(interaction.query or "", text) for text in texts]
    return Finding(score=weighted_mean(near), details={"similarities": [round(x, 4) for x in near]})


METRICS: tuple[Metric, ...] = (
    relevance,
    answer_relevancy,
    contextual_relevancy,
    answer_relevance,
)
