"""Comparing two variants: the same figures as scipy's, and the decision people expect."""

import numpy as np
import pytest
from scipy import stats

from monitor.models import ABTestEvaluation, Tally
from monitor.models.evaluation import Direction
from monitor.stats.two_rates import Blocks
from monitor.testsets.compare import (
    arm_of_tally,
    arms_of_scores,
    compare,
    decide,
    decision,
    sequential_winner,
)

RANDOM = np.random.default_rng(20)


def compared(a, b, metric="quality", direction=Direction.HIGHER):
    arms = arms_of_scores({"A": list(a), "B": list(b)})
    return compare(metric, *arms, direction=direction)


@pytest.mark.parametrize("seed", range(40))
def test_comparison_figures_equal_scipys(seed):
    random = np.random.default_rng(seed)
    m, n, steps = [*random.integers(3, 90, 2).tolist(), int(random.integers(2, 40))]
    a, b = random.integers(0, steps, m) / steps, random.integers(0, steps, n) / steps + 0.03
    found = compared(a, b)
    welch = stats.ttest_ind(b, a, equal_var=False)
    pooled = np.sqrt(((m - 1) * a.var(ddof=1) + (n - 1) * b.var(ddof=1)) / (m + n - 2))
    ranks = stats.mannwhitneyu(b, a, method="asymptotic")
    assert found.welch_p == pytest.approx(welch.pvalue, abs=1e-12)
    assert found.mann_whitney_p == pytest.approx(ranks.pvalue, abs=1e-12)
    assert found.superiority == pytest.approx(ranks.statistic / (m * n), abs=1e-12)
    assert found.cohens_d == pytest.approx((b.mean() - a.mean()) / pooled, abs=1e-12)


def test_effect_interval_has_its_stated_coverage():
    covered = 0
    for _ in range(400):
        low, high = compared(RANDOM.normal(0, 1, 40), RANDOM.normal(0.5, 1, 40)).cohens_d_interval
        covered += low <= 0.5 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_preference_interval_has_its_stated_coverage():
    truth = stats.norm.cdf(0.5 / np.sqrt(2))
    covered = 0
    for _ in range(400):
        found = compared(RANDOM.normal(0, 1, 60), RANDOM.normal(0.5, 1, 60))
        low, high = found.superiority_interval
        covered += low <= truth <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_equal_variants_are_seldom_deployed():
    deployed = 0
    for _ in range(1_000):
        one = decide([compared(RANDOM.beta(5, 2, 300), RANDOM.beta(5, 2, 300))])
        deployed += decision(one).startswith("deploy")
    assert deployed <= 65


def test_better_variant_is_deployed_and_a_worse_one_is_not():
    low, high = RANDOM.beta(4, 2, 400), RANDOM.beta(7, 2, 400)
    assert decision(decide([compared(low, high)])).startswith("deploy B")
    assert decision(decide([compared(high, low)])).startswith("keep A: B is worse")


def test_significant_but_negligible_difference_changes_nothing():
    a = RANDOM.normal(0.5, 0.1, 40_000)
    (found,) = decide([compared(a, a + 0.005)])
    assert found.holm_p < 0.001
    assert found.cohens_d < 0.1
    assert found.winner is None


def test_better_in_one_metric_and_worse_in_another_is_not_deployed():
    low, high = RANDOM.beta(4, 2, 400), RANDOM.beta(7, 2, 400)
    found = decide([compared(low, high, "relevance"), compared(high, low, "groundedness")])
    assert decision(found) == "keep A: B is worse in groundedness"


def test_lower_variant_wins_when_lower_is_better():
    (found,) = decide([
        compared(RANDOM.beta(2, 7, 300), RANDOM.beta(2, 4, 300), direction=Direction.LOWER)
    ])  # fmt: skip
    assert found.winner == "A"


def test_many_metrics_make_each_test_stricter():
    (alone,) = decide([compared([0.1, 0.4, 0.5, 0.6], [0.6, 0.7, 0.8, 0.9])])
    together = decide([compared([0.1, 0.4, 0.5, 0.6], [0.6, 0.7, 0.8, 0.9])] * 4)
    assert together[0].holm_p == pytest.approx(4 * alone.holm_p)


def test_too_few_scores_are_reported_and_decide_nothing():
    (found,) = decide([compared([0.5], [0.5, 0.6])])
    assert (found.winner, found.welch_p) == (None, None)
    assert found.reason == "A has 1 scores: two a side are the least"


def test_constant_scores_are_compared():
    (found,) = decide([compared([1.0] * 5, [0.0] * 5)])
    assert (found.winner, found.cohens_d, found.welch_p) == ("A", None, 0.0)


def test_sums_of_a_stream_give_the_figures_of_its_scores():
    scores = [np.round(RANDOM.beta(5, 2, n), 2) for n in (80, 120)]
    tallies = [
        Tally(
            n=len(x), passed=int((x >= 0.7).sum()), sum_w=len(x), sum_w2=len(x),
            sum_wy=(x >= 0.7).sum(), sum_w2y=(x >= 0.7).sum(), sum_w2yy=(x >= 0.7).sum(),
            sum_x=x.sum(), sum_x2=(x * x).sum(), sum_wx=x.sum(), sum_wxx=(x * x).sum(),
            histogram=dict(zip(*np.unique((x * 100).round().astype(int), return_counts=True),
                               strict=True)),
        )
        for x in scores
    ]  # fmt: skip
    plain = compared(*scores)
    found = compare("quality", *map(arm_of_tally, "AB", tallies))
    assert found.welch_p == pytest.approx(plain.welch_p)
    assert found.mann_whitney_p == pytest.approx(plain.mann_whitney_p)
    assert found.cohens_d == pytest.approx(plain.cohens_d)


def test_record_gives_the_share_that_prefers_a():
    (found,) = decide([compared(RANDOM.beta(7, 2, 300), RANDOM.beta(4, 2, 300))])
    record = ABTestEvaluation.model_validate_json(found.ab_test().model_dump_json())
    assert record.score == record.comparison_data.preference_score > 0.6
    low, high = record.comparison_data.confidence_interval
    assert low < record.score < high
    assert record.comparison_data.statistical_significance
    assert record.comparison_data.sample_size == 600


def test_incomparable_scores_are_skipped_with_a_reason():
    record = compared([0.5], [0.6]).ab_test()
    assert record.status == "skipped"
    assert "two a side" in record.reason


def looks(p, q, runs):
    n = np.full(runs, 10.0)
    return Blocks(RANDOM.binomial(10, p, runs) * 1.0, n, RANDOM.binomial(10, q, runs) * 1.0, n)


def test_sequential_winner_is_found_and_rarely_invented():
    assert sequential_winner(looks(0.9, 0.7, 200), ("A", "B")) == "A"
    assert sequential_winner(looks(0.7, 0.9, 200), ("A", "B")) == "B"
    found = [sequential_winner(looks(0.8, 0.8, 300), ("A", "B")) for _ in range(200)]
    assert sum(one is not None for one in found) <= 14
