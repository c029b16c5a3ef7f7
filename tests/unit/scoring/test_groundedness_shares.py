"""Groundedness, hallucination and faithfulness follow from the same verdicts."""

import pytest

from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.metrics import METRICS
from monitor.testing import make_interaction

S, C, N, U, O, R, D = (  # noqa: E741
    ClaimVerdict.SUPPORTED,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_FOUND,
    ClaimVerdict.UNVERIFIED,
    ClaimVerdict.NO_CLAIM,
    ClaimVerdict.WRONG_REFUSAL,
    ClaimVerdict.UNDECIDED,
)


def judged(*verdicts, notes=()):
    claims = tuple(
        Claim(text=f"claim {number}", verdict=verdict, support=float(verdict is S))
        for number, verdict in enumerate(verdicts)
    )
    return Judgement(claims=claims, notes=notes)


def finding(*verdicts, notes=()):
    return METRICS["groundedness"].read(judged(*verdicts, notes=notes), None, None)


@pytest.mark.parametrize(
    ("verdicts", "score", "hallucination", "faithfulness"),
    [
        ((S, S), 1.0, 0.0, 1.0),
        ((S, N), 0.5, 0.5, 0.5),
        ((S, U), 0.5, 0.5, 0.5),
        ((S, C), 0.5, 0.5, 0.5),
        ((C, C, O), 0.0, 1.0, 0.0),
        ((R,), 0.0, 1.0, 0.0),
        ((S, D), 0.5, 0.0, 1.0),
        ((N, D, D, S), 0.25, 0.5, 0.5),
    ],
)
def test_shares_follow_from_the_verdicts(verdicts, score, hallucination, faithfulness):
    found = finding(*verdicts)
    assert found.score == pytest.approx(score)
    assert found.details["hallucination"] == hallucination
    assert found.details["faithfulness"] == faithfulness
    judgement = judged(*verdicts)
    for name, expected in (("hallucination", hallucination), ("faithfulness", faithfulness)):
        metric = METRICS[name]
        one = metric.read(judgement, make_interaction(), metric.declaration.parameters())
        assert one.score == expected


def test_contradicted_and_absent_claims_are_counted_separately():
    assert finding(S, C, N, N).details["verdicts"] == {
        "contradicted": 1,
        "not_found": 2,
        "supported": 1,
    }


def test_explanation_lists_contradictions_first():
    explanation = finding(N, C, U).explanation
    assert explanation.index("contradicted") < explanation.index("not found")


def test_wrong_refusal_is_not_explained_as_a_contradiction():
    said = 'declined, though the passages hold the answer: "claim 0"'
    assert finding(R).explanation == f"0 of 1 claim is supported; {said}."
    interaction = make_interaction()
    found = METRICS["hallucination"].read(judged(R), interaction, None).explanation
    assert found.startswith("0 of 1 claim is contradicted, 0 not found, 1 declined")
    contradicted = METRICS["contradicted_contexts"].read(judged(R), interaction, None)
    assert contradicted.skipped == "no_claim"


def test_contradiction_without_its_place_is_of_one_passage():
    interaction = make_interaction(contexts=["a", "b"])
    found = METRICS["contradicted_contexts"].read(judged(C, C), interaction, None)
    assert (found.score, found.details) == (0.5, {"passages": []})


@pytest.mark.parametrize("name", ["faithfulness", "hallucination"])
def test_shares_of_claims_leave_out_those_that_are_undecided(name):
    metric = METRICS[name]
    assert metric.read(judged(D), make_interaction(), metric.declaration.parameters()).skipped == (
        "undecided"
    )
    some = metric.read(judged(S, D), make_interaction(), metric.declaration.parameters())
    assert some.explanation.endswith("; 1 undecided, left out.")
    assert finding(D).explanation == '0 of 1 claim is surely supported; undecided: "claim 0".'


@pytest.mark.parametrize(
    "name", ["groundedness", "faithfulness", "hallucination", "grounding_score", "evidence_quality"]
)
def test_answer_that_words_cannot_judge_is_skipped_by_all_metrics_of_claims(name):
    metric = METRICS[name]
    claims = judged(N).claims
    unreadable = Judgement(claims=claims, groundedness=0.1, readable=False)
    found = metric.read(unreadable, make_interaction(), metric.declaration.parameters())
    assert (found.skipped, found.score) == ("unsupported_text", None)


def test_notes_end_the_explanation_when_there_are_some():
    assert finding(S, notes=("contexts_packed: kept 1 of 2 characters",)).explanation.endswith(
        "1 of 1 claim is supported. contexts_packed: kept 1 of 2 characters."
    )
