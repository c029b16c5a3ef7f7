"""Retrieval metrics equal scikit-learn's on random rankings."""

import random

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    label_ranking_average_precision_score,
    ndcg_score,
    precision_recall_fscore_support,
)

from monitor.scoring.metrics import retrieval

SEEDS = range(40)
DOCS = [f"d{n}" for n in range(12)]


def ranking(seed):
    """A random order of all documents, graded, at least one of them relevant."""
    draw = random.Random(seed)
    order = draw.sample(DOCS, len(DOCS))
    gains = {doc: float(draw.choice([0, 0, 1, 2, 3])) for doc in DOCS}
    gains[draw.choice(DOCS)] = 3.0
    return order, gains, draw.randint(1, len(DOCS))


def scores_by(order):
    """What a retriever that ranks like this would score each document."""
    return np.array([[len(DOCS) - order.index(doc) for doc in DOCS]], dtype=float)


@pytest.mark.parametrize("seed", SEEDS)
def test_ndcg_equals_the_librarys(seed):
    order, gains, k = ranking(seed)
    truth = np.array([[gains[doc] for doc in DOCS]])
    assert retrieval.normalised_dcg(order, gains, k) == pytest.approx(
        ndcg_score(truth, scores_by(order), k=k)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_precision_recall_and_f1_equal_the_librarys(seed):
    order, gains, k = ranking(seed)
    relevant = {doc for doc, gain in gains.items() if gain > 0}
    truth, found = [doc in relevant for doc in DOCS], [doc in order[:k] for doc in DOCS]
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, found, average="binary", zero_division=0
    )
    assert retrieval.precision_of(order, relevant, k) == pytest.approx(precision)
    assert retrieval.recall_of(order, relevant, k) == pytest.approx(recall)
    assert retrieval.f1_of(order, relevant, k) == pytest.approx(f1)


@pytest.mark.parametrize("seed", SEEDS)
def test_reciprocal_rank_equals_the_librarys_when_one_is_relevant(seed):
    order, _, _ = ranking(seed)
    relevant = random.Random(seed).choice(DOCS)
    truth = np.array([[doc == relevant for doc in DOCS]])
    assert retrieval.reciprocal_rank(order, {relevant}) == pytest.approx(
        label_ranking_average_precision_score(truth, scores_by(order))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_ranked_precision_equals_the_librarys_average_precision(seed):
    order, gains, _ = ranking(seed)
    flags = [gains[doc] > 0 for doc in order]
    assert retrieval.average_precision(flags) == pytest.approx(
        average_precision_score(flags, -np.arange(len(flags)))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_macro_and_micro_f1_equal_the_librarys(seed):
    draw = random.Random(seed)
    queries = [
        (draw.sample(DOCS, draw.randint(1, 6)), draw.sample(DOCS, draw.randint(1, 6)))
        for _ in range(5)
    ]
    truth = np.array([[doc in relevant for doc in DOCS] for _, relevant in queries])
    found = np.array([[doc in retrieved for doc in DOCS] for retrieved, _ in queries])
    counts = [retrieval.counts(retrieved, relevant) for retrieved, relevant in queries]
    for average, ours in (
        ("samples", retrieval.macro_average_f1),
        ("micro", retrieval.micro_average_f1),
    ):
        assert ours(counts) == pytest.approx(
            f1_score(truth, found, average=average, zero_division=0)
        )
