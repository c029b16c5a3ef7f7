"""Error rates from labels, and the level and the thresholds that follow from them."""

import numpy as np
import pytest

from monitor.stats.agreement import (
    Confusion,
    ScoreBand,
    bands_to_label,
    count_bands,
    learn,
    learn_lines,
    level_lines,
    renewed_at,
)

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def same_draws_whatever_ran_before(monkeypatch):
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(3))


def labelled(hit, miss, level, n_labels=50, scored=400):
    """Return what labels of an app teach, half of them on passes and half on fails."""
    good = RNG.random(scored) < level
    passed = RNG.random(scored) < np.where(good, hit, miss)
    fails = np.flatnonzero(~passed)[: n_labels // 2]
    drawn = np.r_[fails, np.flatnonzero(passed)[: n_labels - fails.size]]
    pairs = [(bool(passed[i]), bool(good[i])) for i in drawn]
    confusion = Confusion(*(pairs.count(p) for p in PAIRS))
    return learn(confusion, passed=passed.sum(), scored=scored)


PAIRS = ((True, True), (True, False), (False, True), (False, False))


@pytest.mark.parametrize(("hit", "miss"), [(0.96, 0.10), (0.93, 0.25), (0.80, 0.05)])
def test_later_fall_has_its_true_level_despite_judge_bias(hit, miss):
    found = [
        labelled(hit, miss, 0.95).level(RNG.binomial(400, miss + 0.7 * (hit - miss)), 400)
        for _ in range(60)
    ]
    assert np.mean([level for level, _ in found]) == pytest.approx(0.7, abs=0.06)
    assert np.mean([bounds.low <= 0.7 <= bounds.high for _, bounds in found]) >= 0.94


def test_harsh_judge_of_a_good_app_gets_a_lower_threshold():
    thresholds = [labelled(0.80, 0.05, 0.95).threshold(0.85) for _ in range(40)]
    # The app passes 76 % while it is good: its threshold lies below that.
    assert 0.6 < np.mean(thresholds) < 0.72


def test_status_read_from_the_highest_level_agrees_with_the_threshold():
    rates = labelled(0.93, 0.25, 0.9)
    for level in (0.85, 0.7, 0.31):
        threshold = rates.threshold(level)
        assert rates.highest_level(threshold - 1e-6) < level
        assert rates.highest_level(threshold + 1e-6) >= level


def test_interval_covers_the_level_of_the_labelled_period():
    found = [labelled(0.9, 0.3, 0.9).labelled_level()[1] for _ in range(60)]
    assert np.mean([bounds.low <= 0.9 <= bounds.high for bounds in found]) >= 0.94


def test_judge_that_passes_half_of_the_bad_answers_is_not_discriminating():
    assert labelled(0.9, 0.85, 0.7, n_labels=200).tells() is False
    assert labelled(0.96, 0.1, 0.7, n_labels=200).tells()


def test_same_labels_give_the_same_level():
    one, two = (learn(Confusion(20, 5, 9, 16), passed=300, scored=400) for _ in range(2))
    assert one.level(300, 400) == two.level(300, 400)


@pytest.mark.parametrize("labels", [(50, 0, 0, 0), (0, 0, 0, 50), (0, 0, 0, 0)])
@pytest.mark.parametrize("passed", [0, 100])
@pytest.mark.parametrize("evaluator", ["judge", "local"])
def test_extreme_counts_give_valid_rates(labels, passed, evaluator):
    rates = learn(Confusion(*labels), passed=passed, scored=100)
    if evaluator == "local":
        bands = [ScoreBand(100 - passed, *labels[2:]), ScoreBand(passed, *labels[:2])]
        (rates,) = learn_lines(bands)
    for value in (rates.threshold(0.85), rates.highest_level(0.0), rates.lowest_level(1.0)):
        assert 0 <= value <= 1
    level, bounds = rates.level(0, 0)
    assert 0 <= bounds.low <= level <= bounds.high <= 1


def test_estimates_are_updated_at_fixed_label_counts():
    assert [renewed_at(n) for n in (0, 29, 30, 49, 50, 99, 5_000)] == [0, 0, 30, 30, 50, 50, 2_000]


def test_level_thresholds_are_the_quartile_and_median_of_first_scores():
    assert level_lines({10: 25, 50: 25, 80: 50}) == (50, 80)
    assert level_lines({10: 20, 100: 80}) == (100,)
    assert count_bands((50, 80), {10: 3, 50: 2, 79: 1, 80: 4}, [(79, True), (10, False)]) == [
        ScoreBand(3, 0, 1), ScoreBand(3, 1, 0), ScoreBand(4, 0, 0)
    ]  # fmt: skip


#: Good and bad answers in three bands of scores, of which a quarter, a quarter and half lie.
SHARES, GOOD = np.array([0.25, 0.25, 0.5]), {0.95: (0.82, 0.98, 0.999), 0.6: (0.2, 0.55, 0.825)}


def labelled_in_bands(level):
    """Return the bands of an app after 50 labels, drawn where they tell most."""
    bands = [ScoreBand(n) for n in 400 * SHARES]
    for _ in range(50):
        i = bands_to_label(bands)[0]
        good = RNG.random() < GOOD[level][i]
        bands[i] = bands[i]._replace(good=bands[i].good + good, bad=bands[i].bad + (not good))
    return bands


@pytest.mark.parametrize("level", GOOD)
def test_labels_in_bands_cover_the_level_of_their_period(level):
    found = [learn_lines(labelled_in_bands(level))[0].labelled_level() for _ in range(100)]
    truth = float(SHARES @ GOOD[level])
    assert np.mean([bounds.low <= truth <= bounds.high for _, bounds in found]) >= 0.94
    # Wilson's interval of 50 plain labels has an error of 3.1 and of 6.9 points.
    error = np.sqrt(np.mean([(mean - truth) ** 2 for mean, _ in found]))
    assert error < {0.95: 0.031, 0.6: 0.069}[level]


def test_labels_are_drawn_from_bands_with_mixed_answers():
    sick = labelled_in_bands(0.6)
    assert sick[2].good + sick[2].bad > 20
    assert all(band.good + band.bad >= 5 for band in sick)
    well = labelled_in_bands(0.95)
    assert well[0].good + well[0].bad > 15


def test_both_thresholds_show_a_later_fall_at_its_true_level():
    for _ in range(20):
        for line, rates in enumerate(learn_lines(labelled_in_bands(0.95))):
            truth = SHARES * GOOD[0.95]
            hit = truth[line + 1 :].sum() / truth.sum()
            miss = (SHARES - truth)[line + 1 :].sum() / (1 - truth.sum())
            level, bounds = rates.level(400 * (miss + 0.4 * (hit - miss)), 400)
            assert bounds.low <= 0.4 <= bounds.high
            assert rates.threshold(0.85) < miss + 0.97 * (hit - miss)
            assert level < 0.65
