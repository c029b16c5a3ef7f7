"""The formulas and examples of seed 002, "RAG Evaluation Frameworks", by section."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from monitor.scoring.evaluators import citations, evidence
from monitor.scoring.metrics import (
    context,
    entropy,
    faithfulness,
    grounding,
    integration,
    retrieval,
)

# Core Grounding Metrics


def test_faithfulness_example_of_the_tower_is_two_thirds():
    assert faithfulness.faithfulness([True, True, False]) == pytest.approx(0.667, abs=1e-3)


def test_grounding_score_is_the_mean_of_the_best_passages():
    matrix = grounding.as_matrix([[0.2, 0.9], [0.5, 0.1]])
    assert grounding.grounding_score(matrix) == pytest.approx(0.7)


def test_grounding_score_is_nothing_without_passages():
    assert grounding.grounding_score(grounding.as_matrix([[], []])) == 0


@pytest.mark.parametrize("rows", [[], [[1.2]], [[-0.1]], [[float("nan")]]])
def test_probabilities_are_refused_when_they_are_none(rows):
    with pytest.raises(ValueError, match="probabilit"):
        grounding.as_matrix(rows)


def test_hallucination_counts_contradicted_contexts():
    assert grounding.contradicted_share([True, False, False, False]) == 0.25


@pytest.mark.parametrize(
    ("entailment", "score"), [(0.81, 1.0), (0.8, 0.7), (0.51, 0.7), (0.5, 0.0), (None, 0.0)]
)
def test_verify_citation(entailment, score):
    assert citations.citation_verdict(entailment) == score


def test_grace_compares_with_the_true_document():
    assert citations.grace_accuracy(["1", "2", None], ["1", "3", "2"]) == pytest.approx(1 / 3)


def test_fine_grained_citation_verification():
    assert citations.citation_quality_score(1, 1, 1) == pytest.approx(1)
    assert citations.citation_quality_score(1, 0, 0.5) == pytest.approx(0.55)


# RAG-Specific Metrics

FIVE = ["d1", "d2", "d3", "d4", "d5"]


def test_precision_at_k_example():
    assert retrieval.precision_at_k(FIVE, {"d1", "d3", "d4"}, 5) == 0.6


def test_recall_at_k_example():
    retrieved = [f"d{n}" for n in range(10)]
    relevant = {f"d{n}" for n in range(5)} | {"x", "y", "z"}
    assert retrieval.recall_at_k(retrieved, relevant, 10) == 0.625


def test_f1_at_k_is_the_harmonic_mean():
    assert retrieval.f1_at_k(FIVE, {"d1", "d3", "x"}, 5) == pytest.approx(0.5)
    assert retrieval.f1_at_k(FIVE, {"x"}, 5) == 0


def test_mrr_example():
    rankings = [(FIVE, {"d2"}), (FIVE, {"d1"}), (FIVE, {"d5"})]
    assert retrieval.mean_reciprocal_rank(rankings) == pytest.approx(0.567, abs=1e-3)
    assert retrieval.reciprocal_rank(FIVE, {"x"}) == 0


def test_ndcg_example_follows_the_formula_and_not_the_figure():
    gains = dict(zip(FIVE, [3, 2, 3, 0, 1], strict=True))
    assert retrieval.dcg([3, 2, 3, 0, 1]) == pytest.approx(6.15, abs=5e-3)
    assert retrieval.dcg([3, 3, 2, 1, 0]) == pytest.approx(6.32, abs=5e-3)  # the text says 7.65
    assert retrieval.ndcg_at_k_score(FIVE, gains, 5) == pytest.approx(0.972, abs=1e-3)  # and 0.804


def test_context_precision_of_ragas():
    assert context.sentence_precision(3, 12) == 0.25


def test_context_precision_of_deepeval_likes_early_passages():
    assert context.ranked_precision([True, False, True]) == pytest.approx((1 + 2 / 3) / 2)
    assert context.ranked_precision([False, True, True]) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert context.ranked_precision([False]) == 0


def test_context_recall_example():
    assert context.context_recall([True, False, True, True]) == 0.75


def test_answer_relevance_example():
    assert context.answer_relevance([1.0, 0.95, 0.93]) == pytest.approx(0.96)


def test_answer_correctness_weights():
    assert context.answer_correctness(1.0, 0.5) == pytest.approx(0.8)


# Mathematical Definitions


def test_weighted_faithfulness_by_position():
    weights = faithfulness.position_weights(["a", "b"])
    assert weights == [1, 0.5]
    assert faithfulness.faithfulness([False, True], weights) == pytest.approx(1 / 3)


def test_weighted_faithfulness_by_nearness_to_the_query():
    statements = ["The refund takes five days.", "Cats sleep a lot."]
    weights = faithfulness.semantic_weights(statements, "How long does a refund take?")
    assert weights[0] > weights[1] == 0
    assert faithfulness.faithfulness([True, False], weights) == 1
    assert faithfulness.semantic_weights(statements, "zebra") == [1, 1]


def test_confidence_interval_example():
    low, high = faithfulness.normal_interval(45, 50)
    assert (low, high) == (pytest.approx(0.817, abs=1e-3), pytest.approx(0.983, abs=1e-3))


def test_macro_and_micro_f1():
    queries = [retrieval.Counts(1, 0, 0), retrieval.Counts(1, 3, 5)]
    assert retrieval.macro_f1(queries) == pytest.approx((1 + 0.2) / 2)
    assert retrieval.micro_f1(queries) == pytest.approx(4 / 12)
    assert retrieval.macro_f1([]) == retrieval.micro_f1([]) == 0


def test_context_diversity_in_bits():
    assert entropy.entropy_bits([1, 1, 1, 1]) == 2
    assert entropy.entropy_bits([1, 0]) == 0
    assert entropy.normalised_entropy([1, 1, 1]) == pytest.approx(1)


def test_answer_uncertainty_is_low_when_samples_agree():
    assert entropy.answer_uncertainty(["Paris.", "paris", "Paris"]) == 0
    assert entropy.answer_uncertainty(["a", "b"]) == 1
    assert entropy.answer_uncertainty(["a"]) == 0


# Multi-Document Evaluation


def test_pairs_are_tried_only_where_no_single_passage_suffices():
    asked = []

    def pair(claim, one, other):
        asked.append((claim, one, other))
        return 0.9

    matrix = grounding.as_matrix([[0.8, 0.1, 0.0], [0.3, 0.4, 0.0]])
    assert grounding.multi_document_grounding(matrix, pair) == pytest.approx(0.85)
    assert asked == [(1, 0, 1), (1, 0, 2), (1, 1, 2)]


def test_citation_graph_example():
    cited, supporting = {"smith2020", "jones2021", "brown2019"}, {"smith2020", "jones2021"}
    assert citations.citation_precision(cited, supporting) == pytest.approx(0.67, abs=5e-3)
    assert citations.citation_completeness(cited, supporting) == 1


def test_multi_source_coverage_counts_claims_that_need_several():
    assert citations.multi_source_coverage_score([(2, 3), (2, 1), (1, 0)]) == 0.5


def test_information_integration_weights():
    assert integration.information_integration(1.0, 0.5) == pytest.approx(0.8)


def test_contradiction_handling():
    assert integration.contradiction_handling(1, 4) == 0.25


def test_rgb_abilities():
    assert integration.noise_robustness(0.5, noise=2) == 0.5
    assert integration.negative_rejection([True, False]) == 0.5
    assert integration.counterfactual_robustness([True, True, False]) == pytest.approx(2 / 3)


# VERA-Specific Metrics


def test_chain_integrity_wants_confidence_to_be_kept():
    assert evidence.chain_integrity_score([0.5, 0.5, 0.9]) == 1
    assert evidence.chain_integrity_score([0.5, 0.4]) == 0
    assert evidence.chain_integrity_score([0.5, 0.45], threshold=0.1) == 1
    assert evidence.chain_break([0.5, 0.6, 0.2]) == 2


def test_categorical_correctness_is_the_worst_law():
    assert evidence.categorical_correctness(1, 0, 1) == 0


def test_evidence_quality_weights():
    assert evidence.evidence_quality_score(1, 0.5, 0.5, 0) == pytest.approx(0.65)


def test_evidence_is_half_as_recent_after_its_half_life():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    year = timedelta(days=365)
    assert evidence.recency(now - year, now, year) == 0.5
    assert evidence.recency(now + year, now, year) == 1
    assert evidence.source_diversity(["a", "a", "b"]) == pytest.approx(2 / 3)


# Appendix: Metric Calculation Examples


def test_complete_faithfulness_example():
    assert faithfulness.faithfulness([True, True, True, True, False]) == 0.8


def test_complete_citation_accuracy_example():
    assert citations.citation_accuracy_score([0.95, 0.98, 0.65]) == pytest.approx(0.67, abs=5e-3)


def test_citation_extraction_example():
    answer = (
        "Research shows global temperatures increased 1.1°C [1]. Extreme weather events rose"
        " by 40% [2]. Solar energy adoption is accelerating [3]."
    )
    assert citations.cited_claims(answer) == [
        ("Research shows global temperatures increased 1.1°C.", ("1",)),
        ("Extreme weather events rose by 40%.", ("2",)),
        ("Solar energy adoption is accelerating.", ("3",)),
    ]


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("A fact [1, 2].", ("1", "2")),
        ("A fact.[1][2]", ("1", "2")),
        ("A fact. [doc-a] ", ("doc-a",)),
        ("A fact (Smith, 2020).", ()),
    ],
)
def test_citations_are_read_however_they_stand(answer, cited):
    [claim] = citations.cited_claims(answer)
    assert claim.cited == cited


@pytest.mark.parametrize(
    "call",
    [
        lambda: faithfulness.faithfulness([]),
        lambda: faithfulness.faithfulness([True], [0.0]),
        lambda: faithfulness.normal_interval(2, 1),
        lambda: grounding.contradicted_share([]),
        lambda: grounding.hallucination(0, 0),
        lambda: citations.citation_accuracy_score([]),
        lambda: citations.grace_accuracy(["1"], []),
        lambda: citations.multi_source_coverage_score([(1, 1)]),
        lambda: retrieval.precision_at_k([], {"a"}, 0),
        lambda: retrieval.recall_at_k([], set(), 1),
        lambda: retrieval.ndcg_at_k_score([], {"a": 0}, 1),
        lambda: context.sentence_precision(2, 1),
        lambda: context.context_recall([]),
        lambda: context.answer_relevance([]),
        lambda: entropy.entropy_bits([0, 0]),
        lambda: entropy.entropy_bits([-1, 2]),
        lambda: integration.contradiction_handling(0, 0),
        lambda: integration.noise_robustness(1.0, noise=0),
        lambda: integration.negative_rejection([]),
        lambda: integration.counterfactual_robustness([]),
    ],
)
def test_what_is_not_defined_is_refused(call):
    with pytest.raises(ValueError, match=r"\w"):
        call()


def test_every_value_is_finite():
    assert math.isfinite(retrieval.ndcg_at_k_score([], {"a": 1.0}, 3))
