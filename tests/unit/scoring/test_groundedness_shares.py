"""Groundedness, hallucination and faithfulness follow from the same verdicts."""

import pytest

from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.metrics import METRICS
from monitor.testing import make_interaction

S, C, N, U, O, R = (  # noqa: E741
    ClaimVerdict.SUPPORTED,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_FOUND,
    ClaimVerdict.UNVERIFIED,
    ClaimVerdict.NO_CLAIM,
    ClaimVerdict.WRONG_REFUSAL,
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
    assert found.startswith("0 of 1 statements are contradicted, 0 not found, 1 declined")
    assert METRICS["contradicted_contexts"].read(judged(R), interaction, None).score == 0.0


@pytest.mark.parametrize(("support", "word"), [(0.1, "not found"), (0.4, "undecided")])
def test_borderline_claim_is_undecided_when_the_response_may_pass(support, word):
    claim = Claim(text="It rains", verdict=N, support=support)
    judgement = Judgement(claims=(claim,), groundedness=support)
    found = METRICS["groundedness"].read(judgement, None, None)
    assert found.explanation == f'0 of 1 claim is supported; {word}: "It rains".'


def test_notes_end_the_explanation_when_there_are_some():
    assert finding(S, notes=("contexts_packed: kept 1 of 2 characters",)).explanation.endswith(
        "1 of 1 claim is supported. contexts_packed: kept 1 of 2 characters."
    )
