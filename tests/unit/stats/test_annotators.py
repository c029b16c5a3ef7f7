"""Agreement of any number of annotators: published examples, and the definitions themselves."""

from itertools import permutations

import numpy as np
import pytest

from monitor.stats.agreement import confusion, fleiss_kappa, krippendorff_alpha

NAN = np.nan
#: Four observers and twelve units, of Krippendorff, "Computing Krippendorff's Alpha-Reliability".
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
])  # fmt: skip
#: Fourteen raters, ten subjects, five categories.
FLEISS = np.array([
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
], dtype=float)  # fmt: skip


def counts_of(ratings, values):
    return np.stack([(ratings == value).sum(axis=0) for value in values], axis=1).astype(float)


def test_published_agreement_examples_are_reproduced():
    values = [1, 2, 3, 4, 5]
    counts = counts_of(KRIPPENDORFF, values)
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(counts, values) == pytest.approx(0.849, abs=5e-4)
    assert fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)


def alpha_by_definition(ratings, distance):
    """1 - observed / expected disagreement, pair by pair."""
    units = [[x for x in column if not np.isnan(x)] for column in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    values = [x for unit in units for x in unit]
    observed = sum(
        distance(a, b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)
    )
    expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) - 1)
    return 1 - observed / expected


@pytest.mark.parametrize("seed", range(20))
def test_krippendorff_alpha_equals_its_definition_on_random_tables(seed):
    random = np.random.default_rng(seed)
    ratings = random.integers(0, 4, (int(random.integers(2, 6)), 15)).astype(float)
    ratings[random.random(ratings.shape) < 0.3] = NAN
    counts = counts_of(ratings, range(4))
    nominal = alpha_by_definition(ratings, lambda a, b: float(a != b))
    interval = alpha_by_definition(ratings, lambda a, b: (a - b) ** 2)
    assert krippendorff_alpha(counts) == pytest.approx(nominal)
    assert krippendorff_alpha(counts, list(range(4))) == pytest.approx(interval)


@pytest.mark.parametrize("seed", range(20))
def test_kappa_of_two_annotators_equals_scikit_learns(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2, (2, 40)).tolist()
    assert confusion(zip(a, b, strict=True)).kappa == pytest.approx(metrics.cohen_kappa_score(a, b))


def test_agreement_explained_by_chance_alone_is_undefined():
    assert fleiss_kappa(np.array([[2.0, 0.0], [2.0, 0.0]])) is None
    assert krippendorff_alpha(np.array([[2.0, 0.0], [1.0, 0.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, 0.0]])) is None


def test_fleiss_kappa_requires_the_same_number_of_annotators():
    with pytest.raises(ValueError, match="same number of annotators"):
        fleiss_kappa(np.array([[2.0, 0.0], [1.0, 0.0]]))
