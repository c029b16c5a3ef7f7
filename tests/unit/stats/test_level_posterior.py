"""What labels teach is the posterior: draws against integrals, and quantiles of known draws."""

import numpy as np
import pytest
from scipy.stats import beta, dirichlet

from monitor.stats.agreement import (
    Confusion,
    ErrorRates,
    ScoreBand,
    count_bands,
    learn,
    learn_lines,
)

#: A tenth of what lies between hit and miss, in equal steps.
EVEN = np.linspace(0.0, 1.0, 1001)


def known(hit=0.9, miss=0.2, mass=0.95):
    """Return what is known of an evaluator whose rates are certain, and whose level is any."""
    return ErrorRates(np.full(1001, hit), np.full(1001, miss), EVEN, mass)


@pytest.mark.parametrize("labels", [(24, 1, 5, 20), (3, 0, 2, 9)])
@pytest.mark.parametrize("passed", [380, 150])
def test_error_rates_equal_the_posterior_integral(labels, passed):
    """Likelihood times the documented beliefs, summed over a grid of quantiles."""
    good_p, bad_p, good_f, bad_f = labels
    at = (np.arange(60) + 0.5) / 60
    rate, p, f = np.meshgrid(
        beta(1 + passed, 401 - passed).ppf(at), beta(1.9 + good_p, 0.1 + bad_p).ppf(at),
        beta(0.6 + good_f, 1.0 + bad_f).ppf(at),
    )  # fmt: skip
    level = rate * p + (1 - rate) * f
    hit, miss = rate * p / level, rate * (1 - p) / np.maximum(1 - level, 1e-9)
    inside = (np.clip(each, 1e-4, 1 - 1e-4) for each in (hit, miss))
    weight = np.prod(
        [beta(*belief).pdf(x) for x, belief in zip(inside, ((6, 1.2), (1.5, 4)), strict=True)],
        axis=0,
    )
    found = learn(Confusion(*labels), passed=passed, scored=400)
    for draws, expected in ((found.hit, hit), (found.miss, miss), (found.labelled, level)):
        assert draws.mean() == pytest.approx(np.average(expected, weights=weight), abs=0.012)
        square = np.average(expected**2, weights=weight)
        assert (draws**2).mean() == pytest.approx(square, abs=0.012)


def test_band_thresholds_have_the_rates_of_scores_above_them():
    bands = [ScoreBand(80, 4, 9), ScoreBand(100, 12, 2), ScoreBand(220, 16, 0)]
    share = dirichlet([81, 101, 221]).mean()
    good = np.array([4.75 / 14.5, 13.05 / 15.5, 17.35 / 17.5])
    for line, rates in enumerate(learn_lines(bands), start=1):
        level = rates.labelled
        above = slice(line, None)
        assert level.mean() == pytest.approx(share @ good, abs=0.005)
        assert (level * rates.hit).mean() == pytest.approx(
            (share * good)[above].sum(), abs=0.005
        )  # fmt: skip
        missed = (share * (1 - good))[above].sum()
        assert ((1 - level) * rates.miss).mean() == pytest.approx(missed, abs=0.004)


def test_two_thirds_of_the_excluded_mass_lie_above_the_interval():
    mean, (low, high) = known(mass=0.94).labelled_level()
    assert (mean, low, high) == pytest.approx((0.5, 0.02, 0.96))


@pytest.mark.parametrize(
    ("labels", "doubt"), [(29, 0.15), (30, 0.15), (50, 0.45), (150, 0.10), (5_000, 0.05)]
)
def test_interval_spends_its_share_of_the_error_at_each_label_count(labels, doubt):
    found = learn(Confusion(20, 2, 2, 20), passed=300, scored=400, n_labels=labels)
    assert found.mass == pytest.approx(1 - 0.05 * doubt)
    half = labels / 2
    (lines,) = learn_lines([ScoreBand(100, half / 2, half / 2), ScoreBand(100, half, 0)])
    assert lines.mass == pytest.approx(1 - 0.05 * doubt)


def test_label_count_defaults_to_the_confusion_matrix_total():
    assert learn(Confusion(20, 10, 10, 10), passed=300, scored=400).mass == 1 - 0.05 * 0.45


def test_level_of_a_window_follows_from_its_pass_rate():
    rates = known()
    mean, (low, high) = rates.level(5_500, 10_000)
    assert mean == pytest.approx((0.55 - 0.2) / 0.7, abs=0.002)
    error = 1.96 * np.sqrt(0.55 * 0.45 / 10_000) / 0.7
    assert high - low == pytest.approx(2 * error, rel=0.15)
    assert rates.level(0, 100)[0] == 0.0
    assert rates.level(100, 100)[0] == 1.0


def test_threshold_and_possible_levels_are_deciles_of_the_draws():
    """The level is between 0 and 100 misses in a thousand, evenly."""
    miss = np.linspace(0.1, 0.2, 1001)
    rates = ErrorRates(np.full(1001, 0.9), miss, EVEN)
    assert rates.threshold(0.5) == pytest.approx(0.11 + 0.5 * (0.9 - 0.11))
    assert rates.highest_level(0.5) == pytest.approx((0.5 - 0.11) / (0.9 - 0.11))
    assert rates.lowest_level(0.5) == pytest.approx((0.5 - 0.19) / (0.9 - 0.19), abs=1e-4)
    assert (rates.highest_level(0.0), rates.highest_level(1.0)) == (0.0, 1.0)


def test_nearly_equal_rates_do_not_divide_by_zero():
    assert known(hit=0.5, miss=0.5).threshold(1.0) == pytest.approx(0.55)
    assert known(hit=0.5, miss=0.5).highest_level(0.52) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("clear", "tells"), [(0.96, True), (0.94, None), (0.51, None), (0.49, False)]
)
def test_evaluator_discriminates_if_19_of_20_draws_do(clear, tells):
    hit = np.where(np.arange(1000) < 1000 * clear, 0.8, 0.6)
    assert ErrorRates(hit, np.full(1000, 0.4), hit).tells() is tells


def test_score_at_a_band_threshold_is_in_the_upper_band():
    assert [band.scored for band in count_bands((50,), {49: 1, 50: 2})] == [1, 2]
