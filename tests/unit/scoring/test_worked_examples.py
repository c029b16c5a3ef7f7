"""The documents' worked examples, with a judge that answers claim by claim: text to evaluation."""

import pytest

from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import Answers, CriterionAnswer, JudgementMetric, Reply
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings

S, N, C = ClaimVerdict.SUPPORTED, ClaimVerdict.NOT_FOUND, ClaimVerdict.CONTRADICTED


class ClaimJudge:
    """Gives each claim the verdict and support of the example."""

    version = "claims-1"
    criteria_version = "claims-1"

    def __init__(self, claims=(), answers=None):
        self.claims, self.answers = claims, answers

    def judge(self, _):
        claims = (
            Claim(text=text, verdict=verdict, support=support, context_index=index)
            for text, verdict, support, index in self.claims
        )
        return Judgement(claims=tuple(claims))

    def ask(self, interaction, criteria, fields):
        return Reply(answers=self.answers)

    def close(self):
        pass


def score(metric, judge, **record):
    metrics = resolve_metrics(Settings(metrics=(metric,)), plugins=())
    shared = [each for each in metrics if isinstance(each.metric, JudgementMetric)]
    pipeline = MetricPipeline(
        metrics,
        wanted=(metric,),
        judged=JudgementScorer(judge, shared) if shared else None,
        criteria_judge=judge if judge.answers else None,
    )
    [found] = pipeline.score(Interaction.model_validate({"id": "1", "output": "x"} | record))
    assert found.error is None, found.error
    return found.score


TOWER = {
    "contexts": ["The Eiffel Tower was completed in 1889 and stands 330 meters tall."],
    "output": "The Eiffel Tower, completed in 1889, is 330 meters high and made of iron.",
}
TOWER_CLAIMS = [
    ("Eiffel Tower completed in 1889", S, 1.0, 0),
    ("Eiffel Tower is 330 meters high", S, 1.0, 0),
    ("Eiffel Tower made of iron", N, 0.0, None),
]
TEA = {
    "contexts": ["Green tea contains antioxidants called catechins.", "It contains caffeine."],
    "output": "Green tea has several health benefits.",
}
TEA_CLAIMS = [
    ("Green tea contains powerful antioxidants", S, 1.0, 0),
    ("Antioxidants fight inflammation", S, 1.0, 0),
    ("Green tea contains caffeine", S, 1.0, 1),
    ("Caffeine boosts mental alertness", S, 1.0, 1),
    ("Green tea can help with weight loss", N, 0.0, None),
]
CLIMATE = {
    "contexts": ["Temperatures rose.", "Extreme weather rose.", "Solar energy grew."],
    "output": "Research shows global temperatures increased 1.1°C [1]. Extreme weather events rose"
    " by 40% [2]. Solar energy adoption is accelerating [3].",
}
CLIMATE_CLAIMS = [
    ("Research shows global temperatures increased 1.1°C [1].", S, 0.95, 0),
    ("Extreme weather events rose by 40% [2].", S, 0.98, 1),
    ("Solar energy adoption is accelerating [3].", S, 0.65, 2),
]
DEBT = {
    "contexts": ["Apple's debt-to-equity ratio is 1.8"],
    "output": "Apple has a debt-to-equity ratio of 0.5",
}
DEBT_CLAIMS = [("Apple has a debt-to-equity ratio of 0.5", C, 0.0, 0)]


@pytest.mark.parametrize(
    ("metric", "record", "claims", "value"),
    [
        ("faithfulness", TOWER, TOWER_CLAIMS, 0.667),
        ("hallucination", TOWER, TOWER_CLAIMS, 0.333),
        ("groundedness", TOWER, TOWER_CLAIMS, 0.667),
        ("faithfulness", TEA, TEA_CLAIMS, 0.8),
        ("citation_accuracy", CLIMATE, CLIMATE_CLAIMS, 0.667),
        ("hallucination", DEBT, DEBT_CLAIMS, 1.0),
        ("contradicted_contexts", DEBT, DEBT_CLAIMS, 1.0),
        ("faithfulness", DEBT, DEBT_CLAIMS, 0.0),
    ],
)
def test_example_that_is_judged_claim_by_claim(metric, record, claims, value):
    assert score(metric, ClaimJudge(claims), **record) == pytest.approx(value, abs=1e-3)


CREDIT = {"query": "Analyze credit risk for Apple", "contexts": ["a", "b", "c"]}
CREDIT["output"] = "Apple's revenue is $394B. The company was founded by Steve Jobs."


@pytest.mark.parametrize(
    ("metric", "criterion", "numbers", "value"),
    [
        ("answer_relevancy", "irrelevant_sentences", (2,), 0.5),
        ("contextual_relevancy", "relevant_passages", (1, 2), 2 / 3),
        ("contextual_precision", "relevant_passages", (1, 3), (1 + 2 / 3) / 2),
        ("context_recall", "reference_in_passages", (1, 2, 4), 0.75),
    ],
)
def test_example_that_is_asked_of_the_judge(metric, criterion, numbers, value):
    answers = Answers(
        by_name={criterion: CriterionAnswer(numbers=numbers)},
        sentences=("Apple's revenue is $394B.", "The company was founded by Steve Jobs."),
        passages=3,
        reference=("one", "two", "three", "four"),
    )
    record = CREDIT | {"expected": {"answer": "one two three four"}}
    assert score(metric, ClaimJudge(answers=answers), **record) == pytest.approx(value)


@pytest.mark.parametrize(
    ("expected", "called", "precision", "recall"),
    [
        (["market", "financial", "supplier"], ["market", "financial", "web"], 2 / 3, 2 / 3),
        (["a", "b", "c"], ["a", "b", "c", "d"], 0.75, 1.0),
        (["a", "b"], ["a", "c"], 0.5, 0.5),
    ],
)
def test_example_of_tools_that_were_called(expected, called, precision, recall):
    record = {"expected": {"tools": expected}, "tool_calls": [{"name": name} for name in called]}
    judge = ClaimJudge()
    assert score("tool_choice_correctness", judge, **record) == pytest.approx(precision, abs=1e-6)
    assert score("tool_completeness", judge, **record) == pytest.approx(recall, abs=1e-6)


def test_example_of_the_overall_score_of_an_answer():
    # Of 20 sentences one is irrelevant and two are biased, of 20 passages 17 are relevant, and
    # of 20 claims 18 are supported.
    claims = [(f"Claim {n}.", S if n < 18 else N, float(n < 18), 0) for n in range(20)]
    answers = Answers(
        by_name={
            "irrelevant_sentences": CriterionAnswer(numbers=(20,)),
            "relevant_passages": CriterionAnswer(numbers=tuple(range(1, 18))),
            "biased_sentences": CriterionAnswer(numbers=(1, 2)),
        },
        sentences=tuple(text for text, *_ in claims),
        passages=20,
        reference=(),
    )
    record = {
        "query": "What is claimed?",
        "contexts": ["A passage."] * 20,
        "output": " ".join(text for text, *_ in claims),
    }
    parts = 0.25 * 0.95 + 0.30 * 0.9 + 0.25 * 0.9 + 0.10 * 0.85 + 0.10 * 0.9
    overall = score("rag_overall_score", ClaimJudge(claims, answers), **record)
    assert overall == pytest.approx(parts, abs=1e-6)
