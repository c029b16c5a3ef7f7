"""Back-off grows, has a ceiling, and is spread out."""

import random

import pytest

from alerts.dispatch import STEPS_S, delay_s


@pytest.mark.parametrize("attempt", range(1, 12))
def test_the_delay_lies_within_its_step(attempt):
    step_s = STEPS_S[min(attempt, len(STEPS_S)) - 1]
    delays = [delay_s(attempt, random.Random(seed)) for seed in range(200)]
    assert min(delays) >= 0
    assert step_s * 0.9 < max(delays) <= step_s


def test_the_delay_follows_from_the_generator():
    assert delay_s(3, random.Random(7)) == delay_s(3, random.Random(7))
