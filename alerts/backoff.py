"""How long to wait before a delivery is tried again."""

from __future__ import annotations

import random

#: The longest wait after each failed attempt, in seconds; the last one from then on.
STEPS_S = (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0)


def delay_s(attempt: int, rng: random.Random) -> float:
    """Draw the wait after a failed *attempt* (counted from 1), anywhere up to its step."""
    return rng.uniform(0.0, STEPS_S[min(attempt, len(STEPS_S)) - 1])
