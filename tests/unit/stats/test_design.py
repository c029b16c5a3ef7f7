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


def test_independent_samples_have_a_design_effect_of_one():
    found = [
        design_effect(*minutes(np.random.default_rng(k), 9000, size=1, shared=0)) for k in range(20)
    ]
    assert all(effect.known for effect in found)
    assert np.mean([effect.factor for effect in found]) < 1.05


def test_correlated_sessions_have_the_expected_design_effect():
    found = design_effect(*minutes(np.random.default_rng(1), 3000, size=3, shared=0.6))
    assert found.factor == pytest.approx(2.2, abs=0.5)


def test_daily_cycle_does_not_raise_the_design_effect():
    rng = np.random.default_rng(2)
    bucket = np.arange(2880)
    rate = 0.9 + 0.03 * np.sin(bucket / 1440 * 2 * np.pi)
    n = np.full(2880, 10.0)
    assert design_effect(bucket, rng.binomial(10, rate).astype(float), n).factor < 1.2


def test_young_stream_has_the_default_design_effect():
    found = design_effect(np.arange(40), np.ones(40), np.ones(40))
    assert design_effect(np.arange(40), np.zeros(40), np.ones(40)) == found
    assert found == (USUAL_EFFECT, False)
    assert design_effect(np.arange(0), np.zeros(0), np.zeros(0)) == (USUAL_EFFECT, False)


def size_of(w, y):
    sums = [float(x.sum()) for x in (w, w * w, w * w * y, w * w * y * y)]
    return effective_size(len(w), *sums, float((w * y).sum() / w.sum()))


@pytest.mark.parametrize("weight", [1.0, 20.0])
def test_equal_weights_have_full_effective_size(weight):
    assert size_of(np.full(50, weight), np.arange(50) % 2) == pytest.approx(50)


def test_unequal_weights_reduce_the_effective_size():
    assert size_of(np.array([1.0] * 50 + [20.0] * 5), np.arange(55) % 2) < 12


def test_highly_variable_estimates_have_a_small_effective_size():
    estimates = np.array([10.0] * 10 + [0.0] * 90)
    assert size_of(np.ones(100), estimates * 0.8) < 30


def test_effective_size_is_kishs_when_all_samples_passed():
    assert size_of(np.array([1.0, 3.0]), np.ones(2)) == pytest.approx(16 / 10)


def alternating(width, high, low, n, blocks=40):
    """Return buckets of *n* samples whose pass rate changes from block to block of that width."""
    bucket = np.arange(width * blocks)
    rate = np.where(bucket // width % 2, low, high)
    return bucket, rate * n, np.full(bucket.size, float(n))


@pytest.mark.parametrize(("width", "n"), [(15, 1), (15, 6)])
def test_design_effect_is_the_successive_difference_variance_ratio(width, n):
    """Two blocks of 15 n samples each differ by 4 points, at a rate of 90 %, every time."""
    found = design_effect(*alternating(width, 0.92, 0.88, n))
    expected = 0.04**2 / (2 / (15 * n) * 0.9 * 0.1)
    noise = 1 + 2.33 * np.sqrt(3 / 40)
    assert found == (pytest.approx(expected) if expected > noise else 1.0, True)


def test_young_stream_uses_its_measured_design_effect_only_if_larger():
    steady, jumping = (
        design_effect(*alternating(15, *rates, n=10, blocks=29)) for rates in
        ((0.9, 0.9), (0.93, 0.85))
    )  # fmt: skip
    assert steady == (USUAL_EFFECT, False)
    mean = (15 * 0.93 + 14 * 0.85) / 29
    assert jumping == (pytest.approx(0.08**2 / (2 / 150 * mean * (1 - mean))), False)


def test_design_effect_is_at_most_ten():
    assert design_effect(*alternating(15, 1.0, 0.5, n=50)).factor == 10.0


def test_time_gaps_form_no_blocks():
    """Forty blocks of which every second one is empty are twenty."""
    bucket, passed, n = alternating(15, 0.9, 0.9, n=5, blocks=58)
    some = bucket // 15 % 2 == 0
    assert not design_effect(bucket[some], passed[some], n[some]).known
    assert design_effect(bucket, passed, n).known


@pytest.mark.parametrize(("beyond", "bounded"), [(1.05, 1.0), (-0.05, 0.0), (1.0, 1.0)])
def test_effective_size_of_a_rate_outside_zero_to_one_is_shrunk_inwards(beyond, bounded):
    """Eight samples that count alike, whose estimates lie a half above and below their mean."""
    y = beyond + np.tile([0.5, -0.5], 4)
    drawn = (bounded * 8 + 2) / (8 + 4)
    assert size_of(np.ones(8), y) == pytest.approx(min(8, drawn * (1 - drawn) / (0.25 / 8)))
    assert size_of(np.full(8, 20.0), y) == pytest.approx(size_of(np.ones(8), y))
