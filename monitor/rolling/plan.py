"""
Plan how much to sample: how soon a fall of a stated size would be found at each sample rate.

Falls are played from the stream's present evidence through the code that decides live, so a plan
needs no formula: it holds as far as samples after the fall are independent but for the design
effect that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.rolling.anytime import advance_all
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules

#: Sample rates that a plan compares.
RATES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_FALLS: Final = 200
_CHUNK: Final = 50
_MOST_SAMPLES: Final = 2_000

Floats = NDArray[np.float64]


class Detection(NamedTuple):
    """
    When falls of one size are found at one sample rate, in seconds after the fall.

    ``median_s``, ``fast_s`` and ``slow_s`` are the 50, 10 and 90 % quantiles, infinite beyond 2,000
    samples; ``samples`` is the median number of scores until then.
    """

    sample_rate: float
    per_hour: float
    samples: float
    fast_s: float
    median_s: float
    slow_s: float


def detections(
    state: EvidenceState,
    rules: Rules,
    *,
    after: float,
    seen_per_hour: float,
    rates: Sequence[float] = RATES,
    seed: int = 0,
) -> list[Detection]:
    """
    Play 200 falls to pass rate *after* at each sample rate.

    Parameters
    ----------
    state
        Of a stream without an alarm.
    rules
        Thresholds and false-alarm budget of the stream.
    after
        Pass rate after the fall, in [0, 1].
    seen_per_hour
        Requests that the hook sees, above 0. They arrive as a Poisson process.
    rates
        Sample rates in (0, 1].
    seed
        Of the falls.

    Raises
    ------
    ValueError
        If the stream is in an alarm.
    """
    if state.alarmed:
        raise ValueError("a plan starts from a stream without an alarm")
    return [
        _detection(
            rate, rate * seen_per_hour, delays_s(state, rules, after, rate * seen_per_hour, seed)
        )
        for rate in rates
    ]


def delays_s(
    state: EvidenceState, rules: Rules, after: float, per_hour: float, seed: int
) -> Floats:
    """Return how long each of 200 falls takes to raise an alarm, in seconds; infinite if not."""
    rng = np.random.default_rng(seed)
    found = np.full(_FALLS, np.inf)
    states, rows = [state] * _FALLS, np.arange(_FALLS)
    clock = np.full(_FALLS, state.at_s)
    effect = state.baseline.effect
    for _ in range(_MOST_SAMPLES // _CHUNK):
        gaps = rng.exponential(3600.0 / per_hour, (len(rows), _CHUNK))
        times = clock[rows, None] + np.cumsum(gaps, axis=1)
        passed = rng.random(times.shape) < after
        size = np.full(_CHUNK, 1.0 / effect)
        looks = [
            Looks(t, np.ones(_CHUNK), size, size * p) for t, p in zip(times, passed, strict=True)
        ]
        moved = advance_all(states, looks, rules)
        clock[rows] = times[:, -1]
        for row, (_, turns) in zip(rows, moved, strict=True):
            alarms = [turn.time_s for turn in turns if turn.status.value in {"warning", "critical"}]
            found[row] = min(alarms, default=np.inf) - state.at_s
        left = [i for i, row in enumerate(rows) if np.isinf(found[row])]
        states, rows = [moved[i][0] for i in left], rows[left]
        if not left:
            break
    return found


def _detection(rate: float, per_hour: float, delays: Floats) -> Detection:
    fast, median, slow = (float(np.quantile(delays, q, method="higher")) for q in (0.1, 0.5, 0.9))
    return Detection(rate, per_hour, median / 3600.0 * per_hour, fast, median, slow)
