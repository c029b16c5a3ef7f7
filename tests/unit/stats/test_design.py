"""What dependent and weighted samples are worth."""

import numpy as np
import pytest

from monitor.stats.intervals import USUAL_EFFECT, design_effect, effective_size


def minutes(rng, n_sessions, *, size, shared):
    start = np.sort(rng.random(n_sessions)) * 2880
    alike = rng.random(n_sessions) < shared
    draw = rng.random((n_sessions, size))
    draw[alike] = draw[alike, :1]
    minute = (start[:, None] + np.arange(size) / 3).astype(np.int64).ravel()
    bucket, place = np.unique(minute, return_inverse=True)
    return bucket, np.bincount(place, (draw < 0.9).ravel()), np.bincount(place).astype(float)


def test_independent_samples_have_none():
    found = [
        design_effect(*minutes(np.random.default_rng(k), 9000, size=1, shared=0)) for k in range(20)
    ]
    assert all(effect.known for effect in found)
    assert np.mean([effect.factor for effect in found]) < 1.05


def test_sessions_of_three_that_share_their_outcome_have_about_two():
    found = design_effect(*minutes(np.random.default_rng(1), 3000, size=3, shared=0.6))
    assert found.factor == pytest.approx(2.2, abs=0.5)


def test_day_and_night_are_no_dependence():
    rng = np.random.default_rng(2)
    bucket = np.arange(2880)
    rate = 0.9 + 0.03 * np.sin(bucket / 1440 * 2 * np.pi)
    n = np.full(2880, 10.0)
    assert design_effect(bucket, rng.binomial(10, rate).astype(float), n).factor < 1.2


def test_little_is_known_of_a_young_stream():
    found = design_effect(np.arange(40), np.ones(40), np.ones(40))
    assert design_effect(np.arange(40), np.zeros(40), np.ones(40)) == found
    assert found == (USUAL_EFFECT, False)
    assert design_effect(np.arange(0), np.zeros(0), np.zeros(0)) == (USUAL_EFFECT, False)


def size_of(w, y):
    sums = [float(x.sum()) for x in (w, w * w, w * w * y, w * w * y * y)]
    return effective_size(len(w), *sums, float((w * y).sum() / w.sum()))


@pytest.mark.parametrize("weight", [1.0, 20.0])
def test_equal_weights_are_worth_their_number(weight):
    assert size_of(np.full(50, weight), np.arange(50) % 2) == pytest.approx(50)


def test_unequal_weights_are_worth_less():
    assert size_of(np.array([1.0] * 50 + [20.0] * 5), np.arange(55) % 2) < 12


def test_estimates_that_vary_more_than_a_pass_are_worth_less():
    estimates = np.array([10.0] * 10 + [0.0] * 90)
    assert size_of(np.ones(100), estimates * 0.8) < 30


def test_kish_decides_when_all_passed():
    assert size_of(np.array([1.0, 3.0]), np.ones(2)) == pytest.approx(16 / 10)
