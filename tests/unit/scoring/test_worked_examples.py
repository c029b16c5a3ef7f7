"""The documents' worked examples, with a judge that answers claim by claim over the wire."""

from statistics import fmean

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
def evaluation(judge):
    def evaluation(metric, record, claims=None, answers=None, cosines=None, **parameters):
        judge.reply = scripted(claims or {}, answers or {})
        settings = Settings(
            scorer="judge", openai_base_url=judge.url, openai_api_key="k", metrics=(metric,)
        )
        of_metrics = {"faithfulness" if metric.startswith("rag") else metric: parameters}
        scorer = make_scorer(settings, once=True, parameters=of_metrics)
        if cosines is not None:
            scorer.similarity = lambda _, question: cosines[question]
        found = scorer.score(Interaction.model_validate({"id": "1", "output": "x"} | record))
        scorer.close()
        assert found[-1].error is None, found[-1].error
        return found[-1]

    return evaluation


@pytest.fixture
def score(evaluation):
    return lambda *args, **kwargs: evaluation(*args, **kwargs).score


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


PUBLIC_US = {"fetch_sec_data", "fetch_market_data", "web_search"}
PRIVATE = {"web_search", "fetch_legal_data"}


@pytest.mark.parametrize(
    ("expected", "called", "precision", "recall"),
    [
        (PUBLIC_US, {"fetch_sec_data", "fetch_market_data", "fetch_legal_data"}, 2 / 3, 2 / 3),
        (PUBLIC_US, PUBLIC_US | {"fetch_legal_data"}, 0.75, 1.0),  # example 1
        (PRIVATE, {"web_search", "fetch_sec_data"}, 0.5, 0.5),  # example 2
        (PUBLIC_US, {"fetch_sec_data", "fetch_market_data"}, 1.0, 2 / 3),
        (PUBLIC_US, set(), 0.0, 0.0),
        (set(), {"web_search"}, None, None),
    ],
)
def test_worked_example_scores_tool_calls(score, expected, called, precision, recall):
    record = {"expected": {"tools": [*expected]}, "tool_calls": [{"name": n} for n in called]}
    assert score("tool_choice_correctness", record) == pytest.approx(precision, abs=1e-6)
    assert score("tool_completeness", record) == pytest.approx(recall, abs=1e-6)


CAPITAL = ["What is the capital?", "What city is it?", "Which city is it?"]


def test_worked_example_compares_questions_made_from_the_answer(score):
    record = {"query": "What is the capital of France?", "output": "Paris, with its tower."}
    cosines = dict(zip(CAPITAL, (1.0, 0.95, 0.93), strict=True))
    found = score("answer_relevance", record, {}, {"questions": {"texts": CAPITAL}}, cosines)
    assert found == pytest.approx(0.96)


FIVE = ["d1", "d2", "d3", "d4", "d5"]
TEN = [f"d{n}" for n in range(10)]
GAINS = dict(zip(FIVE, (3, 2, 3, 0, 1), strict=True))


def ranked(retrieved, relevant):
    contexts = [{"id": each, "text": "t"} for each in retrieved]
    return {"contexts": contexts, "expected": {"relevant": relevant}}


@pytest.mark.parametrize(
    ("metric", "record", "k", "value"),
    [
        ("precision_at_k", ranked(FIVE, ["d1", "d3", "d4"]), 5, 0.6),
        ("recall_at_k", ranked(TEN, [*TEN[:5], "x", "y", "z"]), 10, 0.625),
        # The document's 0.804 has a better passage that was not retrieved; without it, 0.972.
        ("ndcg_at_k", ranked(FIVE, GAINS | {"d6": 3}), 5, 0.804),
        ("ndcg_at_k", ranked(FIVE, GAINS), 5, 0.972),
    ],
)
def test_worked_example_of_a_ranking(score, metric, record, k, value):
    assert score(metric, record, k=k) == pytest.approx(value, abs=1e-3)


def test_worked_example_of_three_rankings(score):
    ranks = [score("mrr", ranked(FIVE, [first])) for first in ("d2", "d1", "d5")]
    assert ranks == [0.5, 1.0, 0.2]
    assert fmean(ranks) == pytest.approx(0.567, abs=1e-3)


def test_worked_example_of_an_interval(evaluation):
    facts = [f"Fact number {n} of the report holds." for n in range(10, 60)]
    claims = {text: [("", "supported", text)] for text in facts[:45]}
    claims |= {text: [("", "not_found", "")] for text in facts[45:]}
    record = {"contexts": [" ".join(facts[:25]), " ".join(facts[25:45])]}
    found = evaluation("faithfulness", record | {"output": " ".join(facts)}, claims)
    assert found.score == 0.9
    assert found.metadata["interval_95"] == pytest.approx([0.817, 0.983], abs=1e-3)


def test_worked_example_of_a_citation_graph(score):
    studies = {"Smith": 2020, "Jones": 2021, "Brown": 2019}
    texts = [
        "Smith (2020) found positive effects.",
        "Jones (2021) found positive effects.",
        "Cats sleep a lot.",
    ]
    contexts = [
        {"id": f"{name} {year}", "text": text}
        for (name, year), text in zip(studies.items(), texts, strict=True)
    ]
    output = "Both Smith (2020) and Jones (2021) found positive effects"
    output += " [Smith 2020, Jones 2021, Brown 2019]."
    claims = {
        "Both": [
            ("Smith found positive effects", "supported", texts[0]),
            ("Jones found positive effects", "supported", texts[1]),
        ]
    }
    record = {"contexts": contexts, "output": output}
    assert score("citation_precision", record, claims) == pytest.approx(0.667, abs=1e-3)
    assert score("citation_completeness", record, claims) == 1.0


@pytest.mark.parametrize("output", ["Cannot be determined from provided context", "UNANSWERABLE"])
def test_worked_example_of_a_question_without_an_answer(score, output):
    record = {"query": "What was Eiffel's favorite color?", "output": output}
    assert score("negative_rejection", record | {"expected": {"unanswerable": True}}) == 1.0


def test_worked_example_gives_the_overall_score(evaluation):
    # Of 20 sentences one is irrelevant and two are biased, of 20 passages 17 are relevant, and
    # of 20 claims one is not supported; by its position it weighs about as much as two.
    facts = [f"Fact number {n} of the report holds." for n in range(10, 30)]
    claims = {
        text: [("", *(("supported", text) if n != 2 else ("not_found", "")))]
        for n, text in enumerate(facts)
    }
    answers = {
        "irrelevant_sentences": {"numbers": [20]},
        "relevant_passages": {"numbers": [*range(1, 18)]},
        "biased_sentences": {"numbers": [1, 2]},
    }
    record = {"query": "What is claimed?", "contexts": facts, "output": " ".join(facts)}
    overall = evaluation("rag_overall_score", record, claims, answers, weights="position")
    assert overall.score == pytest.approx(0.92, abs=5e-3)
    assert overall.metadata["parts"] == {
        "answer_relevancy": 0.95,
        "faithfulness": pytest.approx(0.90, abs=1e-2),
        "hallucination": 0.05,
        "contextual_relevancy": 0.85,
        "bias": 0.1,
    }


@pytest.mark.parametrize(
    "metric",
    [
        *("citation_accuracy", "citation_quality", "citation_precision"),
        *("citation_completeness", "multi_source_coverage"),
    ],
)
def test_citation_that_the_judge_did_not_quote_is_scored_under_the_local_scorers_version_too(
    evaluation, metric
):
    passages = ["Refunds take five working days.", "Money is back within one working week."]
    record = {"contexts": passages, "output": "Refunds take five working days [2]."}
    found = evaluation(metric, record, {"Refunds": [("", "supported", passages[0])]})
    assert f"+{local_version()}-" in found.evaluator_version


def test_metric_that_the_judge_alone_decides_has_only_its_version(evaluation):
    claims = {"The": [("", "supported", TOWER["contexts"][0])]}
    assert "local-" not in evaluation("faithfulness", TOWER, claims).evaluator_version


@pytest.mark.parametrize(
    ("stated", "cited", "right"),
    [
        (["supported", "supported"], "[1]", 1.0),
        (["supported", "not_found"], "[1]", 0.0),
        (["supported", "supported"], "[2]", 0.0),
    ],
)
def test_citation_carries_all_that_the_judge_reads_in_its_sentence(score, stated, cited, right):
    quotes = "The Eiffel Tower was completed in 1889", "completed in 1889 and stands 330 meters"
    texts = "Eiffel Tower completed in 1889", "Eiffel Tower is 330 meters high"
    rows = [(text, each, quote) for text, each, quote in zip(texts, stated, quotes, strict=True)]
    record = TOWER | {
        "output": f"The Eiffel Tower, which was completed in 1889, is 330 meters high {cited}.",
        "contexts": [*TOWER["contexts"], "Cats sleep a lot."],
    }
    assert score("citation_accuracy", record, {"The Eiffel": rows}) == right


def test_worked_example_of_citations_comes_out_with_raised_marks(score):
    output = "Global temperatures increased by 1.1 degrees.¹ Extreme weather events rose by"
    output += " 40%.² Solar energy adoption is accelerating.³"
    claims = {
        "Global": [("", "supported", "temperatures have risen 1.1°C")],
        "Extreme": [("", "supported", "Extreme weather events increased 40%")],
        "Solar": [("", "not_found", "")],
    }
    found = score("citation_accuracy", CLIMATE | {"output": output}, claims)
    assert found == pytest.approx(0.667, abs=1e-3)
