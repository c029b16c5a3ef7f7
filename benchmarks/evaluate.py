"""
What one evaluation costs: 1,000 apps, 10 metrics, 24 hours of minutes, every stream with news.

    python benchmarks/evaluate.py

In memory, on one core: summing four windows from the minutes, their bounds at all looks, the
evidence and standing of every stream. Without the database, and without making and storing
verdicts as records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np

from monitor.models import Status, Tally
from monitor.rolling.baseline import Baseline
from monitor.rolling.budget import Rules, stream_budget
from monitor.rolling.evidence_walk import Looks
from monitor.rolling.memory import Memory, to_json
from monitor.rolling.standing import standing_of
from monitor.rolling.together import advance_all
from monitor.rolling.windows import window_stats
from monitor.stats.sequences import anytime_bounds

_STREAMS = 10_000
_MINUTES = 1440
_WINDOWS = (5, 60, 360, 1440)


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(1)
    n = rng.poisson(1.0, (_STREAMS, _MINUTES)).astype(np.int32)
    passed = rng.binomial(n, 0.92).astype(np.int32)
    baseline = Baseline((0.90,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)
    memories = [
        Memory.fresh(0.0).but(status=Status.HEALTHY, n_day=1440.0, baseline=baseline)
        for _ in range(_STREAMS)
    ]
    rules = Rules(false_alarms_per_month=stream_budget(1.0, roots=_STREAMS))
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    _timed("sums of four windows", lambda: sums.extend(_windows(n, passed)))
    _timed("bounds at all looks, 40,000", lambda: [anytime_bounds(s, size) for size, s in sums])
    hour = [_stats(int(size), int(s)) for size, s in zip(*sums[1], strict=True)]

    news = [
        Looks(np.array([5.0]), *np.array([[size], [good]], dtype=float))
        for size, good in zip(n[:, -1], passed[:, -1], strict=True)
    ]

    def look() -> None:
        found = advance_all(memories, news, rules)
        memories[:] = [memory for memory, _ in found]
        for memory, window in zip(memories, hour, strict=True):
            standing_of(memory, window, rules)

    _timed("evidence and standing, 10,000 with news", look)
    print(f"memory of a stream: {len(json.dumps(to_json(memories[0]))):,} bytes of JSON")


def _windows(n: np.ndarray, passed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (
            n[:, -width:].sum(axis=1, dtype=np.float64),
            passed[:, -width:].sum(axis=1, dtype=np.float64),
        )
        for width in _WINDOWS
    ]


def _stats(n: int, passed: int):  # noqa: ANN202 - a window's figures
    sums = {"sum_w": float(n), "sum_w2": float(n), "sum_wy": float(passed)}
    return window_stats(Tally(n=n, passed=passed, **sums))


def _timed(what: str, work: Callable[[], object]) -> None:
    began_s = time.process_time()
    work()
    print(f"{what}: {time.process_time() - began_s:.2f} s of CPU")


if __name__ == "__main__":
    main()
