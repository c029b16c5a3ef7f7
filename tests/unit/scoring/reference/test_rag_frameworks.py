"""The formulas and examples of the RAG evaluation frameworks, by section."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import Answers, CriterionAnswer, compared_by
from monitor.scoring.measures import (
    entropy_bits,
    lexical_cosine,
    share,
    weighted_mean,
)
from monitor.scoring.metrics import (
    METRICS,
    agent,
    groundedness,
    retrieval,
)
from monitor.scoring.metrics.evidence import DiversityWeights, EvidenceRules
from monitor.scoring.metrics.marks import cited_claims
from monitor.stats.summary import normal_interval
from monitor.testing import make_interaction

SURE = Claim(text="sure", verdict=ClaimVerdict.SUPPORTED, support=1.0)


def read(name, *claims, parameters=None, **fields):
    """Read a metric out of a judgement with claims of (support, index of the passage)."""
    judged = tuple(
        Claim(
            text=f"statement {number}",
            verdict=ClaimVerdict.SUPPORTED if support >= 0.5 else ClaimVerdict.CONTRADICTED,
            support=support,
            context_index=passage,
        )
        for number, (support, passage) in enumerate(claims)
    )
    interaction = make_interaction(**fields)
    parameters = parameters or METRICS[name].declaration.parameters()
    return METRICS[name].read(Judgement(claims=judged), interaction, parameters).score


def cite(name, *claims, **fields):
    """Read a metric of statements, each given by its support by three passages and its marks."""
    judged = tuple(
        Claim(
            text=f"statement {number}",
            verdict=ClaimVerdict.SUPPORTED,
            support=max(supports),
            by_passage=(*supports, 0.0, 0.0, 0.0)[:3],
        )
        for number, (supports, _) in enumerate(claims)
    )
    output = " ".join(f"Statement {n} {marks}." for n, (_, marks) in enumerate(claims))
    interaction = make_interaction(contexts=["a", "b", "c"], output=output, **fields)
    metric = METRICS[name]
    parameters = metric.declaration.parameters()
    return metric.read(Judgement(claims=judged), interaction, parameters)


def judged(by_name, reference="a"):
    """Answers of a judge that saw one sentence, and a reference of so many."""
    return Answers(by_name=by_name, sentences=("s",), passages=2, reference=tuple(reference))


def ask(name, answers, **fields):
    """Read a metric out of the judge's answers."""
    metric = METRICS[name]
    return metric.read(answers, make_interaction(**fields), metric.declaration.parameters()).score


# Core Grounding Metrics


def test_grounding_score_is_the_mean_of_the_best_passages():
    assert read("grounding_score", (0.9, 1), (0.5, 0)) == pytest.approx(0.7)


def test_grounding_score_is_zero_without_support():
    assert read("grounding_score", (0.0, None), (0.0, None)) == 0


def test_hallucination_counts_contradicted_contexts():
    found = read("contradicted_contexts", (0.0, 0), (1.0, 1), contexts=["a", "b", "c", "d"])
    assert found == 0.25


@pytest.mark.parametrize(
    ("entailment", "score"), [(0.81, 1.0), (0.8, 0.7), (0.51, 0.7), (0.5, 0.0), (None, 0.0)]
)
def test_citation_verdict_follows_from_its_entailment(entailment, score):
    mark = "[9]" if entailment is None else "[1]"
    assert cite("citation_accuracy", ((entailment or 0.9,), mark)).details["verdicts"] == [score]


def test_grace_accuracy_compares_citations_with_the_expected_ones():
    interaction = make_interaction(
        contexts=["a", "b", "c"],
        output="One is so [1]. Two is so [2]. Three is so.",
        expected={"citations": ["1", "3", "2"]},
    )
    metric = METRICS["citation_accuracy_grace"]
    assert metric.compute(interaction, None).score == pytest.approx(1 / 3)


def test_fine_grained_citation_verification():
    assert cite("citation_quality", ((1.0,), "[1]")).score == pytest.approx(1)
    other = {"citations": ["2"]}
    assert cite("citation_quality", ((0.5,), "[1]"), expected=other).score == pytest.approx(0.55)


# RAG-Specific Metrics

FIVE = ["d1", "d2", "d3", "d4", "d5"]


def test_f1_at_k_is_the_harmonic_mean():
    assert retrieval.f1_of(FIVE, {"d1", "d3", "x"}, 5) == pytest.approx(0.5)
    assert retrieval.f1_of(FIVE, {"x"}, 5) == 0


def test_passage_that_is_retrieved_twice_counts_once_for_its_rank():
    assert retrieval.reciprocal_rank(["a", "a", "b"], {"b"}) == 0.5


def test_ndcg_divides_by_the_best_ranking():
    assert retrieval.dcg([3, 2, 3, 0, 1]) == pytest.approx(6.15, abs=5e-3)
    assert retrieval.dcg([3, 3, 3, 2, 1]) == pytest.approx(7.64, abs=5e-3)


def test_context_precision_of_ragas_is_the_share_that_the_judge_estimates():
    answers = judged({"useful_share": CriterionAnswer(score=3 / 12)})
    assert ask("context_precision", answers) == 0.25


def test_deepeval_context_precision_rewards_early_passages():
    assert retrieval.average_precision([True, False, True]) == pytest.approx((1 + 2 / 3) / 2)
    assert retrieval.average_precision([False, True, True]) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert retrieval.average_precision([False]) == 0


def test_answer_correctness_weights():
    answers = judged({"wrong_sentences": CriterionAnswer()})
    same, other = "Refunds take five days.", "Cats purr."
    with compared_by(lexical_cosine):
        assert ask("answer_correctness", answers, output=same, expected={"answer": same}) == 1
        found = ask("answer_correctness", answers, output=same, expected={"answer": other})
    assert found == pytest.approx(0.6)


# Mathematical Definitions


def test_weighted_faithfulness_by_position():
    by_place = groundedness.ClaimWeights(weights="position")
    assert read("faithfulness", (0.0, 0), (1.0, 0), parameters=by_place) == pytest.approx(1 / 3)


def test_weighted_faithfulness_by_nearness_to_the_query():
    claims = (
        Claim(text="The refund takes five days.", verdict=ClaimVerdict.SUPPORTED, support=1.0),
        Claim(text="Cats sleep a lot.", verdict=ClaimVerdict.NOT_FOUND, support=0.0),
    )
    metric, near = METRICS["faithfulness"], groundedness.ClaimWeights(weights="semantic")
    for query, score in (("How long does a refund take?", 1.0), ("zebra", 0.5)):
        asked = make_interaction(query=query)
        assert metric.read(Judgement(claims=claims), asked, near).score == score


def test_macro_and_micro_f1():
    queries = [retrieval.Counts(1, 0, 0), retrieval.Counts(1, 3, 5)]
    assert retrieval.macro_average_f1(queries) == pytest.approx((1 + 0.2) / 2)
    assert retrieval.micro_average_f1(queries) == pytest.approx(4 / 12)
    assert retrieval.macro_average_f1([]) == retrieval.micro_average_f1([]) == 0


def test_context_diversity_in_bits():
    def diversity(*scores):
        contexts = [{"text": "t", "score": each} for each in scores]
        weights = DiversityWeights(weights="score")
        found = METRICS["context_diversity"].compute(make_interaction(contexts=contexts), weights)
        return found.score, found.details.get("bits")

    assert diversity(1, 1, 1, 1) == (1, 2)
    assert diversity(1, 0) == (0, 0)
    assert diversity(1, 1, 1)[0] == pytest.approx(1)


def test_answer_uncertainty_is_low_when_samples_agree():
    def uncertainty(*answers):
        interaction = make_interaction(metadata={"answers": list(answers)})
        return METRICS["answer_uncertainty"].compute(interaction, None)

    assert uncertainty("Paris.", "paris", "Paris").score == 0
    assert uncertainty("a", "b").score == 1
    assert uncertainty("a").skipped == "fewer_than_two_runs"


# Multi-Document Evaluation


def test_pairs_are_tried_only_where_no_single_passage_suffices():
    contexts = ["The tower was completed in 1889.", "The tower stands 330 meters tall.", "Cats."]
    text = "The tower was completed in 1889 and stands 330 meters tall."

    def grounding(support, verdict=ClaimVerdict.SUPPORTED):
        claims = Claim(text=text, verdict=verdict, support=support), SURE
        judgement = Judgement(claims=claims)
        metric = METRICS["multi_document_grounding"]
        return metric.read(judgement, make_interaction(contexts=contexts), None).score

    assert grounding(0.4) == grounding(0.5, ClaimVerdict.NOT_FOUND) > 0.9
    assert grounding(0.8) == pytest.approx(0.9)
    assert grounding(0.0) == pytest.approx(0.5)
    assert grounding(0.2, ClaimVerdict.CONTRADICTED) == pytest.approx(0.6)


def test_multi_source_coverage_counts_claims_that_need_several():
    claims = [((0.0,), "[1][2][3]"), ((0.0,), "[1]"), ((0.0,), "")]
    needed = {"sources_needed": [2, 2, 1]}
    assert cite("multi_source_coverage", *claims, expected=needed).score == 0.5
    one = cite("multi_source_coverage", *claims, expected={"sources_needed": [1, 1, 1]})
    assert one.skipped == "no_claim_needs_several"


def test_information_integration_weights():
    said = {
        "reference_in_answer": CriterionAnswer(numbers=(1,)),
        "synthesis": CriterionAnswer(score=0.5),
    }
    assert ask("information_integration", judged(said)) == pytest.approx(0.8)


def test_contradiction_handling():
    answers = judged({"acknowledged": CriterionAnswer(score=0.3)})
    told = {"contradictions": ["a", "b", "c", "d"]}
    assert ask("contradiction_handling", answers, expected=told) == 0.25


def test_rgb_abilities():
    covered = judged({"reference_in_answer": CriterionAnswer(numbers=(1,))}, reference="ab")
    noise = METRICS["noise_robustness"]
    relevant = {"contexts": ["a", "b"], "expected": {"answer": "x", "relevant": ["1"]}}
    assert ask("noise_robustness", covered, **relevant) == 0.5
    assert noise.unmet_too(make_interaction(**relevant)) is None
    assert noise.unmet_too(make_interaction(contexts=["a"], expected={"relevant": ["1"]}))
    noticed = judged({"noticed_false": CriterionAnswer(numbers=(1, 2))})
    told = {"false_passages": [1, 2, 3]}
    found = ask("counterfactual_robustness", noticed, contexts=["a", "b", "c"], expected=told)
    assert found == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("I could not find that in the documents.", 1),
        ("UNANSWERABLE", 1),
        ("Unknown.", 1),
        ("Not specified.", 1),
        ("No answer found.", 1),
        ("I don't have that information. Please contact us at 0800 123 456.", 1),
        ("I could not find this. You can reach us from 9 to 5 on weekdays.", 1),
        ("I could not find this. You can return it within 30 days.", 0),
        ("I could not find this. Contact support; the refund costs 30 euros.", 0),
        ("I could not find this. Please call us because the warranty lasts 2 years.", 0),
        ("I could not find this. Ask for a refund within 30 days.", 0),
        ("I could not find this. The support period is five years.", 0),
        ("It takes five days.", 0),
    ],
)
def test_negative_rejection(output, score):
    interaction = make_interaction(output=output, expected={"unanswerable": True})
    assert METRICS["negative_rejection"].compute(interaction, None).score == score


# VERA-Specific Metrics


def test_chain_integrity_requires_confidence_not_to_fall():
    metric = METRICS["chain_integrity"]

    def chain(*confidences, threshold=0.0):
        record = make_interaction(metadata={"verification_chain": list(confidences)})
        return metric.compute(record, agent.ChainRules(threshold=threshold))

    assert chain(0.5, 0.5, 0.9).score == chain(0.5, 0.45, threshold=0.1).score == 1
    assert chain(0.5, 0.4).score == 0
    assert chain(0.5, 0.6, 0.2).explanation == "Confidence falls at step 3."


def test_evidence_quality_weights():
    contexts = [{"text": "a", "source": "web", "published": "2025-01-01"}]
    found = evidence(contexts, enough_sources=2, authorities={"web": 0.0})
    assert found.score == pytest.approx(0.4 * 1 + 0.3 * 0.5 + 0.2 * 0.5)


@pytest.mark.parametrize(
    ("published", "recency"), [("2025-01-01", 0.5), ("2027-01-01", 1.0), ("lately", 0.5)]
)
def test_evidence_recency_halves_after_its_half_life(published, recency):
    contexts = [{"text": "a", "source": name, "published": published} for name in "xxy"]
    found = evidence(contexts)
    assert found.details["recency"] == recency
    assert found.details["diversity"] == pytest.approx(2 / 3)


def evidence(contexts, **parameters):
    """Read the quality of the evidence for one supported claim, at the beginning of 2026."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    metric, rules = METRICS["evidence_quality"], EvidenceRules(**parameters)
    record = make_interaction(contexts=contexts, timestamp=now)
    sure = replace(SURE, by_passage=(1.0,) * len(contexts))
    return metric.read(Judgement(claims=(sure,)), record, rules)


# Appendix: Metric Calculation Examples


def test_citation_extraction_example():
    answer = (
        "Research shows global temperatures increased 1.1°C [1]. Extreme weather events rose"
        " by 40% [2]. Solar energy adoption is accelerating [3]."
    )
    assert cited_claims(answer) == [
        ("Research shows global temperatures increased 1.1°C.", ("1",)),
        ("Extreme weather events rose by 40%.", ("2",)),
        ("Solar energy adoption is accelerating.", ("3",)),
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda: weighted_mean([]),
        lambda: weighted_mean([True], [0.0]),
        lambda: normal_interval(2, 1),
        lambda: share(0, 0),
        lambda: retrieval.precision_of([], {"a"}, 0),
        lambda: retrieval.recall_of([], set(), 1),
        lambda: retrieval.normalised_dcg([], {"a": 0}, 1),
        lambda: share(2, 1),
        lambda: entropy_bits([0, 0]),
        lambda: entropy_bits([-1, 2]),
    ],
)
def test_undefined_metric_value_raises(call):
    with pytest.raises(ValueError, match=r"\w"):
        call()


def test_every_value_is_finite():
    assert math.isfinite(retrieval.normalised_dcg([], {"a": 1.0}, 3))
