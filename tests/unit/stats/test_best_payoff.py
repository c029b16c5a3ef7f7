"""What a sample pays that the judge was not asked about: what lets evidence grow fastest."""

import numpy as np
import pytest

from monitor.stats.evidence import Samples, Worth, sample_log_payoffs

NULL, BET = 0.85, 0.6


def paid(prediction, probability, *, asked=False, passed=False, weight=1.0, gain=None, **worth):
    one = np.ones(1)
    samples = Samples(
        np.zeros(1, dtype=np.int64), one * prediction, one * probability, one < asked * 2,
        one < passed * 2, one * weight, None if gain is None else one * gain,
    )  # fmt: skip
    found = sample_log_payoffs(samples, one[:, None] * NULL, one[:, None] * BET, Worth(**worth))
    return float(np.exp(found[0, 0]))


@pytest.mark.parametrize("prediction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("probability", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("size", [1.0, 0.4])
def test_payoff_of_unjudged_samples_is_growth_optimal(prediction, probability, size):
    stake = size * (NULL - BET) / (NULL * (1 - NULL))
    on_pass, on_fail = 1 - stake * (1 - NULL), 1 + stake * NULL
    left = 1 - probability
    h = np.linspace(1e-6, on_pass / left - 1e-6, 400_001)
    p = prediction * (1 + BET / NULL) / 2
    growth = left * np.log(h) + probability * (
        p * np.log((on_pass - left * h) / probability)
        + (1 - p) * np.log((on_fail - left * h) / probability)
    )
    best = h[np.argmax(growth)]
    assert paid(prediction, probability, size=size) == pytest.approx(best, abs=2e-5 / left)
    for passed, plain in ((True, on_pass), (False, on_fail)):
        expected = (plain - left * best) / probability
        found = paid(prediction, probability, asked=True, passed=passed, size=size)
        assert found == pytest.approx(expected, abs=1e-4 / probability)


def test_payoff_scales_with_weight_up_to_the_largest_weight():
    plain = paid(0.5, 1.0, asked=True, most_weight=4.0, mean_weight=4.0, weight=4.0)
    assert paid(0.5, 1.0, asked=True, most_weight=4.0, mean_weight=4.0, weight=9.0) == plain
    part = paid(0.5, 1.0, asked=True, most_weight=4.0, mean_weight=4.0, weight=1.0)
    assert part - 1 == pytest.approx((plain - 1) / 4)


def test_rare_heavy_samples_raise_the_stake_below_the_whole_wealth():
    stake = (NULL - BET) / (NULL * (1 - NULL))
    bolder = paid(0.5, 1.0, asked=True, weight=2.0, most_weight=2.0, mean_weight=1.6)
    assert bolder - 1 == pytest.approx(stake * 1.25 * NULL)
    assert paid(0.5, 1.0, asked=True, passed=True, weight=99.0, most_weight=99.0) > 0


def test_stake_grows_with_the_samples_worth():
    stake = 0.2 * (NULL - BET) / (NULL * (1 - NULL))
    found = paid(0.5, 1.0, asked=True, gain=2.5, size=0.2)
    assert found - 1 == pytest.approx(2.5 * stake * NULL)
