"""Every metric has its values on two rich records, and what it needs in the manual's example."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import (
    Answers,
    Combined,
    Computed,
    CriterionAnswer,
    Form,
    JudgementMetric,
    Reply,
    RubricMetric,
    compared_by,
)
from monitor.scoring.measures import lexical_cosine
from monitor.scoring.metrics import ALIASES, METRICS
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings

MANUAL = (Path(__file__).parents[3] / "docs/metrics.md").read_text(encoding="utf-8")
EXAMPLE = json.loads(re.search(r"```json\n(.*?)```", MANUAL, re.DOTALL)[1])
#: Metrics that the example of the manual cannot show, and why.
UNSHOWN = {
    "multi_source_coverage": "no_claim_needs_several",
    "noise_robustness": "no_noise",
    "negative_rejection": "answerable",
}
CLAIMS = [  # text, citation, verdict, support, index of the passage
    ("Refunds take five working days.", "[p2]", ClaimVerdict.SUPPORTED, 0.9, 1),
    ("Parcels leave the warehouse on Mondays.", "[3]", ClaimVerdict.SUPPORTED, 0.85, 2),
    ("Vouchers expire after two years.", "[p1]", ClaimVerdict.SUPPORTED, 0.6, 3),
    ("Shops are closed in July.", "[p5]", ClaimVerdict.CONTRADICTED, 0.1, 4),
    ("Batteries last for ten years.", "[9]", ClaimVerdict.CONTRADICTED, 0.05, 5),
    (
        "Refunds take five working days and parcels leave on Mondays.",
        "",
        ClaimVerdict.NOT_FOUND,
        0.2,
        0,
    ),
    ("Cats fly at night.", "[p6]", ClaimVerdict.UNVERIFIED, 0.0, None),
]
RECORD = {
    "id": "1",
    "query": "How long does a refund take, and when do parcels leave?",
    "output": " ".join(f"{text[:-1]} {mark}.".replace(" .", ".") for text, mark, *_ in CLAIMS),
    "timestamp": "2026-06-01T00:00:00Z",
    "contexts": [
        {"id": "p1", "text": "Our refund policy is short.", "source": "web"},
        {"id": "p2", "text": "Refunds take five working days.", "published": "2025-06-01"},
        {"id": "p3", "text": "Parcels leave the warehouse on Mondays.", "source": "web"},
        {"id": "p4", "text": "Vouchers expire after two years.", "source": "web"},
        {"id": "p5", "text": "Shops are open in July.", "source": "web"},
        {"id": "p6", "text": "Shops are closed in July. Batteries last for two years."},
    ],
    "tool_calls": [{"name": name} for name in ["search", "fetch", "guess"] * 8],
    "expected": {
        "answer": "Refunds take five days. Parcels leave on Mondays. Ask us.",
        "relevant": {"p3": 1, "p4": 3, "p6": 2, "p9": 3},
        "citations": ["p2", "p4", "p1", "p5", "p6", "p2", "p3"],
        "sources_needed": [2, 1, 1, 1, 1, 2, 1],
        "false_passages": [1, 2, 4],
        "contradictions": ["5 and 6", "1 and 2", "2 and 3", "3 and 4"],
        "unanswerable": True,
        "name": "refund",
        "tools": ["search", "fetch", "read", "write"],
        "trajectory": ["plan", "search", "read", "answer"],
    },
    "metadata": {
        "parsed": {"name": "refund policy", "type": "question", "confidence": 0.6},
        "plan": ["search", "write"],
        "trajectory": ["search", "plan", "answer"],
        "step_count": 25,
        "latency_ms": 40_000,
        "answer": {"level": "low", "score": 12, "confidence": 0.9},
        "runs": [{"level": "low", "score": s} for s in (60, 70)] + [{"level": "high", "score": 95}],
        "models": [
            {"level": level, "score": score, "confidence": confidence}
            for level, score, confidence in [
                ("low", 60, 0.8),
                ("high", 90, 0.65),
                ("low", 72, 0.7),
                ("none", 80, 0.7),
                ("low", 65, 0.7),
            ]
        ],
        "answers": ["Five days.", "five days", "Within five working days."],
        "verification_chain": [0.5, 0.4],
    },
}


SECOND = RECORD | {
    "id": "2",
    "query": "How long does a refund take, and when do parcels leave the warehouse?",
    "output": RECORD["output"].replace("[p2]", "[p1]"),
    "expected": RECORD["expected"]
    | {
        "tools": ["search", "fetch", "read", "write", "guess"],
        "false_passages": [1, 2],
        "relevant": {"p3": 1, "p2": 3, "p6": 2, "p9": 3},
    },
    "metadata": RECORD["metadata"]
    | {
        "verification_chain": [0.5, {"confidence": 0.6}],
        "runs": [{"level": level, "score": 60} for level in ("low", "low", "low", "high")],
        "models": [
            {"level": level, "score": score, "confidence": 0.7}
            for level, score in [("low", 60), ("low", 70), ("low", 80), ("low", 75), ("high", 64)]
        ],
    },
}


class ScriptedJudge:
    """Says what the table of claims says."""

    version = "scripted-1"

    def judge(self, interaction):
        claims = (
            Claim(text=text, verdict=verdict, support=support, context_index=index)
            for text, _, verdict, support, index in CLAIMS
        )
        whole = Claim(
            text=interaction.output, verdict=ClaimVerdict.SUPPORTED, support=0.9, context_index=0
        )
        is_record = interaction.output in {RECORD["output"], SECOND["output"]}
        return Judgement(
            claims=tuple(claims) if is_record else (whole,),
            groundedness=0.71 if interaction.id == "2" else 0.62,
            relevance=0.45,
        )

    def close(self):
        pass


class ScriptedCriteria:
    """Answers each criterion with a score of its own, made of its name."""

    criteria_version = "scripted-2"
    numbers = {  # noqa: RUF012 - read only
        "irrelevant_sentences": (2,),
        "relevant_passages": (2, 3, 6),
        "reference_in_answer": (1, 2),
        "wrong_sentences": (2, 4, 5, 7),
        "major_sentences": (1, 2),
        "noticed_false": (2, 6),
        "biased_sentences": (1, 2),
    }
    texts = {"reference_in_passages": ("yes: one", "no: two", "no: three")}  # noqa: RUF012

    def ask(self, interaction, criteria, fields):
        answers = {
            each.name: CriterionAnswer(
                score=(13 ** (int(interaction.id) - 1) * sum(map(ord, each.name)) % 97) / 97,
                numbers=tuple(
                    number
                    for number in self.numbers.get(each.name, ())
                    if each.form is not Form.PASSAGES or number <= len(interaction.contexts)
                ),
                texts=self.texts.get(each.name, ("How long do refunds take 1 and 2?",)),
            )
            for each in criteria
        }
        sentences = tuple(text for text, *_ in CLAIMS)
        reply = Answers(
            by_name=answers,
            sentences=sentences,
            passages=len(interaction.contexts),
            reference=("one", "two", "three"),
        )
        return Reply(answers=reply)

    def close(self):
        pass


#: The scores of RECORD and of SECOND.
EXPECTED = {
    "groundedness": (0.62, 0.71),
    "relevance": (0.45, 0.45),
    "faithfulness": (0.428571, 0.428571),
    "hallucination": (0.571429, 0.571429),
    "contradicted_contexts": (0.333333, 0.333333),
    "grounding_score": (0.385714, 0.385714),
    "multi_document_grounding": (0.546519, 0.546519),
    "answer_relevancy": (0.857143, 0.857143),
    "answer_relevance": (0.6, 0.547723),
    "answer_correctness": (0.52875, 0.52875),
    "factual_accuracy": (0.444444, 0.444444),
    "information_integration": (0.531959, 0.515464),
    "noise_robustness": (0.666667, 0.666667),
    "counterfactual_robustness": (0.333333, 0.5),
    "contradiction_handling": (1.0, 0.25),
    "negative_rejection": (0.0, 0.0),
    "contextual_relevancy": (0.5, 0.5),
    "contextual_precision": (0.555556, 0.555556),
    "context_precision": (0.257732, 0.350515),
    "context_recall": (0.333333, 0.333333),
    "precision_at_k": (0.4, 0.4),
    "recall_at_k": (0.5, 0.5),
    "f1_at_k": (0.444444, 0.444444),
    "mrr": (0.333333, 0.5),
    "ndcg_at_k": (0.283394, 0.378398),
    "macro_f1": (0.6, 0.6),
    "micro_f1": (0.6, 0.6),
    "context_diversity": (0.599196, 0.571952),
    "passage_contradictions": (0.066667, 0.066667),
    "evidence_quality": (0.504286, 0.504286),
    "citation_accuracy": (0.333333, 0.166667),
    "citation_accuracy_grace": (0.428571, 0.285714),
    "citation_quality": (0.572695, 0.493597),
    "citation_precision": (0.333333, 0.2),
    "citation_completeness": (1.0, 0.5),
    "multi_source_coverage": (0.0, 0.0),
    "length": (1.0, 1.0),
    "bias": (0.285714, 0.285714),
    "toxicity": (0.865979, 0.412371),
    "completeness": (0.3, 1.0),
    "source_quality": (0.8, 1.0),
    "tool_efficiency": (0.3, 0.6),
    "accuracy_score": (0.237113, 0.082474),
    "completeness_score": (0.927835, 0.061856),
    "consistency_score": (0.938144, 0.195876),
    "actionability_score": (0.85567, 0.123711),
    "data_utilization_score": (0.247423, 0.216495),
    "quality": (0.360825, 0.290722),
    "query_relevance": (0.43299, 0.628866),
    "rag_overall_score": (0.571428, 0.571428),
    "agent_overall_score": (0.633333, 0.715),
    "judge_overall_score": (0.641237, 0.136082),
    "unified_accuracy": (0.539682, 0.539682),
    "unified_consistency": (0.701885, 0.836601),
    "overall_quality_score": (0.617693, 0.684039),
    "rubric_overall_score": (0.398333, 0.628333),
    "intent_correctness": (0.9, 0.9),
    "plan_quality": (0.35, 0.35),
    "tool_choice_correctness": (0.666667, 1.0),
    "tool_completeness": (0.5, 0.6),
    "trajectory_match": (0.65, 0.65),
    "final_answer_quality": (0.7, 0.7),
    "step_count": (0.8, 0.8),
    "tool_calls": (0.833333, 0.833333),
    "latency_ms": (0.75, 0.75),
    "chain_integrity": (0.0, 1.0),
    "level_consistency": (0.666667, 0.75),
    "score_consistency": (0.705608, 1.0),
    "score_std": (0.294392, 0.0),
    "overall_consistency": (0.686137, 0.875),
    "level_agreement": (0.6, 0.8),
    "score_range": (0.3, 0.2),
    "confidence_agreement": (0.85, 1.0),
    "cross_model_agreement": (0.716667, 0.866667),
    "semantic_similarity": (0.804738, 0.804738),
    "answer_uncertainty": (0.57938, 0.57938),
}


class Stems:
    """Compares texts by their word stems."""

    version = "stems-1"

    def __call__(self, one, other):
        return lexical_cosine(one, other)


def score(name, record):
    metrics = resolve_metrics(Settings(metrics=(name,)), plugins=())
    shared = [each for each in metrics if isinstance(each.metric, JudgementMetric)]
    pipeline = MetricPipeline(
        metrics,
        wanted=(name,),
        judged=JudgementScorer(ScriptedJudge(), shared) if shared else None,
        criteria_judge=ScriptedCriteria(),
        similarity=Stems(),
    )
    [found] = pipeline.score(Interaction.model_validate(record))
    return found


@pytest.mark.parametrize("name", METRICS)
def test_metric_has_its_expected_values(name):
    found = [score(name, record) for record in (RECORD, SECOND)]
    assert tuple(each.score for each in found) == EXPECTED[ALIASES.get(name, name)]
    # Micro F1 differs from macro F1 by what a query counts in a window.
    assert ("window_weight" in found[0].metadata) == (name == "micro_f1")


@pytest.mark.parametrize("name", METRICS)
def test_score_of_ours_has_a_reason(name):
    # Of a question to the judge, and of relevance, the reason is the judge's own.
    if name != "relevance" and not isinstance(METRICS[name], RubricMetric):
        assert score(name, RECORD).explanation


def test_no_two_metrics_of_a_kind_have_the_same_values():
    assert EXPECTED.keys() == METRICS.keys() - ALIASES.keys()
    alike = Counter((type(METRICS[name]), values) for name, values in EXPECTED.items())
    same = [n for n, values in EXPECTED.items() if alike[type(METRICS[n]), values] > 1]
    assert same == ["macro_f1", "micro_f1"]


def body(metric):
    """Return what makes a metric's score, and the kind of metric that could have it as well."""
    kind = type(metric)
    names = {Computed: "compute", Combined: "combine"}
    return kind, getattr(metric, names.get(kind, "read"))


def outcome(name, make, record):
    """Run the body of another metric with the parameters of *name*; what breaks is an outcome."""
    interaction = Interaction.model_validate(record)
    metric, lower = METRICS[name], {"hallucination", "bias", "score_std", "score_range"}
    try:
        if isinstance(metric, Combined):
            parts = make.__self__.weights
            place = (RECORD, SECOND).index(record)
            found = make({part: EXPECTED[part][place] for part in parts}, lower & parts.keys())
        else:
            given = []
            if not isinstance(metric, Computed):
                criteria = [each for m in METRICS.values() for each in getattr(m, "criteria", ())]
                judged = isinstance(metric, JudgementMetric)
                asked = ScriptedCriteria().ask(interaction, criteria, frozenset()).answers
                given = [ScriptedJudge().judge(interaction) if judged else asked]
            with compared_by(Stems()):
                found = make(*given, interaction, metric.declaration.parameters())
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return found.skipped or round(found.score, 6), "window_weight" in found.details


def test_swapping_the_bodies_of_any_two_metrics_changes_a_value():
    swapped = 0
    for pair in combinations(EXPECTED, 2):
        kinds, bodies = zip(*(body(METRICS[name]) for name in pair), strict=True)
        if kinds[0] is kinds[1]:
            swapped += 1
            assert any(
                outcome(name, own, record) != outcome(name, other, record)
                for name, own, other in zip(pair, bodies, reversed(bodies), strict=True)
                for record in (RECORD, SECOND)
            ), pair
    assert swapped > 800


@pytest.mark.parametrize("name", EXPECTED)
def test_metric_body_alone_gives_the_expected_values(name):
    found = [outcome(name, body(METRICS[name])[1], record)[0] for record in (RECORD, SECOND)]
    assert found == pytest.approx(EXPECTED[name], abs=2e-6)


@pytest.mark.parametrize("name", METRICS)
def test_manual_example_has_the_inputs_of_every_metric(name):
    found = score(name, EXAMPLE)
    assert found.reason == UNSHOWN.get(name, "")
