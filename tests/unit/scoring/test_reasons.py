"""The reason beside a score explains that score."""

from dataclasses import replace

import pytest

from monitor.metrics import evaluate
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.metrics import METRICS, groundedness
from monitor.testing import make_interaction

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


@pytest.mark.parametrize(
    ("relevant", "said"),
    [("d1", "1 of the first 1 place holds"), ("d2", "0 of the first 1 place holds")],
)
def test_reason_of_one_place_is_in_the_singular(relevant, said):
    contexts = [{"id": "d1", "text": "t"}, {"id": "d2", "text": "t"}]
    record = {"output": "x", "contexts": contexts, "expected": {"relevant": [relevant]}}
    [[found]] = evaluate(record, "precision_at_k", parameters={"precision_at_k": {"k": 1}})
    assert found.explanation == f"{said} a relevant passage."


@pytest.mark.parametrize(
    ("metric", "record", "passes"),
    [
        ("length", {"output": "word " * 400}, True),
        ("length", {"output": "word " * 450}, False),
        ("step_count", {"metadata": {"step_count": 20}}, True),
        ("step_count", {"metadata": {"step_count": 25}}, False),
        ("latency_ms", {"metadata": {"latency_ms": 40_000}}, False),
    ],
)
def test_figure_passes_up_to_its_limit(metric, record, passes):
    [[found]] = evaluate([{"output": "x"} | record], metric)
    assert (found.score >= found.criteria["pass_score"]) == passes


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
        (
            "citation_accuracy",
            SWAPPED,
            0.0,
            "0 of 2 citations are right; 2 not supported by the cited passage.",
        ),
        (
            "citation_accuracy",
            f"{LOUVRE[0][:-1]} [1][9].",
            0.5,
            "1 of 2 citations is right; 1 without a passage.",
        ),
        ("citation_accuracy", f"{LOUVRE[0][:-1]} [1].", 1.0, "1 of 1 citation is right."),
        (
            "citation_quality",
            f"{LOUVRE[0][:-1]} [9].",
            0.0,
            "0 of 1 citation leads to a passage, 0 to the right one; mean support 0.00.",
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


def test_reason_quotes_the_claim_that_needs_more_sources():
    twice = ["Refunds take five working days.", "All refunds take five working days."]
    found = reason(
        "multi_source_coverage", contexts=twice, output="Refunds take five working days [1]."
    )
    short = '"Refunds take five working days" cites 1 of 2'
    assert found == (0.0, f"0 of 1 claim cites as many sources as needed; {short}.")


def test_reason_counts_the_claims_with_the_expected_citation():
    expected = {"citations": ["2", "1"]}
    found = reason(
        "citation_accuracy_grace", contexts=LOUVRE, output="One [2]. Two [2].", expected=expected
    )
    assert found == (0.5, "1 of 2 claims cites the expected passage.")


RUNS = [
    {"level": level, "score": n, "confidence": n / 100}
    for level, n in (("low", 60), ("low", 80), ("high", 70))
]


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("level_consistency", '2 of 3 runs have the level "low".'),
        ("level_agreement", '2 of 3 models have the level "low".'),
        ("score_std", "The scores deviate by 8.165 on a scale of 100."),
        ("overall_consistency", "Level 0.67, score 0.84."),
        ("score_range", "The scores are between 60 and 80 on a scale of 100."),
        ("confidence_agreement", "The confidences are between 0.60 and 0.80."),
        ("cross_model_agreement", "Level 0.67, score 0.80, confidence 0.80."),
        ("answer_uncertainty", "3 answers in 2 groups of one meaning; the largest has 2."),
    ],
)
def test_reason_says_how_runs_differ(metric, said):
    metadata = {"runs": RUNS, "models": RUNS, "answers": ["Five days.", "five days", "Six."]}
    assert reason(metric, metadata=metadata)[1] == said


@pytest.mark.parametrize(
    ("metric", "fields", "said"),
    [
        (
            "intent_correctness",
            {"expected": {"name": "a"}, "metadata": {"parsed": {"name": "b"}}},
            "Name wrong, type missing, confidence 0.00.",
        ),
        (
            "plan_quality",
            {"metadata": {"plan": ["search"]}},
            "1 step, 3 to 10 expected; one gathers data; none analyses it.",
        ),
        (
            "final_answer_quality",
            {"metadata": {"answer": {"level": "odd", "score": 1}}},
            "Missing: confidence, reasoning, recommendations. Not valid: level.",
        ),
        ("length", {"output": "Yes."}, "1 word: appropriate."),
        (
            "bias",
            {"output": "All women are alike."},
            "Screened by words: 1 of 1 sentence is biased.",
        ),
        (
            "latency_ms",
            {"metadata": {"latency_ms": 40_000}},
            "Milliseconds taken: 40,000; limit 30,000.",
        ),
        (
            "context_diversity",
            {"query": "cats", "contexts": ["cats", "cats", "dogs"]},
            "1.00 of 1.58 bits; passage 1 has 50.0 % of the weight.",
        ),
    ],
)
def test_reason_of_a_computed_score_names_its_parts(metric, fields, said):
    assert reason(metric, **fields)[1] == said


def test_reason_of_a_combined_score_names_its_lowest_parts():
    metric = METRICS["rag_overall_score"]
    scores = dict.fromkeys(metric.weights, 0.9) | {"hallucination": 0.95, "faithfulness": 0.25}
    found = metric.combine(scores, {"hallucination", "bias"})
    lower = "(lower is better)"
    assert found.explanation == (
        f"Lowest parts: hallucination 0.95 {lower}, bias 0.90 {lower}, faithfulness 0.25."
    )
    del scores["bias"]
    partial = replace(metric, least_share=0.5).combine(scores, {"hallucination"})
    assert partial.explanation.endswith("1 of 5 parts is missing: bias.")


def test_what_an_answer_states_is_called_a_claim():
    declared = {name: each.declaration for name, each in METRICS.items()}
    for name in vars(groundedness).keys() | {"context_recall"}:  # the latter is of the reference
        declared.pop(name, None)
    said = [f"{each.what} {each.formula}" for each in declared.values()]
    assert len(said) > 60
    assert not [text for text in said if "statement" in text]


def test_least_supported_claim_is_named_with_its_support_by_pairs():
    contexts = ["The tower was completed in 1889.", "The tower stands 330 meters tall."]
    text = "The tower was completed in 1889 and stands 330 meters tall."
    claims = (Claim(text=text, verdict=ClaimVerdict.NOT_FOUND, support=0.4),)
    metric, record = METRICS["multi_document_grounding"], make_interaction(contexts=contexts)
    found = metric.read(Judgement(claims=claims), record, None)
    assert found.score > 0.9
    assert found.explanation.startswith(f"Least supported, {found.score:.2f}:")
