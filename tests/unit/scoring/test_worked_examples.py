"""The documents' worked examples, with a judge that answers claim by claim over the wire."""

import pytest

from monitor.models import Interaction
from monitor.scoring.entailment import local_version
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from support.criteria_replies import answer_criteria, asks_criteria
from support.judge_replies import Question, canary_of
from support.judge_server import JudgeServer


def scripted(claims, answers):
    """Judge sentences by their beginning, and criteria by their name, as the tables say."""

    def reply(request):
        if asks_criteria(request):
            reply = answer_criteria(request, canary_of(request))
            for each in reply["answers"]:
                each.update(answers.get(each["name"], {}))
            return reply
        question = Question(request)
        rows = [
            {"number": number, "claim": claim, "verdict": verdict, "quote": quote}
            for number in question.asked
            for beginning, stated in claims.items()
            if question.sentences[number].startswith(beginning)
            for claim, verdict, quote in stated
        ]
        return {"canary": question.canary, "verdicts": rows, "answered": "yes"}

    return reply


@pytest.fixture(scope="module")
def judge():
    with JudgeServer() as server:
        yield server


@pytest.fixture
def score(judge):
    def score(metric, record, claims=None, answers=None):
        judge.reply = scripted(claims or {}, answers or {})
        settings = Settings(
            scorer="judge", openai_base_url=judge.url, openai_api_key="k", metrics=(metric,)
        )
        scorer = make_scorer(settings, once=True)
        [found] = scorer.score(Interaction.model_validate({"id": "1", "output": "x"} | record))
        scorer.close()
        assert found.error is None, found.error
        score.version = found.evaluator_version
        return found.score

    return score


TOWER = {
    "contexts": ["The Eiffel Tower was completed in 1889 and stands 330 meters tall."],
    "output": "The Eiffel Tower, completed in 1889, is 330 meters high and made of iron.",
}
TEA = {
    "contexts": [
        "Green tea contains antioxidants called catechins; catechins may reduce inflammation.",
        "It also contains caffeine which can improve alertness.",
    ],
    "output": "Green tea contains powerful antioxidants that fight inflammation. It contains"
    " caffeine, which boosts mental alertness, and it can help with weight loss.",
}
CLIMATE = {
    "contexts": [
        {"id": "ipcc", "text": "Global temperatures have risen 1.1°C since pre-industrial times."},
        {"id": "smith", "text": "Extreme weather events increased 40% in past decade."},
        {"id": "jones", "text": "Renewable energy adoption grew 25% annually."},
    ],
    "output": "Research shows global temperatures increased 1.1°C [1]. Extreme weather events rose"
    " by 40% [2]. Solar energy adoption is accelerating [3].",
    "expected": {"citations": ["ipcc", "smith", "jones"]},
}
DEBT = {
    "contexts": ["Apple's debt-to-equity ratio is 1.8"],
    "output": "Apple has a debt-to-equity ratio of 0.5",
}
CASH = {
    "contexts": ["Apple has $166B in cash reserves"],
    "output": "Apple has strong liquidity with over $150B in cash",
}
REFUNDS = {
    "contexts": ["No refunds are given after 30 days."],
    "output": "Refunds are given after 30 days [1].",
}
CLAIMS = {
    "The Eiffel Tower": [
        ("Eiffel Tower completed in 1889", "supported", "The Eiffel Tower was completed in 1889"),
        ("Eiffel Tower is 330 meters high", "supported", "completed in 1889 and stands 330 meters"),
        ("Eiffel Tower made of iron", "not_found", ""),
    ],
    "Green tea": [
        (
            "Green tea contains powerful antioxidants",
            "supported",
            "Green tea contains antioxidants",
        ),
        ("antioxidants fight inflammation", "supported", "catechins may reduce inflammation"),
    ],
    "It contains": [
        ("It contains caffeine", "supported", "contains caffeine which can improve alertness"),
        ("caffeine boosts mental alertness", "supported", "caffeine which can improve alertness"),
        ("it can help with weight loss", "not_found", ""),
    ],
    "Research": [("", "supported", "Global temperatures have risen 1.1°C")],
    "Extreme": [("", "supported", "Extreme weather events increased 40%")],
    "Solar": [("", "not_found", "")],
    "Apple has a debt": [("", "contradicted", "Apple's debt-to-equity ratio is 1.8")],
    "Apple has strong": [("", "supported", "Apple has $166B in cash reserves")],
    "Refunds": [("", "contradicted", "No refunds are given after 30 days")],
}


@pytest.mark.parametrize(
    ("metric", "record", "value"),
    [
        ("faithfulness", TOWER, 0.667),
        ("hallucination", TOWER, 0.333),
        ("groundedness", TOWER, 0.667),
        ("faithfulness", TEA, 0.8),
        ("citation_accuracy", CLIMATE, 0.667),
        ("citation_accuracy_grace", CLIMATE, 1.0),
        ("hallucination", DEBT, 1.0),
        ("contradicted_contexts", DEBT, 1.0),
        ("faithfulness", DEBT, 0.0),
        ("faithfulness", CASH, 1.0),
        ("citation_accuracy", REFUNDS, 0.0),
        ("citation_precision", REFUNDS, 0.0),
    ],
)
def test_worked_example_is_judged_claim_by_claim(score, metric, record, value):
    assert score(metric, record, CLAIMS) == pytest.approx(value, abs=1e-3)


CREDIT = {
    "query": "Analyze credit risk for Apple",
    "contexts": ["Revenue is $394B.", "Cash is $166B.", "Steve Jobs founded it."],
    "output": "Apple's revenue is $394B. The company was founded by Steve Jobs.",
}
PLANTS = {
    "contexts": ["Photosynthesis uses sunlight", "Plants convert CO2 into glucose"],
    "expected": {
        "answer": "Photosynthesis converts CO2 and water into glucose using sunlight.",
    },
}
STATED = [
    "yes: Photosynthesis converts CO2",
    "no: Photosynthesis converts water",
    "Yes: Produces glucose",
    "`yes:` Uses sunlight",
]


@pytest.mark.parametrize(
    ("metric", "record", "criterion", "answer", "value"),
    [
        ("answer_relevancy", CREDIT, "irrelevant_sentences", {"numbers": [2]}, 0.5),
        ("contextual_relevancy", CREDIT, "relevant_passages", {"numbers": [1, 2]}, 0.667),
        ("contextual_precision", CREDIT, "relevant_passages", {"numbers": [1, 3]}, 0.833),
        ("context_recall", PLANTS, "reference_in_passages", {"texts": STATED}, 0.75),
    ],
)
def test_worked_example_is_scored_by_judge_questions(
    score, metric, record, criterion, answer, value
):
    found = score(metric, record, answers={criterion: answer})
    assert found == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    ("expected", "called", "precision", "recall"),
    [
        (["market", "financial", "supplier"], ["market", "financial", "web"], 2 / 3, 2 / 3),
        (["a", "b", "c"], ["a", "b", "c", "d"], 0.75, 1.0),
        (["a", "b"], ["a", "c"], 0.5, 0.5),
    ],
)
def test_worked_example_scores_tool_calls(score, expected, called, precision, recall):
    record = {"expected": {"tools": expected}, "tool_calls": [{"name": name} for name in called]}
    assert score("tool_choice_correctness", record) == pytest.approx(precision, abs=1e-6)
    assert score("tool_completeness", record) == pytest.approx(recall, abs=1e-6)


def test_worked_example_gives_the_overall_score(score):
    # Of 20 sentences one is irrelevant and two are biased, of 20 passages 17 are relevant, and
    # of 20 claims 18 are supported.
    facts = [f"Fact number {n} of the report holds." for n in range(10, 30)]
    claims = {
        text: [("", *(("supported", text) if n < 18 else ("not_found", "")))]
        for n, text in enumerate(facts)
    }
    answers = {
        "irrelevant_sentences": {"numbers": [20]},
        "relevant_passages": {"numbers": [*range(1, 18)]},
        "biased_sentences": {"numbers": [1, 2]},
    }
    record = {"query": "What is claimed?", "contexts": facts, "output": " ".join(facts)}
    parts = 0.25 * 0.95 + 0.30 * 0.9 + 0.25 * 0.9 + 0.10 * 0.85 + 0.10 * 0.9
    overall = score("rag_overall_score", record, claims, answers)
    assert overall == pytest.approx(parts, abs=1e-6)


@pytest.mark.parametrize(
    "metric",
    [
        *("citation_accuracy", "citation_quality", "citation_precision"),
        *("citation_completeness", "multi_source_coverage"),
    ],
)
def test_citation_that_the_judge_did_not_quote_is_scored_under_the_local_scorers_version_too(
    score, metric
):
    passages = ["Refunds take five working days.", "Money is back within one working week."]
    record = {"contexts": passages, "output": "Refunds take five working days [2]."}
    score(metric, record, {"Refunds": [("", "supported", passages[0])]})
    assert f"+{local_version()}-" in score.version


def test_metric_that_the_judge_alone_decides_has_only_its_version(score):
    score("faithfulness", TOWER, {"The": [("", "supported", TOWER["contexts"][0])]})
    assert "local-" not in score.version
