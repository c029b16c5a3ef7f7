"""Confusion, kappa and majority against figures worked by hand."""

import numpy as np
import pytest

from monitor.stats.agreement import Confusion, confusion, majority, pairwise_agreement


def test_kappa_matches_the_textbook_example():
    # Two readers of 50 grant proposals: 20 yes-yes, 15 no-no, 5 and 10 split.
    found = Confusion(passed_good=20, passed_bad=5, failed_good=10, failed_bad=15)
    assert found.agreement == 0.7
    assert found.kappa == pytest.approx(0.4)


def test_perfect_agreement_is_kappa_one_and_opposition_is_negative():
    assert Confusion(10, 0, 0, 10).kappa == pytest.approx(1)
    assert Confusion(0, 10, 10, 0).kappa == pytest.approx(-1)


@pytest.mark.parametrize("counts", [Confusion(), Confusion(passed_good=7)])
def test_kappa_is_undefined_when_chance_explains_everything(counts):
    assert counts.kappa is None


def test_error_rates_are_shares_of_good_and_of_bad_answers():
    found = Confusion(passed_good=90, passed_bad=4, failed_good=10, failed_bad=16)
    assert (found.true_pass_rate, found.false_pass_rate) == (0.9, 0.2)
    assert Confusion(passed_good=3).false_pass_rate is None


def test_labels_balanced_by_verdict_are_weighted_back_to_all_samples():
    rng = np.random.default_rng(5)
    good = rng.random(40_000) < 0.9
    passed = rng.random(40_000) < np.where(good, 0.95, 0.3)
    every = confusion(zip(passed, good, strict=True))
    drawn = np.concatenate([np.flatnonzero(passed)[:2_000], np.flatnonzero(~passed)[:2_000]])
    half = confusion((passed[i], good[i]) for i in drawn)
    whole = half.at_pass_rate(passed.mean())
    assert half.agreement != pytest.approx(every.agreement, abs=0.05)
    assert whole.kappa == pytest.approx(every.kappa, abs=0.03)
    assert whole.agreement == pytest.approx(every.agreement, abs=0.02)


def test_weighting_keeps_a_confusion_with_one_verdict_only():
    assert Confusion(passed_good=8, passed_bad=2).at_pass_rate(0.5) == Confusion(0.8, 0.2)


def test_majority_of_annotators_decides_and_a_tie_is_undecided():
    assert [majority(*votes) for votes in ((2, 1), (0, 1), (1, 1))] == [True, False, None]


def test_annotators_agree_pair_by_pair():
    assert pairwise_agreement([(3, 0), (2, 1), (1, 0)]) == pytest.approx(4 / 6)
    assert pairwise_agreement([(1, 0)]) is None


def test_weighted_confusion_has_kishs_effective_size():
    pairs = [(True, True), (True, False), (False, False)]
    assert confusion(pairs, [7.0, 7.0, 2.0]) == pytest.approx(confusion(pairs))
    # Bad answers are asked about nine times as often as good ones.
    many = [(True, True)] * 100 + [(True, False)] * 90
    found = confusion(many, [9.0] * 100 + [1.0] * 90)
    assert found.passed_bad / found.n == pytest.approx(90 / 990)
    assert found.n == pytest.approx(990**2 / (100 * 81 + 90))
