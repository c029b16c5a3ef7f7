"""What counts as evidence for an answer, and what a refusal says of it."""

import pytest

from monitor.metrics import evaluate
from monitor.scoring import entailment
from monitor.scoring.entailment import clear_cache
from monitor.settings import Settings
from support.criteria_replies import answer_criteria, asks_criteria
from support.judge_replies import Question, canary_of
from support.judge_server import JudgeServer

PASSAGES = [
    {"text": "Refunds are paid back to the original card within five working days.", "source": "a"},
    {"text": "Our shops are open from 9 to 18 on weekdays.", "source": "b"},
    {"text": "Parcels leave Lyon on Mondays.", "source": "c"},
]
RECORD = {"query": "How long do refunds take?", "contexts": PASSAGES}
WRONG_REFUSAL = RECORD | {"output": "I could not find that in the documents."}
RIGHT_REFUSAL = WRONG_REFUSAL | {"query": "Who founded the company?"}


@pytest.mark.parametrize(
    ("output", "diversity", "passes"),
    [
        (PASSAGES[0]["text"], 1 / 3, True),
        (" ".join(each["text"] for each in PASSAGES), 1.0, True),
        ("Refunds take ninety days and cost 40 dollars.", 0.0, False),
    ],
)
def test_only_passages_that_support_a_claim_are_evidence(output, diversity, passes):
    [[found]] = evaluate(RECORD | {"output": output}, "evidence_quality")
    assert found.metadata["diversity"] == pytest.approx(diversity)
    assert (found.score >= found.criteria["pass_score"]) == passes


def test_evidence_compares_no_claim_with_a_passage_that_citations_have_compared():
    clear_cache()
    record = RECORD | {"output": "Refunds take five working days [1]. Parcels leave Lyon [3]."}
    evaluate(record, "citation_completeness")
    compared = entailment._supports.cache_info().misses
    evaluate(record, "evidence_quality")
    assert entailment._supports.cache_info().misses == compared > 0


@pytest.mark.parametrize("metric", ["groundedness", "relevance", "faithfulness"])
def test_wrong_refusal_fails_and_a_right_one_is_skipped(metric):
    [wrong], [right] = evaluate([WRONG_REFUSAL, RIGHT_REFUSAL], metric)
    assert wrong.score < wrong.criteria["pass_score"]
    assert right.score is None


def declined(request):
    """Judge that an answer declines, rightly unless it is about refunds."""
    if asks_criteria(request):
        return answer_criteria(request, canary_of(request))
    question = Question(request)
    rows = [{"number": n, "claim": "", "verdict": "no_claim", "quote": ""} for n in question.asked]
    held = PASSAGES[0]["text"] if "How long do refunds" in str(request) else ""
    said = {"answered": "refusal", "answered_reason": held}
    return {"canary": question.canary, "verdicts": rows} | said


@pytest.mark.parametrize("asks_groundedness", [True, False])
def test_right_refusal_is_no_irrelevant_answer_where_the_judge_knows(asks_groundedness):
    names = ["groundedness", "answer_relevancy"][not asks_groundedness :]
    with JudgeServer() as server:
        server.reply = declined
        settings = Settings(scorer="judge", openai_base_url=server.url, openai_api_key="k")
        wrong, right = evaluate([WRONG_REFUSAL, RIGHT_REFUSAL], names, settings=settings)
    assert wrong[-1].score == 0.0
    assert right[-1].reason == ("right_refusal" if asks_groundedness else "")


@pytest.mark.parametrize(
    "metric", ["evidence_quality", "contradicted_contexts", "citation_accuracy"]
)
def test_refusal_states_nothing_that_is_contradicted_cited_or_has_evidence(metric):
    found = evaluate([WRONG_REFUSAL, RIGHT_REFUSAL], metric)
    assert {each.score for [each] in found} == {None}
