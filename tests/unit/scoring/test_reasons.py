"""The reason beside a score explains that score."""

import pytest

from monitor.metrics import evaluate

HOLD = "of the first 5 places hold a relevant passage"
HOLDS = HOLD.replace("hold", "holds")
AT_MOST = "the score is at most"


def reason(metric, **record):
    [[found]] = evaluate([{"output": "x"} | record], metric)
    return found.score, found.explanation


def ranked(metric, passages, relevant):
    contexts = [{"id": f"d{n}", "text": "t"} for n in range(1, passages + 1)]
    return reason(metric, contexts=contexts, expected={"relevant": relevant})


@pytest.mark.parametrize(
    ("metric", "passages", "relevant", "score", "said"),
    [
        (
            "precision_at_k",
            2,
            ["d1", "d2"],
            0.4,
            f"2 {HOLD}; with 2 passages retrieved {AT_MOST} 0.40.",
        ),
        ("precision_at_k", 5, ["d4"], 0.2, f"1 {HOLDS}; with 1 passage relevant {AT_MOST} 0.20."),
        ("precision_at_k", 6, ["d1", "d3", "d4", "d6", "x"], 0.6, f"3 {HOLD}."),
        ("recall_at_k", 2, ["d1"], 1.0, "1 of 1 relevant passage is in the first 5."),
        ("recall_at_k", 6, ["d6", "d2"], 0.5, "1 of 2 relevant passages is in the first 5."),
        ("f1_at_k", 2, ["d1", "d2"], 0.571429, "Precision at 5 is 0.40, recall 1.00."),
        ("mrr", 5, ["d4"], 0.25, "The first relevant passage is in place 4."),
        ("mrr", 5, ["x"], 0.0, "No relevant passage was retrieved."),
        ("ndcg_at_k", 5, {"d3": 2}, 0.5, "DCG at 5 is 1.00; the best ranking has 2.00."),
        ("macro_f1", 2, ["d1"], 0.666667, "1 relevant passage found, 1 other, 0 missed."),
    ],
)
def test_each_score_of_a_ranking_has_its_own_reason(metric, passages, relevant, score, said):
    assert ranked(metric, passages, relevant) == (score, said)


LOUVRE = ["The Louvre is closed on Tuesdays.", "Paris is the capital of France."]
SWAPPED = "The Louvre is closed on Tuesdays [2]. Paris is the capital of France [1]."


@pytest.mark.parametrize(
    ("metric", "output", "score", "said"),
    [
        (
            "citation_precision",
            SWAPPED,
            0.0,
            "0 of 2 cited passages support a claim that cites them; not 2, 1.",
        ),
        (
            "citation_precision",
            f"{LOUVRE[0][:-1]} [1].",
            1.0,
            "1 of 1 cited passage supports a claim that cites it.",
        ),
        ("citation_completeness", SWAPPED, 1.0, "2 of 2 supporting passages are cited."),
        (
            "citation_completeness",
            f"{LOUVRE[0][:-1]} [2].",
            0.0,
            "0 of 1 supporting passage is cited; not 1.",
        ),
    ],
)
def test_reason_counts_what_the_citations_are_scored_by(metric, output, score, said):
    assert reason(metric, contexts=LOUVRE, output=output) == (score, said)
