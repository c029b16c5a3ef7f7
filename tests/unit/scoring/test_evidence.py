"""What counts as evidence for an answer, and what a refusal says of it."""

import pytest

from monitor.metrics import evaluate

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


@pytest.mark.parametrize("metric", ["groundedness", "relevance", "faithfulness"])
def test_wrong_refusal_fails_and_a_right_one_is_skipped(metric):
    [wrong], [right] = evaluate([WRONG_REFUSAL, RIGHT_REFUSAL], metric)
    assert wrong.score < wrong.criteria["pass_score"]
    assert right.score is None


@pytest.mark.parametrize(
    "metric", ["evidence_quality", "contradicted_contexts", "citation_accuracy"]
)
def test_refusal_states_nothing_that_is_contradicted_cited_or_has_evidence(metric):
    found = evaluate([WRONG_REFUSAL, RIGHT_REFUSAL], metric)
    assert {each.score for [each] in found} == {None}
